"""What an experiment is: cases, seeds, a measurement of one case with one seed, and figures of the whole.

An experiment is a module-level constant in a file of its own, named in `registry.py`. Its `measure` travels to
other processes and machines: it is a function of its module, and finds what it needs in the case, the seed, or the
package.
`pleach lab run` measures, `pleach lab report` draws and judges what was measured.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from pleach.lab.findings import Finding

Value = str | int | float | bool
Case = Mapping[str, Value]  # the parameters of one point: {"protocol": "path", "cycle": 5}


class Size(StrEnum):
    QUICK = "quick"  # seconds: does it run at all? Part of the tests
    USUAL = "usual"  # minutes: the curves are there, their intervals are wide
    FULL = "full"  # the paper's own numbers of seeds and nodes


class Sample(NamedTuple):
    """One number that one run gave. A run may give many of one metric, as the delays of its events."""

    metric: str
    value: float


class Summary(NamedTuple):
    """All samples of one metric in one case, over all seeds. The interval is that of the mean over seeds."""

    case: Case
    metric: str
    seeds: int
    samples: int
    mean: float
    low: float  # 95% confidence interval of the mean; nan where there is one seed only
    high: float
    minimum: float
    p50: float
    p95: float
    p99: float
    maximum: float


@dataclass(frozen=True)
class Figure:
    name: str  # of its files, and its key in the index: "s0-fig12"
    paper: str  # "S0 Fig. 12"
    title: str
    published: str  # what the paper states, in a sentence with its figures
    draw: Callable[[Any, Sequence[Summary]], None]  # on matplotlib axes; a list of them where there are several panels
    judge: Callable[[Sequence[Summary]], Finding]
    panels: int = 1  # side by side, two in a row


@dataclass(frozen=True)
class ResultTable:
    """A table of an experiment's own making; it stands in the page and the index beside the figures."""

    name: str  # of its file, and its key in the index: "table1"
    paper: str
    title: str
    published: str
    write: Callable[[Sequence[Summary]], str]  # Markdown, without a heading
    judge: Callable[[Sequence[Summary]], Finding]


@dataclass(frozen=True)
class Experiment:
    name: str
    about: str  # one line
    cases: Callable[[Size], Sequence[Case]]
    seeds: Mapping[Size, int]  # each case is run with the seeds 0 … n-1
    measure: Callable[[Case, int], Iterable[Sample]]  # pure: the same samples for the same case and seed, anywhere
    figures: tuple[Figure, ...]
    tables: tuple[ResultTable, ...] = ()
    cost: Callable[[Case], float] = lambda _case: 1.0  # how long a run takes beside the others; only sets the order

    @property
    def shown(self) -> tuple[Figure | ResultTable, ...]:
        """What stands in the report."""
        return (*self.figures, *self.tables)


def case_key(case: Case) -> str:
    """One spelling for one case, whatever the order of its parameters."""
    return msgspec.json.encode(case, order="sorted").decode()


def select(summaries: Iterable[Summary], metric: str, **wanted: Value) -> list[Summary]:
    """The points of one curve."""
    return [s for s in summaries if s.metric == metric and all(s.case.get(k) == v for k, v in wanted.items())]
