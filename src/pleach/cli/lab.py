"""`pleach lab`: experiments, as campaigns of seeded simulations on Spark, and their report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from math import isnan
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from pleach.cli.show import progress_bar
from pleach.cli.terminal import Console, escape
from pleach.errors import LakeError
from pleach.lab.campaigns import Ended, case_from, check_code, measured_in, replay_command, run_experiment, tasks_of
from pleach.lab.experiment import Experiment, Sample, Size
from pleach.lab.figure_style import load_matplotlib
from pleach.lab.findings import Status
from pleach.lab.report import PAGE, IndexEntry, write_report
from pleach.spark.campaign import LIGHT_JVM
from pleach.spark.campaign import CampaignProgress as Course
from pleach.spark.results import CAMPAIGN_DEFAULT, Results
from pleach.spark.session import load_spark, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_FAILED = 1
LAKE_DEFAULT = Path("lake")
OUT_DEFAULT = Path("docs/results")

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Experiments; by default all.")]
SizeOption = Annotated[Size, typer.Option(help="Number of cases, nodes and seeds.")]
SeedsOption = Annotated[int, typer.Option(min=0, help="Seeds of each case; 0: the default of the size.")]
LakeOption = Annotated[Path, typer.Option(help="Directory of the results.")]
MasterOption = Annotated[str, typer.Option(help="The Spark master.")]
CampaignOption = Annotated[str, typer.Option(help="Name of the campaign; results of two campaigns are kept apart.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]

app = typer.Typer(
    help="Experiments: list, run, report, judge, replay.", no_args_is_help=True, rich_markup_mode="markdown"
)


@app.command("list")
def list_experiments(as_json: JsonOption = False) -> None:
    """List the experiments, their figures, and the number of runs of each size.

    Example: `pleach lab list`
    """
    if not as_json:
        show_experiments(Console(), _experiments().values())
        return
    for experiment in _experiments().values():
        typer.echo(msgspec.json.encode(_description(experiment)).decode())


def _description(experiment: Experiment) -> dict[str, object]:
    return {
        "experiment": experiment.name,
        "about": experiment.about,
        "figures": [shown.name for shown in experiment.shown],
        "runs": {size.value: len(tasks_of(experiment, size)) for size in Size},
    }


@app.command()
def run(
    names: Names = None,
    size: SizeOption = Size.USUAL,
    seeds: SeedsOption = 0,
    lake: LakeOption = LAKE_DEFAULT,
    master: MasterOption = "local[*]",
    campaign: CampaignOption = CAMPAIGN_DEFAULT,
    force: Annotated[bool, typer.Option("--force", help="Discard results of another version of the code.")] = False,
    partitions: Annotated[
        int, typer.Option(min=0, help="Most partitions of a Spark job; 0: four per core. Results do not depend on it.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Run the missing runs of experiments, on all cores, and keep the results in the lake.

    After an interruption, start it again: it continues. A run that fails is reported with the command that
    replays it, and does not stop the others; the exit code is 1 then.

    Example: `pleach lab run hops --size quick`
    """
    experiments = _chosen(names, lake, campaign)
    for experiment, results in experiments:
        check_code(experiment, results, force=force)  # all are checked before the first starts
    failed = False
    with _session(master) as spark:
        for experiment, results in experiments:
            with progress_of_campaign(experiment.name, quiet=as_json) as on_progress:
                ended = run_experiment(
                    spark, experiment, size, results, on_progress, partitions=partitions, seeds=seeds
                )
            failed = failed or bool(ended.failures)
            if as_json:
                typer.echo(msgspec.json.encode(_summary(ended, results)).decode())
            else:
                show_ended(Console(), ended, results)
    if failed:
        raise typer.Exit(EXIT_FAILED)


def _summary(ended: Ended, results: Results) -> dict[str, object]:
    failures = [
        {
            "case": outcome.case,
            "seed": outcome.seed,
            "error": outcome.error,
            "replay": replay_command(ended.experiment, outcome.case, outcome.seed),
        }
        for outcome in ended.failures
    ]
    return {
        "experiment": ended.experiment,
        "size": ended.size,
        "tasks": ended.tasks,
        "already": ended.already,
        "run": ended.tasks - ended.already,
        "failures": failures,
        "code": results.code,
        "results": str(results.folder),
    }


@app.command()
def report(
    names: Names = None,
    size: SizeOption = Size.USUAL,
    seeds: SeedsOption = 0,
    lake: LakeOption = LAKE_DEFAULT,
    out: Annotated[Path, typer.Option(help="Directory for figures, numbers and the page.")] = OUT_DEFAULT,
    master: MasterOption = "local[*]",
    campaign: CampaignOption = CAMPAIGN_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Draw the results, judge them, and compare them with what was published.

    Without names: all experiments that have results in the lake. Exits with 1 if runs have failed or are missing.

    Example: `pleach lab report hops --size quick --out report`
    """
    load_matplotlib()  # a missing library is reported before the work
    chosen = [each for each in _chosen(names, lake, campaign) if names or each.results.code]
    if not chosen:
        raise LakeError(f"{lake}: campaign {campaign!r} has no results; `pleach lab run` makes some")
    with _session(master) as spark, progress_of_report(len(chosen), quiet=as_json) as advance:
        measured = []
        for experiment, results in chosen:
            measured.append(measured_in(spark, experiment, size, results, seeds))
            advance()
    entries = write_report(measured, out)
    if as_json:
        for entry in entries:
            typer.echo(msgspec.json.encode(entry).decode())
    else:
        show_entries(Console(), entries)
        Console().print(f"page: {escape(str(out / PAGE))}", soft_wrap=True)
    if any(each.lacking for each in measured):
        raise typer.Exit(EXIT_FAILED)


@app.command()
def judge(
    out: Annotated[Path, typer.Option(help="The report.")] = OUT_DEFAULT,
    as_json: JsonOption = False,
) -> None:
    """Judge the numbers of an earlier report again, and rewrite its page; figures and numbers stay.

    For changed criteria: it needs neither a lake nor Spark. Prints which findings have changed.

    Example: `pleach lab judge --out report`
    """
    from pleach.lab.report import judge_again  # noqa: PLC0415 - with it come all experiments

    entries = judge_again(out)
    if as_json:
        for entry in entries:
            typer.echo(msgspec.json.encode(entry).decode())
    else:
        show_entries(Console(), entries)
        Console().print(f"page: {escape(str(out / PAGE))}", soft_wrap=True)


@app.command()
def replay(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The experiment.", show_default=False)],
    case: Annotated[str, typer.Option(help="The case, as JSON.", show_default=False)],
    seed: Annotated[int, typer.Option(min=0, help="The seed.", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Repeat one run of an experiment in this process, and print its samples, or its failure (exit code 1).

    At the end: the time that it took, and the most memory of this process.

    Example: `pleach lab replay hops --case '{"brokers":8,"routing":"simple","share":1.0}' --seed 3`
    """
    experiment = _experiment(name)
    chosen = case_from(experiment, case)
    start = perf_counter()
    try:
        with progress_of_samples(name, quiet=as_json) as on_sample:
            samples = []
            for sample in experiment.measure(chosen, seed):
                samples.append(sample)
                on_sample(len(samples), sample.metric)
    except Exception:  # noqa: BLE001 - whatever it is: its traceback is what a replay is for
        Console(stderr=True).print_exception()
        raise typer.Exit(EXIT_FAILED) from None
    if as_json:
        for sample in samples:
            typer.echo(msgspec.json.encode(sample._asdict()).decode())
    else:
        show_samples(Console(), samples, perf_counter() - start)


def _experiments() -> Mapping[str, Experiment]:
    # It imports numpy, which takes long.
    from pleach.lab.registry import EXPERIMENTS  # noqa: PLC0415

    return EXPERIMENTS


def _experiment(name: str) -> Experiment:
    from pleach.lab.registry import experiment_named  # noqa: PLC0415

    return experiment_named(name)


class Chosen(NamedTuple):
    experiment: Experiment
    results: Results


def _chosen(names: list[str] | None, lake: Path, campaign: str) -> list[Chosen]:
    """The experiments of these names, each once; without names all."""
    return [Chosen(_experiment(name), Results(lake, campaign, name)) for name in dict.fromkeys(names or _experiments())]


@contextmanager
def _session(master: str) -> Iterator[SparkSession]:
    """A Spark session for this command; an existing one is used, and not stopped."""
    was_there = load_spark().SparkSession.getActiveSession() is not None
    spark = spark_session(master, app="pleach lab", settings=LIGHT_JVM)
    try:
        yield spark
    finally:
        if not was_there:
            spark.stop()


# Output in a terminal -------------------------------------------------------------------------------------------------


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
    megabytes = getrusage(RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"in {seconds:.2f} s, with {megabytes:,.0f} MB at most")


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


def progress_of_samples(name: str, *, quiet: bool) -> AbstractContextManager[Callable[[int, str], None]]:
    """How many samples there are, and what the last one is of: nobody knows how many will come."""
    columns = (TextColumn(name), TextColumn("{task.description}"), TimeElapsedColumn())
    return progress_bar(*columns, quiet=quiet, shown=lambda count, metric: {"description": f"{count:,}: {metric}"})


def progress_of_report(experiments: int, *, quiet: bool) -> AbstractContextManager[Callable[[], None]]:
    """A progress bar over experiments; each call advances it."""
    columns = (TextColumn("summing up"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return progress_bar(*columns, total=experiments, quiet=quiet, shown=lambda: {"advance": 1})
