"""Output of experiments in a terminal: the list, progress and end of campaigns, findings, samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from math import isnan
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from pleach.cli.show import progress_bar
from pleach.lab.campaigns import Ended, replay_command, tasks_of
from pleach.lab.experiment import Experiment, Sample, Size
from pleach.lab.findings import Status
from pleach.lab.report import IndexEntry
from pleach.spark.campaign import CampaignProgress as Course
from pleach.spark.results import Results

FAILURES_SHOWN_MAX = 10
COLOURS = {
    Status.REPRODUCED: "green",
    Status.DIFFERS: "yellow",
    Status.REFUTED: "red",
    Status.MET: "green",
    Status.NOT_MET: "red",
    Status.OPEN: "dim",
}


def show_experiments(console: Console, experiments: Iterable[Experiment]) -> None:
    table = _table(("experiment", "about", "figures"), tuple(size.value for size in Size))
    for experiment in experiments:
        figures = ", ".join(shown.name for shown in experiment.shown)
        runs = (f"{len(tasks_of(experiment, size)):,}" for size in Size)
        table.add_row(f"[bold]{experiment.name}[/]", escape(experiment.about), figures, *runs)
    console.print(table)


def show_ended(console: Console, ended: Ended, results: Results) -> None:
    done = ended.tasks - ended.already
    before = f", {ended.already:,} existed already" if ended.already else ""
    failed = f", [red]{len(ended.failures):,} failed[/]" if ended.failures else ""
    console.print(f"[bold]{ended.experiment}[/] ({ended.size}): {done:,} runs done{before}{failed}", highlight=False)
    for outcome in ended.failures[:FAILURES_SHOWN_MAX]:
        console.print(f"  [red]{escape(outcome.error)}[/]", soft_wrap=True, highlight=False)
        command = replay_command(ended.experiment, outcome.case, outcome.seed)
        console.print(f"  {escape(command)}", soft_wrap=True, highlight=False)
    if len(ended.failures) > FAILURES_SHOWN_MAX:
        console.print(f"  … and {len(ended.failures) - FAILURES_SHOWN_MAX:,} more; --json prints all")
    console.print(f"results: {escape(str(results.folder))}", soft_wrap=True, highlight=False)


def show_entries(console: Console, entries: Sequence[IndexEntry]) -> None:
    for entry in entries:
        status = f"[{COLOURS[entry.status]}]{entry.status}[/]"
        console.print(f"[bold]{entry.figure}[/] {escape(entry.title)} ({escape(entry.paper)}): {status}")
        console.print(f"  published: {escape(entry.published)}", highlight=False)
        console.print(f"  measured:  {escape(entry.measured)}", highlight=False)
        if entry.note:
            console.print(f"  [yellow]{escape(entry.note)}[/]", highlight=False)


def show_samples(console: Console, samples: Iterable[Sample], seconds: float) -> None:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for metric, value in samples:
        values[metric].append(value)
    table = _table(("metric",), ("samples", "mean", "minimum", "maximum"))
    for metric, found in values.items():
        spelled = (f"{number:,.6g}" for number in (fmean(found), min(found), max(found)))
        table.add_row(escape(metric), f"{len(found):,}", *spelled)
    console.print(table)
    console.print(f"in {seconds:.2f} s")


def _table(names: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in names:
        table.add_column(column)
    for column in numbers:
        table.add_column(column, justify="right")
    return table


# Progress --------------------------------------------------------------------------------------------------


def progress_of_campaign(name: str, *, quiet: bool) -> AbstractContextManager[Callable[[Course], None]]:
    """A progress bar with rate and time left."""
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    return progress_bar(*columns, TimeElapsedColumn(), quiet=quiet, shown=_course_fields)


def _course_fields(course: Course) -> dict[str, Any]:
    left = "" if isnan(course.left) else f", {timedelta(seconds=round(course.left))} left"
    failed = f", [red]{course.failed:,} failed[/]" if course.failed else ""
    return {"completed": course.done, "total": course.total, "description": f"{course.rate:,.1f}/s{left}{failed}"}


def progress_of_report(experiments: int, *, quiet: bool) -> AbstractContextManager[Callable[[], None]]:
    """A progress bar over experiments; each call advances it."""
    columns = (TextColumn("summing up"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return progress_bar(*columns, total=experiments, quiet=quiet, shown=lambda: {"advance": 1})
