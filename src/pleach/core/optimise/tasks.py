"""One start of a search as a task: a pure function of its number, so that where it runs changes nothing."""

from __future__ import annotations

from typing import NamedTuple

from pleach.core.optimise.draws import draws
from pleach.core.optimise.search import Problem, SearchResult, found_from
from pleach.core.optimise.starts import name_of_start, start_tree
from pleach.core.overlay.plans.topology import Topology


class Task(NamedTuple):
    """What every start needs to know; travels to executors."""

    problem: Problem
    current: Topology
    seed: int


class End(NamedTuple):
    """Where a search from one start has ended."""

    number: int
    found: SearchResult

    @property
    def name(self) -> str:
        return name_of_start(self.number)


def searched(task: Task, number: int) -> End:
    """One start, from its first tree to its last."""
    stream = draws(f"plan/{task.seed}/{number}")
    first = start_tree(number, task.current, task.problem, stream)
    return End(number, found_from(first, task.problem, stream))
