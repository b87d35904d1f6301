"""The report: figures, numbers, a JSON index, and a page that compares published and measured values.

    summaries of an experiment ──▶ <figure>.png .svg, <table>.md, <experiment>.csv ──▶ index.json ──▶ README.md

The index has all content of the page: entries of experiments that are not reported this time stay in both. The same
numbers give the same bytes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import nan
from pathlib import Path

import msgspec

from pleach.errors import ExperimentError
from pleach.lab import figure_style
from pleach.lab.experiment import Case, Experiment, Figure, ResultTable, Size, Summary
from pleach.lab.findings import Finding, Status
from pleach.lab.registry import experiment_named

INDEX = "index.json"
PAGE = "README.md"
NUMBERS = ("seeds", "samples", "mean", "low", "high", "minimum", "p50", "p95", "p99", "maximum")
WORD_AND_NUMBER = re.compile(r"(\D+)(\d*)")
PAPERS = {
    "S0": "primitives that change a broker overlay",
    "S1": "self-managing publish/subscribe systems",
    "S2": "the reconfiguration path",
    "S3": "a tree of dispatchers that a DHT keeps",
    "S4": "clients that move as transactions",
}
STATUS_MEANS = {
    Status.REPRODUCED: "we measure what the paper says",
    Status.DIFFERS: "we measure something else, and name the statements that do not hold",
    Status.REFUTED: "what the paper says is not so",
    Status.MET: "the paper leaves it open, and a goal of ours is reached",
    Status.NOT_MET: "it is not reached",
    Status.OPEN: "not decided by what was measured",
}


class IndexEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One figure or table, in the index."""

    figure: str
    paper: str
    status: Status
    published: str
    measured: str
    command: str
    title: str
    experiment: str
    files: tuple[str, ...]
    size: Size
    code: str  # the version that measured
    note: str = ""  # remarks, such as failed runs


@dataclass(frozen=True)
class Measured:
    """The measurements of an experiment for its report."""

    experiment: Experiment
    size: Size
    summaries: Sequence[Summary]
    code: str  # the version that measured
    lacking: int = 0  # runs that failed, or have not been done
    note: str = ""
    seeds: int = 0  # asked for instead of the size's own number

    @property
    def options(self) -> str:
        return f"--size {self.size}" + (f" --seeds {self.seeds}" if self.seeds else "")


def write_report(measured: Iterable[Measured], folder: Path) -> list[IndexEntry]:
    """Write all files of these experiments, then index and page. Returns the entries that are new."""
    earlier = read_index(folder)  # raises before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    new = [entry for each in measured for entry in _written(each, folder)]
    kept = [entry for entry in earlier if entry.experiment not in {entry.experiment for entry in new}]
    write_index((*kept, *new), folder)
    return new


def write_index(found: Iterable[IndexEntry], folder: Path) -> None:
    """The index, and the page that is made of it."""
    entries = sorted(found, key=_place)
    (folder / INDEX).write_bytes(msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n")
    (folder / PAGE).write_text(page(entries))


def _place(entry: IndexEntry) -> tuple[str, list[tuple[str, int]]]:
    """By paper, then as people count: 3-2 before 3-10."""
    return paper_of(entry), [(word, int(number or 0)) for word, number in WORD_AND_NUMBER.findall(entry.figure)]


def paper_of(entry: IndexEntry) -> str:
    """The one that a figure names first."""
    return entry.paper.split()[0]


def read_index(folder: Path) -> list[IndexEntry]:
    path = folder / INDEX
    if not path.exists():
        return []
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[IndexEntry])
    except (OSError, msgspec.DecodeError) as error:
        raise ExperimentError(f"{path}: {error}; delete it, and report all experiments anew") from None


# The files of one experiment -----------------------------------------------------------------------------------


def _written(measured: Measured, folder: Path) -> list[IndexEntry]:
    numbers = numbers_file(folder, measured.experiment)
    numbers.write_text(numbers_of(measured.summaries))
    entries = []
    for figure in measured.experiment.figures:
        paths = figure_style.save(figure, measured.summaries, folder)
        entries.append(_entry(measured, figure, [*paths, numbers]))
    for table in measured.experiment.tables:
        path = folder / f"{table.name}.md"
        path.write_text(f"# {table.title}\n\n{table.write(measured.summaries).strip()}\n")
        entries.append(_entry(measured, table, [path, numbers]))
    return entries


def _entry(measured: Measured, shown: Figure | ResultTable, paths: Sequence[Path]) -> IndexEntry:
    finding = shown.judge(measured.summaries)
    name, options = measured.experiment.name, measured.options
    return IndexEntry(
        figure=shown.name,
        paper=shown.paper,
        status=finding.status,
        published=shown.published,
        measured=said_of(finding, measured.summaries),
        command=f"pleach lab run {name} {options} && pleach lab report {name} {options}",
        title=shown.title,
        experiment=name,
        files=tuple(path.name for path in paths),
        size=measured.size,
        code=measured.code,
        note=measured.note,
    )


def said_of(finding: Finding, summaries: Sequence[Summary]) -> str:
    """What one seed gives is no more than that, and says so."""
    is_single = all(summary.seeds == 1 for summary in summaries)
    return finding.measured + (" One seed." if is_single and "one seed" not in finding.measured else "")


def numbers_file(folder: Path, experiment: Experiment) -> Path:
    return folder / f"{experiment.name}.csv"


def numbers_of(summaries: Sequence[Summary]) -> str:
    """All points as CSV: a column per parameter, then the metric and what was measured of it."""
    parameters = sorted({name for summary in summaries for name in summary.case})
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow((*parameters, "metric", *NUMBERS))
    for summary in summaries:
        case = (summary.case.get(name, "") for name in parameters)
        table.writerow((*case, summary.metric, *(_spelled(getattr(summary, name)) for name in NUMBERS)))
    return text.getvalue()


def _spelled(number: float) -> str:
    return "" if number != number else f"{number:.9g}"  # noqa: PLR0124 - not a number: there is no interval


# The page ----------------------------------------------------------------------------------------------------


def page(entries: Sequence[IndexEntry]) -> str:
    overview = "\n".join(
        f"| [{entry.figure}](#{entry.figure}) | {entry.paper} | {entry.title} | {entry.status} |" for entry in entries
    )
    meanings = "; ".join(f"*{status}*: {meaning}" for status, meaning in STATUS_MEANS.items())
    sections = "\n".join(
        f"{_heading(paper)}\n\n" + "\n".join(map(_section, those)) for paper, those in groupby(entries, paper_of)
    )
    return f"""# Results

What the papers say, and what our own runs say. Every figure is made by the command below it, from seeded simulations
of the brokers that also run live (S1 chapter 3: of what such brokers would
[tell each other](../decisions/0017-half-a-million-subscriptions.md)); the same command gives the same files.
Curves are means over seeds, bands and whiskers their 95% confidence intervals.
Each section names the digest of the code that measured it; where it is not that of today, nothing has been measured
since. Where a command says `--seeds 1` there is one run and no interval.
[How to run them](../how-to/run-experiments.md); [{INDEX}]({INDEX}) is for machines.

{meanings}.

| figure | paper | | status |
|---|---|---|---|
{overview}

{sections}"""


def _heading(paper: str) -> str:
    return f"## {paper}: {PAPERS[paper]}" if paper in PAPERS else f"## {paper}"


def _section(entry: IndexEntry) -> str:
    picture = next((file for file in entry.files if file.endswith(".png")), None)
    shown = f"![{entry.title}]({picture})" if picture else f"[The table]({entry.files[0]})"
    others = ", ".join(f"[{file}]({file})" for file in entry.files if file != picture)
    note = f"\n\n**Mind:** {entry.note}" if entry.note else ""
    return f"""### {entry.figure}

{entry.title} ({entry.paper}): **{entry.status}**.

{shown}

**Published.** {entry.published}

**Measured.** {entry.measured}{note}

Files: {others}. Size {entry.size}, code {entry.code}. Made by `{entry.command}`
"""


# A new judgement of the numbers of an earlier report, without the lake ------------------------------------------------

COUNTS = NUMBERS[:2]  # seeds, samples


def judge_again(folder: Path) -> list[IndexEntry]:
    """Write index and page of a report again, from its own numbers. Returns the entries that have changed."""
    before = read_index(folder)
    if not before:
        raise ExperimentError(f"{folder}: there is no report; `pleach lab report --out {folder}` makes one")
    experiments = {entry.experiment: (experiment_named(entry.experiment), entry.size) for entry in before}
    numbers = {name: read_numbers(folder, *chosen) for name, chosen in experiments.items()}
    after = [_again(entry, experiments[entry.experiment][0], numbers[entry.experiment]) for entry in before]
    write_index(after, folder)
    return [new for old, new in zip(before, after, strict=True) if old != new]


def _again(entry: IndexEntry, experiment: Experiment, summaries: Sequence[Summary]) -> IndexEntry:
    shown = next((each for each in experiment.shown if each.name == entry.figure), None)
    if shown is None:
        raise ExperimentError(f"{experiment.name} has no figure {entry.figure} any more: report it anew")
    finding = shown.judge(summaries)
    return msgspec.structs.replace(
        entry,
        paper=shown.paper,
        title=shown.title,
        published=shown.published,
        status=finding.status,
        measured=said_of(finding, summaries),
    )


def read_numbers(folder: Path, experiment: Experiment, size: Size) -> list[Summary]:
    """What `numbers_of` has written."""
    path = numbers_file(folder, experiment)
    try:
        rows = list(csv.DictReader(path.read_text().splitlines()))
    except OSError as error:
        raise ExperimentError(f"{path}: {error.strerror}; report {experiment.name} anew") from None
    parameters = sorted(set(rows[0]) - {"metric", *NUMBERS}) if rows else []
    cases = {_parameters_of(case, parameters): case for case in experiment.cases(size)}
    try:
        return [_summary(row, cases[tuple(row[name] for name in parameters)]) for row in rows]
    except KeyError as error:
        raise ExperimentError(f"{path}: {error} is no case of {experiment.name}, size {size}: report it anew") from None


def _parameters_of(case: Case, parameters: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(case.get(name, "")) for name in parameters)


def _summary(row: dict[str, str], case: Case) -> Summary:
    spread = [float(row[name]) if row[name] else nan for name in NUMBERS[len(COUNTS) :]]
    return Summary(case, row["metric"], *(int(row[name]) for name in COUNTS), *spread)
