"""`pleach audit`: check traces against the guarantees of delivery and order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from pleach.cli.show import EXPLAINED_MAX, explaining, progress_bar, show_verdict
from pleach.cli.terminal import Console
from pleach.trace import Verdict, VerdictOutcome, judge, read_traces
from pleach.trace.store import rows_in, trace_files

EXIT_CODES = {VerdictOutcome.CLEAN: 0, VerdictOutcome.VIOLATED: 1, VerdictOutcome.UNUSABLE: 2}
REFERENCE_ROWS_MAX = 2_000_000  # about a minute, and 2 GB; Spark judges more


class Engine(StrEnum):
    AUTO = "auto"
    REFERENCE = "reference"
    SPARK = "spark"


def audit(
    path: Annotated[Path, typer.Argument(help="A trace file, a directory with traces, or a lake.", show_default=False)],
    engine: Annotated[
        Engine, typer.Option(help=f"Which implementation judges; auto: Spark above {REFERENCE_ROWS_MAX:,} records.")
    ] = Engine.AUTO,
    master: Annotated[str, typer.Option(help="Spark's master: local[*], spark://host:port, …")] = "local[*]",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per run.")] = False,
) -> None:
    """Report events that were lost, doubled, spurious, or out of FIFO or causal order.

    Exits with 0 if every run is clean, 1 if one is violated, 2 if one cannot be judged.

    Examples: `pleach audit runs/`, `pleach audit lake/ --engine spark --master spark://127.0.0.1:7077 --json`
    """
    console = Console()
    outcomes = []
    judged = _on_spark if _chosen(engine, path) is Engine.SPARK else _by_reference
    for verdict, explained in judged(path, master, quiet=as_json):
        outcomes.append(verdict.outcome)
        if as_json:
            typer.echo(msgspec.json.encode(verdict.to_dict()).decode())
        else:
            console.rule(verdict.run, align="left", style="dim")
            show_verdict(console, verdict, explained)
    if VerdictOutcome.VIOLATED in outcomes:
        raise typer.Exit(EXIT_CODES[VerdictOutcome.VIOLATED])
    raise typer.Exit(max(EXIT_CODES[outcome] for outcome in outcomes))


def _chosen(engine: Engine, path: Path) -> Engine:
    if engine is not Engine.AUTO:
        return engine
    return Engine.SPARK if rows_in(trace_files(path)) > REFERENCE_ROWS_MAX else Engine.REFERENCE


Judged = Iterator[tuple[Verdict, Callable[[], str]]]  # a verdict, and a function that explains it


def _by_reference(path: Path, _master: str, *, quiet: bool) -> Judged:  # noqa: ARG001 one signature for both
    for _, records in read_traces(path):
        verdict = judge(records)
        yield verdict, explaining(verdict, records)


def _on_spark(path: Path, master: str, *, quiet: bool) -> Judged:
    from pleach.spark.session import load_spark, spark_session  # noqa: PLC0415 an optional part, and slow to load

    load_spark()
    from pleach.spark.audit import job, verdicts  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    shown = {"advance": 1, "total": len(job.STEPS) + 1}
    with progress_bar(*columns, quiet=quiet, shown=lambda name: {"description": name, **shown}) as on_step:
        on_step("starting Spark")
        done = job.audit(spark_session(master), path, on_step=on_step)
    for verdict in done.verdicts:
        yield verdict, partial(verdicts.explain_on_spark, done.records, verdict, EXPLAINED_MAX)
