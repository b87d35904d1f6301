"""`pleach broker move` and `pleach standby promote`: brokers on other machines, as planned, or where one is lost.

Exit codes: 0 done, 1 refused or not carried out, 2 unusable input.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
import typer

from pleach.cli.arguments import EXIT_REFUSED, AsJson, Via, places
from pleach.cli.terminal import Console, escape
from pleach.errors import InvalidInputError
from pleach.net.http_client import ask
from pleach.operate.broker_move import MoveEnd, move_broker
from pleach.operate.survey import survey
from pleach.server.standby.registers import display

MOVE_SECONDS_MAX = 600.0
HELD = """There is a copy of {broker} here, of view {view}, whose primary was {primary}.
You say that the machine of the primary, and every other one with a copy, is LOST FOR GOOD. What was confirmed since
this copy was cut off is lost. If one of them comes back, what it has confirmed meanwhile is lost as well."""
LED = """{broker} runs here, and waits for the other machines of view {view}.
You say that they are LOST FOR GOOD, and that it shall go on with the only copy until there is another one."""
RATHER = """Where a majority of the machines of a view answer, they choose others themselves, and nothing is lost:
rather start machines that are only switched off."""


def move(
    broker: Annotated[str, typer.Argument(help="The broker that moves.")],
    to: Annotated[str, typer.Option(help="HOST:PORT for peers of a broker or `pleach standby`, or its name.")],
    via: Via = None,
    as_json: AsJson = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for it.", min=1.0, max=86_400.0)] = MOVE_SECONDS_MAX,
) -> None:
    """Move a broker that has standbys to another machine, while events flow: nothing is lost.

    Its data is copied there, records follow, and the machine takes over. The broker has another address then, which
    its neighbours and clients are told.

    Example: `pleach broker move b --to 10.0.0.7:7200 --via 10.0.0.2:7300`
    """
    with Console(stderr=True).status(f"{escape(broker)} moves to {escape(to)}") as shown:

        def tell(phase: str) -> None:
            shown.update(f"{escape(broker)} moves to {escape(to)}: {escape(phase)}")

        end = asyncio.run(_moved(places(via), broker, to, timeout, tell))
    if as_json:
        place = end.place._asdict() if end.place else None
        typer.echo(msgspec.json.encode({"broker": broker, "place": place, "reason": end.reason}).decode())
    elif end.place is not None:
        Console().print(
            f"{escape(broker)} runs on {escape(display(end.place.machine))}, in view {end.place.view}", highlight=False
        )
    else:
        Console(stderr=True).print(f"[red]not moved[/]: {escape(end.reason)}", highlight=False, soft_wrap=True)
    if end.place is None:
        raise typer.Exit(EXIT_REFUSED)


async def _moved(via: list[str], broker: str, to: str, seconds: float, tell: Any) -> MoveEnd:
    return await move_broker(await survey(via), broker, to, seconds_max=seconds, tell=tell)


def promote(
    broker: Annotated[str, typer.Argument(help="The broker whose machine is lost.")],
    via: Via = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a broker from the copy that a machine holds, without a majority: its other machines are lost for good.

    `--via` is the operators' port of the machine that holds the copy. If the broker runs there, and waits for its other
    machines, it goes on without them.

    Example: `pleach standby promote b --via 10.0.0.3:7300`
    """
    address, *others = places(via)
    if others:
        raise InvalidInputError("--via: one machine is wanted, whose copy is to be used")
    known = asyncio.run(ask(address, "/standby")).value
    held, led = (known.get(key, {}).get(broker) for key in ("holds", "leads"))
    if held is None and led is None:
        raise InvalidInputError(f"{address} holds no copy of {broker}; GET /standby there says what it holds")
    if not yes:
        _warn(broker, HELD if held else LED, held or led)
        typer.confirm(f"Run {broker} from this copy?", abort=True, err=True)
    answer = asyncio.run(ask(address, "/standby/promote", {"broker": broker}))
    if as_json:
        typer.echo(msgspec.json.encode(answer.value).decode())
    elif answer.is_ok:
        Console().print(f"{escape(broker)} runs there, in view {answer.value['view']}", highlight=False)
    else:
        reason = escape(str(answer.value.get("error", answer.value)))
        Console(stderr=True).print(f"[red]refused[/]: {reason}", highlight=False, soft_wrap=True)
    if not answer.is_ok:
        raise typer.Exit(EXIT_REFUSED)


def _warn(broker: str, text: str, known: dict[str, Any]) -> None:
    console = Console(stderr=True)
    told = text.format(broker=broker, view=known.get("view"), primary=display(str(known.get("primary"))))
    for line in (*told.splitlines(), *RATHER.splitlines()):
        console.print(escape(line), highlight=False, soft_wrap=True)
