"""`pleach dashboard`: the tree of brokers in a browser."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pleach.cli.arguments import Via
from pleach.cli.interrupt import run_until_interrupted
from pleach.cli.terminal import Console
from pleach.errors import InvalidInputError, SettingsError
from pleach.net.addresses import Address, parse_address
from pleach.net.allowed_hosts import Hosts
from pleach.operate.survey import admin_addresses, survey
from pleach.server.http.routes import Site
from pleach.server.http.server import AdminServer
from pleach.web.live_source import LiveSource
from pleach.web.replay import TraceSource
from pleach.web.simulated_source import BROKERS_MAX, SimulatedSource
from pleach.web.site import Dashboard
from pleach.web.source import Source

LISTEN = "127.0.0.1:7800"


def dashboard(
    brokers: Annotated[
        list[str] | None, typer.Argument(help="Any broker's admin address (HOST:PORT), or directories of ready lines.")
    ] = None,
    via: Via = None,
    listen: Annotated[str, typer.Option(help="HOST:PORT of the dashboard; port 0: any free port.")] = LISTEN,
    name: Annotated[
        list[str] | None, typer.Option(help="A host name, besides addresses, at which browsers reach it.")
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Replay runs of this lake or trace, instead of brokers.")] = None,
    simulate: Annotated[
        int, typer.Option(help="Show this many simulated brokers instead.", min=0, max=BROKERS_MAX)
    ] = 0,
    seed: Annotated[int, typer.Option(help="For --simulate.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line with its address.")] = False,
) -> None:
    """Show the tree of running brokers in a browser, and change it there. Runs until Ctrl-C.

    It has no access control of its own: anyone who reaches its port may do what its --tls or --token-file may, so it
    listens on the loopback interface.
    Every broker shows the same page at /dashboard/ of its admin port.

    Example: `pleach dashboard 127.0.0.1:7301`, `pleach dashboard --trace runs/`, `pleach dashboard --simulate 1000`
    """
    places = [*(brokers or []), *(via or [])]
    if (bool(places) + bool(trace) + bool(simulate)) != 1:
        raise InvalidInputError("give one of: a broker's admin address, --trace LAKE, --simulate N")
    source = _source(places, trace, simulate, seed)
    run_until_interrupted(_serve(source, places, listen, name or [], as_json=as_json))


def _source(places: list[str], trace: Path | None, simulate: int, seed: int) -> Source:
    if trace:
        return TraceSource(trace)
    if simulate:
        return SimulatedSource(simulate, seed)
    addresses = admin_addresses(places)
    return LiveSource(lambda: addresses, f"seen from {addresses[0]}")


async def _serve(source: Source, places: list[str], listen: str, names: list[str], *, as_json: bool) -> None:
    if places:
        await _check_any_answers(places)
    _, url = await opened(source, listen, names)
    if as_json:
        typer.echo(msgspec.json.encode({"ready": True, "url": url}).decode())
    else:
        Console().print(f"dashboard: [bold]{url}[/]   (Ctrl-C ends it)", highlight=False)
    await asyncio.Event().wait()


async def opened(source: Source, listen: str, names: Sequence[str] = ()) -> tuple[asyncio.Server, str]:
    """A dashboard that listens, and its URL."""
    address = parse_address(listen, key="--listen")
    hosts = Hosts([*names, address.host], "open it by its address, or allow that name with --name")
    try:
        server = await AdminServer(Site(Dashboard(source).routes, hosts)).listen(address.host, address.port)
    except OSError as error:
        remedy = "another dashboard may use it; give a free port with --listen, or port 0 for any"
        raise SettingsError("--listen", f"{listen}: {error.strerror}", remedy) from None
    host, port, *_ = server.sockets[0].getsockname()
    return server, f"http://{Address(host, port)}/dashboard/"


async def _check_any_answers(places: list[str]) -> None:
    """Report a mistyped address at once, instead of showing an empty page."""
    found = await survey(places)
    if not found.found:
        raise found.nobody()
