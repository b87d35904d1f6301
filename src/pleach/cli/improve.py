"""`pleach overlay improve`: adapt the tree of running brokers to their traffic.

Exit codes: 0 also where there is nothing to gain; 1 if the last round failed; 2 unusable input, or no broker answers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.progress import BarColumn, TextColumn

from pleach.cli.arguments import AsJson, Via, check_protocol, places
from pleach.cli.interrupt import run_until_interrupted
from pleach.cli.plan import prices_in
from pleach.cli.terminal import Console, progress_on_stderr
from pleach.core.optimise.improvement import DEGREE_MAX, SAVING_MIN, Rules
from pleach.core.overlay.choice import AUTO
from pleach.errors import InvalidInputError
from pleach.operate.improve import (
    ACTIONS_PER_MINUTE_MAX,
    EVERY_SECONDS,
    STARTS,
    ImproveEngine,
    ImproveOptions,
    ImproveRound,
    PlainEngine,
    improve,
)

EXIT_TROUBLE = 1
UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}


class EngineName(StrEnum):
    PLAIN = "plain"
    SPARK = "spark"


def improve_tree(
    brokers: Annotated[list[str] | None, typer.Argument(help="Admin addresses (HOST:PORT), or ready lines.")] = None,
    via: Via = None,
    every: Annotated[str, typer.Option(help="Time between rounds: 10s, 500ms.")] = f"{EVERY_SECONDS:g}s",
    saving_min: Annotated[str, typer.Option(help="Least saving for which links are exchanged.")] = f"{SAVING_MIN:.0%}",
    actions: Annotated[
        int, typer.Option("--actions-max-per-minute", help="Most exchanges of links.", min=1, max=1_000)
    ] = ACTIONS_PER_MINUTE_MAX,
    degree_max: Annotated[int, typer.Option(help="Most neighbours of a broker.", min=2)] = DEGREE_MAX,
    costs: Annotated[Path | None, typer.Option(help="Costs of links (TOML); by default measured delays.")] = None,
    protocol: Annotated[str, typer.Option(help="Protocol of the exchanges.")] = AUTO,
    once: Annotated[bool, typer.Option("--once", help="One round only.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the exchanges, and change nothing.")] = False,
    engine: Annotated[EngineName, typer.Option(help="Where trees are searched.")] = EngineName.PLAIN,
    telemetry: Annotated[Path | None, typer.Option(help="spark: keep the observations here.")] = None,
    master: Annotated[str, typer.Option(help="spark: its master URL.")] = "local[*]",
    starts: Annotated[int, typer.Option(help="Searches per round.", min=1, max=1_000)] = STARTS,
    seed: Annotated[int, typer.Option(help="The same seed finds the same tree.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Observe the traffic, and exchange links while that makes events cheaper. No event is lost.

    Runs until it is interrupted, and prints for every round what events cost, and what they will cost.

    Example: `pleach overlay improve 127.0.0.1:7300 --every 10s --saving-min 5% --actions-max-per-minute 6 --dry-run`
    """
    check_protocol(protocol)
    rules = Rules(_share(saving_min), degree_max)
    prices = prices_in(costs) if costs else None
    options = ImproveOptions(_seconds(every), rules, actions, prices, protocol, starts, seed, dry_run)
    seen: list[ImproveRound] = []
    where = places([*(brokers or []), *(via or [])])
    with _engine(engine, telemetry, master) as chosen, _progress(options, is_shown=once and not as_json):
        run_until_interrupted(_improved(where, options, chosen, seen, once=once, as_json=as_json))
    if seen and seen[-1].trouble:
        raise typer.Exit(EXIT_TROUBLE)


async def _improved(
    where: list[str],
    options: ImproveOptions,
    engine: ImproveEngine,
    seen: list[ImproveRound],
    *,
    once: bool,
    as_json: bool,
) -> None:
    def tell(done: ImproveRound) -> None:
        seen[:] = [done]
        _print_round(done, options, as_json=as_json)

    await improve(where, options, rounds_max=1 if once else None, on_round=tell, engine=engine)


@contextmanager
def _engine(name: EngineName, telemetry: Path | None, master: str) -> Iterator[ImproveEngine]:
    if name is EngineName.PLAIN:
        yield PlainEngine()
        return
    from pleach.spark.session import load_spark, spark_session  # noqa: PLC0415 an optional part, and slow to load

    load_spark()
    from pleach.spark.control import SparkEngine  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as scratch:
        Console(stderr=True).print("starting Spark", style="dim")
        engine = SparkEngine(spark_session(master), telemetry or Path(scratch))
        engine.warm_up()
        yield engine


@contextmanager
def _progress(options: ImproveOptions, *, is_shown: bool) -> Iterator[None]:
    columns = (TextColumn("{task.description}"), BarColumn())
    with progress_on_stderr(*columns, quiet=not is_shown) as progress:
        progress.add_task(f"observing events for {options.every:g} s", total=None)
        yield


# Output -------------------------------------------------------------------------------------------------------------


def _print_round(done: ImproveRound, options: ImproveOptions, *, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(msgspec.to_builtins(done) | {"dry_run": options.dry_run}).decode())
        return
    console = Console()
    for line in lines_of(done, is_dry=options.dry_run):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def lines_of(done: ImproveRound, *, is_dry: bool) -> Iterator[str]:
    """A line for the round, and one for each exchange."""
    head = f"{datetime.fromtimestamp(done.at, UTC):%H:%M:%S} "
    if not done.cost:
        yield f"{head} {done.trouble or done.verdict}"
        return
    taken = "" if done.milliseconds is None else f", took {done.milliseconds:,.1f} ms each"
    costs = f"{done.events:,.0f} events cost {done.cost:,.2f} each{taken}"
    if not done.exchanges:
        yield f"{head} {costs}: nothing to do, {done.verdict}"
        return
    will = "would" if is_dry else "will"
    yield f"{head} {costs}; {will} cost {done.cost_then:,.2f}, {done.share_saved:.1%} less:"
    for each in done.exchanges:
        yield f"          − {'–'.join(each.remove)}  + {'–'.join(each.add)}"
    if done.trouble:
        yield f"          {done.trouble}"


# Options as texts ----------------------------------------------------------------------------------------------------


def _seconds(text: str) -> float:
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz").strip()
    unit = text.strip()[len(number) :] or "s"
    try:
        return float(number) * UNITS[unit]
    except (ValueError, KeyError):
        raise InvalidInputError(f"--every: {text!r} is not a time; write 10s, 500ms or 1min") from None


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        share = -1.0
    if not 0.0 <= share < 1.0:
        raise InvalidInputError(f"--saving-min: {text!r} is not a share; write 5% or 0.05")
    return share
