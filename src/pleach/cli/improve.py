"""`pleach overlay improve`: the tree of running brokers follows their traffic.

Exit codes: 0 also where there is nothing to gain; 1 if something was not carried out or not seen at the end; 2 what was
asked for makes no sense, or no broker answers.
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
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from pleach.cli.arguments import AsJson, Via, check_protocol, places
from pleach.cli.interrupt import run_until_interrupted
from pleach.cli.plan import prices_in
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
    every: Annotated[str, typer.Option(help="Time between looks: 10s, 500ms.")] = f"{EVERY_SECONDS:g}s",
    saving_min: Annotated[str, typer.Option(help="Leave the tree unless this is saved.")] = f"{SAVING_MIN:.0%}",
    actions: Annotated[
        int, typer.Option("--actions-max-per-minute", help="Exchanges of a link.", min=1, max=1_000)
    ] = ACTIONS_PER_MINUTE_MAX,
    degree_max: Annotated[int, typer.Option(help="Neighbours of a broker.", min=2)] = DEGREE_MAX,
    costs: Annotated[Path | None, typer.Option(help="What links cost (TOML); else brokers measure it.")] = None,
    protocol: Annotated[str, typer.Option(help="How links are exchanged.")] = AUTO,
    once: Annotated[bool, typer.Option("--once", help="One look, and what follows from it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    engine: Annotated[EngineName, typer.Option(help="What makes plans of what was seen.")] = EngineName.PLAIN,
    telemetry: Annotated[Path | None, typer.Option(help="spark: keep what was seen here.")] = None,
    master: Annotated[str, typer.Option(help="spark: its master.")] = "local[*]",
    starts: Annotated[int, typer.Option(help="Searches per look.", min=1, max=1_000)] = STARTS,
    seed: Annotated[int, typer.Option(help="The same seed finds the same tree.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Watch where events go, and exchange links as long as that makes them cheaper. Nothing is lost meanwhile.

    Goes on until it is interrupted, and says of every look what events cost, and what they will cost.

    Example: `pleach overlay improve 127.0.0.1:7300 --every 10s --saving-min 5% --actions-max-per-minute 6 --dry-run`
    """
    check_protocol(protocol)
    rules = Rules(_share(saving_min), degree_max)
    prices = prices_in(costs) if costs else None
    wish = ImproveOptions(_seconds(every), rules, actions, prices, protocol, starts, seed, dry_run)
    seen: list[ImproveRound] = []
    where = places([*(brokers or []), *(via or [])])
    with _engine(engine, telemetry, master) as chosen, _progress(wish, is_shown=once and not as_json):
        run_until_interrupted(_improved(where, wish, chosen, seen, once=once, as_json=as_json))
    if seen and seen[-1].trouble:
        raise typer.Exit(EXIT_TROUBLE)


async def _improved(
    where: list[str],
    wish: ImproveOptions,
    engine: ImproveEngine,
    seen: list[ImproveRound],
    *,
    once: bool,
    as_json: bool,
) -> None:
    def tell(done: ImproveRound) -> None:
        seen[:] = [done]
        _tell(done, wish, as_json=as_json)

    await improve(where, wish, rounds_max=1 if once else None, on_round=tell, engine=engine)


@contextmanager
def _engine(name: EngineName, telemetry: Path | None, master: str) -> Iterator[ImproveEngine]:
    if name is EngineName.PLAIN:
        yield PlainEngine()
        return
    from pleach.spark.session import load_spark, spark_session  # noqa: PLC0415 an optional part, and slow to load

    load_spark()
    from pleach.spark.control.engine import SparkEngine  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as scratch:
        Console(stderr=True).print("starting Spark", style="dim")
        engine = SparkEngine(spark_session(master), telemetry or Path(scratch))
        engine.warm_up()
        yield engine


@contextmanager
def _progress(wish: ImproveOptions, *, is_shown: bool) -> Iterator[None]:
    columns = (TextColumn("{task.description}"), BarColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not is_shown) as progress:
        progress.add_task(f"observing events for {wish.every:g} s", total=None)
        yield


# What is told --------------------------------------------------------------------------------------------------------


def _tell(done: ImproveRound, wish: ImproveOptions, *, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(msgspec.to_builtins(done) | {"dry_run": wish.dry_run}).decode())
        return
    console = Console()
    for line in told(done, is_dry=wish.dry_run):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def told(done: ImproveRound, *, is_dry: bool) -> Iterator[str]:
    """A line for people, and one for each exchange."""
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


# What is given on the command line -----------------------------------------------------------------------------------


def _seconds(text: str) -> float:
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz").strip()
    unit = text.strip()[len(number) :] or "s"
    try:
        return float(number) * UNITS[unit]
    except (ValueError, KeyError):
        raise InvalidInputError(f"--every: {text!r} is no time; write 10s, 500ms or 1min") from None


def _share(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        share = -1.0
    if not 0.0 <= share < 1.0:
        raise InvalidInputError(f"--saving-min: {text!r} is no share; write 5% or 0.05")
    return share
