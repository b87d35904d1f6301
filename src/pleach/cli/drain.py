"""`pleach overlay drain`: move all clients of a broker to other brokers, at a given rate.

Exit codes: 0 no client is left, 1 some could not be moved, 2 unusable input.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from pleach.cli.arguments import EXIT_REFUSED, AsJson, DryRun, Timeout, Via, places
from pleach.cli.terminal import Console, escape, progress_on_stderr
from pleach.net.printable import printable
from pleach.operate.apply import STEP_SECONDS_MAX
from pleach.operate.drain import ABSENT, BrokerDrain, MoveEnd
from pleach.operate.operation import OperationState
from pleach.operate.survey import settled_survey

RATE = 10.0


def drain(
    broker: Annotated[str, typer.Argument(help="The broker whose clients move.")],
    to: Annotated[
        list[str] | None, typer.Option(help="Target brokers, in turn; may be repeated. By default its neighbours.")
    ] = None,
    rate: Annotated[float, typer.Option(help="Clients per second, at most.", min=0.01, max=1_000.0)] = RATE,
    via: Via = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    timeout: Timeout = STEP_SECONDS_MAX,
) -> None:
    """Move all clients of a broker to other brokers, while events flow. Exits with 1 if one is left, and names it.

    Example: `pleach overlay drain c --rate 5 --to a --to b --via 127.0.0.1:7300`
    """
    planned = BrokerDrain.planned(asyncio.run(settled_survey(places(via))), broker, to or ())
    if dry_run:
        _explain(planned, rate, as_json=as_json)
        return
    ends = asyncio.run(drained(planned, rate, timeout))
    report(planned, ends, as_json=as_json)
    if any(end.state is not OperationState.DONE for end in ends):
        raise typer.Exit(EXIT_REFUSED)


async def drained(planned: BrokerDrain, rate: float, seconds_max: float) -> list[MoveEnd]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with progress_on_stderr(*columns) as progress:
        bar = progress.add_task(f"clients leave {escape(planned.broker)}", total=len(planned.moves))
        ends = await planned.carry_out(rate=rate, seconds_max=seconds_max, ended=lambda _: progress.advance(bar))
    return [*ends, *await planned.left()]


def _explain(planned: BrokerDrain, rate: float, *, as_json: bool) -> None:
    if as_json:
        moves = [{"client": moving.client, "path": moving.path} for moving in planned.moves]
        told = {"broker": planned.broker, "moves": moves, "absent": planned.absent}
        typer.echo(msgspec.json.encode(told).decode())
        return
    for moving in planned.moves:
        _say(f"{moving.client}: {' – '.join(moving.path)}")
    for name in planned.absent:
        _say(f"{name} stays: {ABSENT}")
    _say(f"clients that would move: {len(planned.moves):,}, in {len(planned.moves) / rate:,.1f} s or more")


def report(planned: BrokerDrain, ends: list[MoveEnd], *, as_json: bool, to_stderr: bool = False) -> None:
    moved = [end for end in ends if end.state is OperationState.DONE]
    left = [end for end in ends if end.state is not OperationState.DONE]
    if as_json:
        told = {"broker": planned.broker, "complete": not left, "moved": moved, "left": left}
        typer.echo(msgspec.json.encode(told).decode())
        return
    for end in left:
        word = "stays" if end.state is OperationState.REFUSED else "may still be moving"
        _say(f"{end.client} {word}: {end.reason}", to_stderr=to_stderr)
    slowest = max((end.seconds for end in moved), default=0.0)
    total = f"{len(moved):,} of {len(ends):,} clients have left {planned.broker}, the slowest in {slowest:.2f} s"
    _say(total, to_stderr=to_stderr)


def _say(line: str, *, to_stderr: bool = False) -> None:
    Console(stderr=to_stderr).print(printable(line), highlight=False, markup=False, soft_wrap=True)
