"""Judge the numbers of an earlier report once more, without the lake: sentences change more often than measurements.

Statuses, sentences and the page are made anew; pictures, tables and numbers stay as they are.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from math import nan
from pathlib import Path

import msgspec

from pleach.errors import ExperimentError
from pleach.lab.experiment import Case, Experiment, Size, Summary
from pleach.lab.registry import experiment_named
from pleach.lab.report import NUMBERS, IndexEntry, numbers_file, read_index, said_of, write_index

COUNTS = NUMBERS[:2]  # seeds, samples


def judge_again(folder: Path) -> list[IndexEntry]:
    """Write index and page of a report anew, from its own numbers. Returns the entries that have changed."""
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
    cases = {_spelled(case, parameters): case for case in experiment.cases(size)}
    try:
        return [_summary(row, cases[tuple(row[name] for name in parameters)]) for row in rows]
    except KeyError as error:
        raise ExperimentError(f"{path}: {error} is no case of {experiment.name}, size {size}: report it anew") from None


def _spelled(case: Case, parameters: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(case.get(name, "")) for name in parameters)


def _summary(row: dict[str, str], case: Case) -> Summary:
    spread = [float(row[name]) if row[name] else nan for name in NUMBERS[len(COUNTS) :]]
    return Summary(case, row["metric"], *(int(row[name]) for name in COUNTS), *spread)
