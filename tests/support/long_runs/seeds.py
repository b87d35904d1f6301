"""Seeds by the thousand: judged in tasks over processes, with progress on stderr and a table of sums at the end.

An area gives one `SeedRun` per group of seeds. Each judgement has a `seed` and `flaws`, which say in words what does
not hold; a run that raises is a judgement with one flaw. For every failing seed the command that replays it is printed.
"""

from __future__ import annotations

import gc
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from support.long_runs.output import say

SEEDS_PER_TASK = 12
PROGRESS_SECONDS = 10.0
NAME_WIDTH = 48
BAR_WIDTH = 30


class Judged(Protocol):
    seed: int
    flaws: list[str]


J = TypeVar("J", bound=Judged)


@dataclass(frozen=True)
class SeedRun(Generic[J]):
    """How an area judges seeds. `judge` and `raised` are sent to other processes."""

    judge: Callable[[int], J]
    raised: Callable[[int, list[str]], J]  # what stands for a run that raised
    name_of: Callable[[J], str]  # which line of the table it is added to
    replay: Callable[[J], str]
    columns: Mapping[str, Callable[[J], int]]
    maxima: Mapping[str, Callable[[J], float]] = field(default_factory=dict)


@dataclass
class Line:
    """The judgements of one name, added up."""

    seeds: int = 0
    failed: int = 0
    sums: Counter[str] = field(default_factory=Counter)
    maxima: dict[str, float] = field(default_factory=dict)

    def add(self, run: SeedRun[J], judgement: J) -> None:
        self.seeds += 1
        self.failed += bool(judgement.flaws)
        for column, value_of in run.columns.items():
            self.sums[column] += value_of(judgement)
        for column, value_of in run.maxima.items():
            self.maxima[column] = max(self.maxima.get(column, 0.0), value_of(judgement))


def run_seeds(runs: Sequence[SeedRun[Any]], options: Namespace, note: Callable[[Any], None] = lambda _: None) -> int:
    """All seeds of each run in turn; `note` sees every judgement. Returns how many have failed."""
    total, progress = Line(), Progress(options, len(runs))
    say(_header(runs[0]))
    with _mapped(options.workers) as mapped:
        for run in runs:
            lines: dict[str, Line] = {}
            for judgement in _judgements(run, options, mapped):
                note(judgement)
                for line in (total, lines.setdefault(run.name_of(judgement), Line())):
                    line.add(run, judgement)
                if judgement.flaws:
                    say(run.replay(judgement))
                progress.note(total)
            for name in sorted(lines):
                say(_shown(name, lines[name], run))
    say(_shown("all", total, runs[0]))
    return total.failed


@contextmanager
def _mapped(workers: int) -> Iterator[Callable[..., Iterator[list[Any]]]]:
    if workers == 1:
        yield map
        return
    with ProcessPoolExecutor(workers) as pool:
        yield pool.map


def _judgements(run: SeedRun[J], options: Namespace, mapped: Callable[..., Iterator[list[J]]]) -> Iterator[J]:
    """In the order of the seeds."""
    seeds = range(options.first, options.first + options.seeds)
    tasks = [seeds[i : i + SEEDS_PER_TASK] for i in range(0, len(seeds), SEEDS_PER_TASK)]
    for judgements in mapped(partial(_judged, run.judge, run.raised), tasks):
        yield from judgements


def _judged(judge: Callable[[int], J], raised: Callable[[int, list[str]], J], seeds: range) -> list[J]:
    """A network is small and soon over: collecting cycles once, at the end of the task, saves a sixth of the time."""
    gc.disable()
    try:
        return [_one(judge, raised, seed) for seed in seeds]
    finally:
        gc.enable()
        gc.collect()


def _one(judge: Callable[[int], J], raised: Callable[[int, list[str]], J], seed: int) -> J:
    try:
        return judge(seed)
    except Exception as error:  # noqa: BLE001 whatever it raises, the other seeds are still to be judged
        return raised(seed, [f"raised {type(error).__name__}: {error}"])


# Output -------------------------------------------------------------------------------------------------------


def _header(run: SeedRun[Any]) -> str:
    columns = ("seeds", "failed", *run.columns, *run.maxima)
    return f"{'setting':<{NAME_WIDTH}}" + "".join(f"{column:>{_width(column)}}" for column in columns)


def _shown(name: str, line: Line, run: SeedRun[Any]) -> str:
    counts = {"seeds": line.seeds, "failed": line.failed} | {column: line.sums[column] for column in run.columns}
    shown = "".join(f"{value:>{_width(column)},}" for column, value in counts.items())
    return f"{name:<{NAME_WIDTH}}{shown}" + "".join(f"{line.maxima[c]:>{_width(c)}.3f}" for c in run.maxima)


def _width(column: str) -> int:
    return max(12, len(column) + 2)


class Progress:
    """A line every few seconds, with the options by which a run of one group that was stopped goes on."""

    def __init__(self, options: Namespace, runs: int) -> None:
        self._first, self._wanted, self._runs = options.first, options.seeds * runs, runs
        self._started = self._shown = time.monotonic()

    def note(self, total: Line) -> None:
        now = time.monotonic()
        if now - self._shown < PROGRESS_SECONDS:
            return
        self._shown = now
        rate = total.seeds / (now - self._started)
        left = (self._wanted - total.seeds) / rate / 60
        done = round(BAR_WIDTH * total.seeds / self._wanted)
        bar = f"[{'#' * done}{'.' * (BAR_WIDTH - done)}]"
        text = (
            f"{bar} {total.seeds:,} of {self._wanted:,}, {rate:.1f} seeds/s, {left:.0f} min left, {total.failed} failed"
        )
        if self._runs == 1:
            text += f"; to go on from here: --first {self._first + total.seeds} --seeds {self._wanted - total.seeds}"
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
