"""`pleach component`: components, which are hosted by brokers. They move as clients do: `pleach client move`.

Exit codes: 0 done, 1 refused, 2 unusable input.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated

import msgspec
import typer

from pleach.cli.arguments import EXIT_REFUSED, AsJson, Timeout, Via, places
from pleach.cli.terminal import Console, escape
from pleach.core.overlay.plans.topology import stranger
from pleach.errors import SurveyError
from pleach.net.http_client import ask
from pleach.operate.apply import STEP_SECONDS_MAX
from pleach.operate.survey import Survey, settled_survey

app = typer.Typer(help="Components that running brokers host.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name of the component, unique among clients.")]
Filters = Annotated[list[str] | None, typer.Option(help="A filter; may be repeated.")]


@app.command("host")
def host(
    name: Name,
    kind: Annotated[str, typer.Argument(help="Its kind: running-sum, or one from the broker's settings.")],
    at: Annotated[str, typer.Option(help="The broker that hosts it first.")],
    subscribe: Filters = None,
    advertise: Filters = None,
    via: Via = None,
    as_json: AsJson = False,
    timeout: Timeout = STEP_SECONDS_MAX,
) -> None:
    """Start a component at a broker.

    Example: `pleach component host sums running-sum --at a --subscribe "EXISTS amount" --via 127.0.0.1:7300`
    """
    found = asyncio.run(settled_survey(places(via)))
    if at not in found.found:
        raise stranger(at, found.found)
    body = {"name": name, "kind": kind, "subscribe": subscribe or [], "advertise": advertise or []}
    _ask(found.admin[at], "/components", body, timeout, f"{name} is hosted by {at}", as_json=as_json)


@app.command("end")
def end(name: Name, via: Via = None, as_json: AsJson = False, timeout: Timeout = STEP_SECONDS_MAX) -> None:
    """End a component, wherever it is, and delete its state.

    Example: `pleach component end sums --via 127.0.0.1:7300`
    """
    found = asyncio.run(settled_survey(places(via)))
    at = next((broker for broker, status in sorted(found.found.items()) if name in status.components), "")
    if not at:
        raise SurveyError(f"no broker hosts a component {name!r}", remedy="`pleach component list` lists them")
    _ask(found.admin[at], "/components/end", {"name": name}, timeout, f"{name} has ended", as_json=as_json)


@app.command("list")
def show(via: Via = None, as_json: AsJson = False) -> None:
    """List components with their brokers and failures.

    Example: `pleach component list --via 127.0.0.1:7300`
    """
    found = asyncio.run(settled_survey(places(via)))
    rows = _rows(found)
    if as_json:
        typer.echo(msgspec.json.encode(rows).decode())
        return
    for row in rows:
        state = "has failed" if row["failed"] else "works"
        complaint = f": {row['complaint']}" if row["complaint"] else ""
        line = f"{row['component']}, a {row['kind']}, at {row['broker']} {state}{complaint}"
        Console().print(line, highlight=False, markup=False, soft_wrap=True)
    if not rows:
        Console(stderr=True).print("no broker hosts a component")


def _rows(found: Survey) -> list[dict[str, object]]:
    return [
        {"component": name, "broker": broker, **msgspec.to_builtins(component)}
        for broker, status in sorted(found.found.items())
        for name, component in sorted(status.components.items())
    ]


def _ask(admin: str, path: str, body: Mapping[str, object], seconds: float, done: str, *, as_json: bool) -> None:
    with Console(stderr=True).status("asking"):
        answer = asyncio.run(ask(admin, path, {**body, "timeout": seconds}, seconds_max=2 * seconds))
    if as_json:
        typer.echo(msgspec.json.encode(answer.value).decode())
    elif answer.is_ok:
        Console().print(escape(done), highlight=False)
    else:
        Console(stderr=True).print(f"[red]refused[/]: {escape(answer.value['error'])}", highlight=False)
    if not answer.is_ok:
        raise typer.Exit(EXIT_REFUSED)
