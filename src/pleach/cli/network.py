"""`pleach network`: the files of a new network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pleach.access.identity import why_no_network
from pleach.cli.terminal import Console, escape
from pleach.founding.layout import BROKERS_MAX, NewNetwork, laid_out
from pleach.founding.write import README, write_network

PORT, NAME = 7_100, "pleach"

app = typer.Typer(
    help="Write the files of a new network.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
def _network() -> None:
    pass


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty directory.")],
    brokers: Annotated[int, typer.Option(help=f"How many: 2 to {BROKERS_MAX}.")] = 3,
    name: Annotated[str, typer.Option(help="Name of the network; by default the directory's, if it can be one.")] = "",
    host: Annotated[
        str,
        typer.Option(
            help="HOST[,HOST…] of the brokers' machines, taken in turn; others than this one need --tls or --insecure."
        ),
    ] = "127.0.0.1",
    zones: Annotated[str, typer.Option(help="ZONE[,ZONE…], taken in turn: copies are in another zone.")] = "",
    port: Annotated[
        int, typer.Option(help="Ports of clients are above this one; brokers' 100, operators' 200 more.")
    ] = PORT,
    tls: Annotated[bool, typer.Option("--tls", help="Make certificates, and files of who may do what.")] = False,
    insecure: Annotated[bool, typer.Option("--insecure", help="Be open to other machines without --tls.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a directory for each broker, and a README.md with the commands that start, show, use and stop them.

    Each broker has the whole profile: a data directory, leases, a copy on another machine, the council, relays.

    Example: `pleach network init acme --brokers 5 --zones east,west --tls`, and `less acme/README.md`
    """
    network = laid_out(
        name or _named_after(directory),
        count=brokers,
        hosts=_parts(host),
        zones=_parts(zones),
        port=port,
        is_secured=tls,
        is_insecure=insecure,
    )
    with Console(stderr=True).status(f"{escape(str(directory))}: {brokers} brokers") as shown:
        write_network(network, directory, told=lambda each: shown.update(f"{escape(str(directory))}: {each}"))
    if as_json:
        typer.echo(msgspec.json.encode(_told(network, directory)).decode())
    else:
        typer.echo(f"{directory}: {brokers} brokers; the commands are in {directory / README}")


def _named_after(directory: Path) -> str:
    name = directory.absolute().name
    return NAME if why_no_network(name) else name


def _parts(text: str) -> list[str]:
    """Also with a space behind each comma."""
    return [part for part in map(str.strip, text.split(",")) if part]


def _told(network: NewNetwork, directory: Path) -> dict[str, object]:
    brokers = [
        {
            "name": each.name,
            "zone": each.zone,
            "client": str(each.client),
            "peer": str(each.peer),
            "admin": str(each.admin),
        }
        for each in network.brokers
    ]
    return {"directory": str(directory), "readme": str(directory / README), "brokers": brokers}
