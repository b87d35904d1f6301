"""`pleach overlay`: the tree of brokers, as it is. How it is changed: reweave.py."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pleach.cli import drain, heal, improve, plan, remove, reweave
from pleach.cli.reweave import Via
from pleach.cli.ring import draw_ring, report_of
from pleach.cli.tree import draw_survey
from pleach.errors import InvalidInputError, UnreachableError
from pleach.net.http_client import ask
from pleach.operate.survey import Survey, survey

EXIT_INCOMPLETE = 1

app = typer.Typer(help="The tree of brokers: look at it, and change it while events flow.", no_args_is_help=True)
app.command("swap")(reweave.swap)
app.command("exchange")(reweave.exchange)
app.command("add")(reweave.add)
app.command("remove")(remove.remove)
app.command("drain")(drain.drain)
app.command("heal")(heal.heal)
app.command("plan")(plan.plan)
app.command("apply")(reweave.apply)
app.command("improve")(improve.improve_tree)


@app.command("show")
def show(
    brokers: Annotated[
        list[str] | None, typer.Argument(help="Admin addresses (HOST:PORT), or directories with ready lines.")
    ] = None,
    via: Via = None,
    ring: Annotated[
        bool, typer.Option("--ring", help="Exit with 1 also while the tree is not that of the ring.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Ask brokers for their state, walk to their neighbours, and draw the tree. Exits with 1 if one is not ready.

    Of brokers that are in a ring the ring is drawn as well: who has which keys, and where the tree differs.

    Example: `pleach overlay show 127.0.0.1:7300`
    """
    found = asyncio.run(survey(reweave.places([*(brokers or []), *(via or [])])))
    report = report_of(found)
    if ring and not report.members:
        raise InvalidInputError("none of these brokers is in a ring; start them with --ring and --join")
    if as_json:
        raw = {name: status.raw for name, status in found.found.items()}
        shown = {"brokers": raw, "failed": found.unreachable, **({"ring": report} if report.members else {})}
        typer.echo(msgspec.json.encode(shown).decode())
    else:
        draw_survey(Console(), found)
        if report.members:
            draw_ring(Console(), found, report)
    is_ready = all(status.ready for status in found.found.values()) and not found.unreachable
    if not is_ready or (ring and not report.is_followed):
        raise typer.Exit(EXIT_INCOMPLETE)


@app.command("status")
def status(
    via: Via = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """The last reconfigurations that brokers were asked for, and what is under way. Exits with 1 if one is silent.

    Example: `pleach overlay status --via 127.0.0.1:7300`
    """
    found, operations = asyncio.run(_operations(reweave.places(via or [])))
    if as_json:
        typer.echo(msgspec.json.encode({"brokers": operations, "failed": found.unreachable}).decode())
    else:
        Console().print(_table(found, operations))
    if found.unreachable:
        raise typer.Exit(EXIT_INCOMPLETE)


async def _operations(places: list[str]) -> tuple[Survey, dict[str, Any]]:
    found = await survey(places)
    known: dict[str, Any] = {}
    for name, address in sorted(found.admin.items()):
        try:
            known[name] = (await ask(address, "/overlay/operations")).value
        except UnreachableError as error:
            found.unreachable[name] = error.reason
    return found, known


def _table(found: Survey, operations: dict[str, Any]) -> Table:
    table = Table("broker", "operation", "what", "state", "phase or reason", box=None)
    for name, known in operations.items():
        for each in known["operations"]:
            what = f"{each['what']} {', '.join(each['brokers'])}"
            row = (name, each["name"], what, each["state"], each["reason"] or each["phase"])
            table.add_row(*map(escape, row))
        if known["locked_for"] and known["locked_for"] not in [each["name"] for each in known["operations"]]:
            table.add_row(*map(escape, (name, known["locked_for"], "", "takes part", "")))
        if (healing := found.found[name].heal) and healing.stand_in:
            table.add_row(*map(escape, (name, "", "stand-in", healing.stand_in, "")))
        if waits := found.found[name].leaving.waits_for:
            table.add_row(*map(escape, (name, "", "leaving", "waits for", ", ".join(waits))))
    return table
