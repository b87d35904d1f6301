"""`pleach overlay`: the tree of brokers, as it is."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from pleach.errors import InvalidInputError
from pleach.live.config import parse_address

TIMEOUT_SECONDS = 5.0
EXIT_INCOMPLETE = 1

app = typer.Typer(help="The tree of brokers: look at it.", no_args_is_help=True)


class Neighbour(msgspec.Struct):
    """As far as the picture needs it; /status says more."""

    up: bool
    queued: int


class Client(msgspec.Struct):
    up: bool
    queued: int
    subscriptions_count: int


class Status(msgspec.Struct):
    name: str
    ready: bool
    durable: bool
    reasons: list[str]
    neighbours: dict[str, Neighbour]
    clients: dict[str, Client]


class ReadyLine(msgspec.Struct):
    """What a broker prints when it listens."""

    admin: str


@app.callback()
def _overlay() -> None:
    pass


@app.command("show")
def show(
    brokers: Annotated[list[str], typer.Argument(help="Admin addresses (HOST:PORT), or directories with ready lines.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Ask brokers for their state and draw the tree. Exits with 1 if one does not answer or is not ready.

    Example: `pleach overlay show 127.0.0.1:7300 127.0.0.1:7301`
    """
    found: dict[str, Status] = {}
    raw: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for address in _addresses(brokers):
        try:
            body = _ask(address)
            status = msgspec.json.decode(body, type=Status)
            found[status.name], raw[status.name] = status, msgspec.json.decode(body)
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            failed[address] = str(error) or type(error).__name__
    if as_json:
        typer.echo(msgspec.json.encode({"brokers": raw, "failed": failed}).decode())
    else:
        _draw(Console(), found, failed)
    if failed or not all(status.ready for status in found.values()):
        raise typer.Exit(EXIT_INCOMPLETE)


def _addresses(places: list[str]) -> list[str]:
    found = []
    for place in places:
        folder = Path(place)
        found += (
            [_admin_of(file) for file in sorted(folder.iterdir()) if file.is_file()] if folder.is_dir() else [place]
        )
    if not found:
        raise InvalidInputError(
            f"no ready lines in {', '.join(places)}: start brokers with `pleach broker … > DIR/NAME`"
        )
    return found


def _admin_of(file: Path) -> str:
    try:
        return msgspec.json.decode(file.read_bytes(), type=ReadyLine).admin
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"{file}: no ready line of a broker: {error}") from None


def _ask(address: str) -> bytes:
    host, port = parse_address(address, key="admin address")
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/status")
        return connection.getresponse().read()
    finally:
        connection.close()


# The picture ---------------------------------------------------------------------------------------------------


def _draw(console: Console, found: dict[str, Status], failed: dict[str, str]) -> None:
    seen: set[str] = set()
    for name in found:  # one tree, unless brokers in between were not asked
        if name not in seen:
            root = Tree(_label(name, found), guide_style="dim")
            _grow(root, name, found, seen)
            console.print(root)
    for address, reason in failed.items():
        console.print(f"[red]{escape(address)} does not answer[/]: {escape(reason)}", soft_wrap=True)


def _grow(branch: Tree, name: str, found: dict[str, Status], seen: set[str]) -> None:
    seen.add(name)
    if name not in found:
        return
    for client, state in sorted(found[name].clients.items()):
        branch.add(f"[cyan]{escape(client)}[/] {state.subscriptions_count} subscriptions{_queue(state)}")
    for neighbour, link in sorted(found[name].neighbours.items()):
        if neighbour in seen:
            continue
        back = found[neighbour].neighbours.get(name) if neighbour in found else None
        queues = _queue(link, "→") + (_queue(back, "←") if back else "")
        _grow(branch.add(_label(neighbour, found) + queues), neighbour, found, seen)


def _label(name: str, found: dict[str, Status]) -> str:
    if name not in found:
        return f"[dim]{escape(name)} (not asked)[/]"
    status = found[name]
    kind = "" if status.durable else " [dim]in memory[/]"
    return f"[bold]{escape(name)}[/]{kind}" + ("" if status.ready else f" [red]{escape('; '.join(status.reasons))}[/]")


def _queue(link: Neighbour | Client, arrow: str = "") -> str:
    waiting = f" {arrow}{link.queued:,} queued" if link.queued else ""
    return waiting + ("" if link.up else " [red]down[/]")
