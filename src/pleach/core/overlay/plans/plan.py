"""A plan: a tree, the steps that change it, and the resulting tree, validated before anything is carried out.

Steps that share a broker keep their order; all others may run concurrently. So a plan is a partial order: a step may
start when the steps that it depends on are done, and any such order results in the same tree. Waves are one such order,
for display: each step is in the first possible wave.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from pleach.core.messages import Node
from pleach.core.overlay.plans.difference import TreeDifference
from pleach.core.overlay.plans.steps import ExchangeStep, Step, SwapStep, apply, spelled, touched
from pleach.core.overlay.plans.topology import Topology
from pleach.errors import PlanError, StepError

STEPS_MAX = 10_000


@dataclass(frozen=True)
class Plan:
    """Create with `Plan.of`, which validates every step. Indexes count from 0; displayed numbers from 1."""

    start: Topology
    steps: tuple[Step, ...]
    touched: tuple[tuple[Node, ...], ...]  # per step, the brokers that take part
    result: Topology

    @classmethod
    def of(cls, start: Topology, steps: Iterable[Step]) -> Plan:
        """Raises StepError for a step that does not fit the tree after the steps before it."""
        steps = tuple(steps)
        if len(steps) > STEPS_MAX:
            raise PlanError(f"{len(steps):,} steps; a plan has at most {STEPS_MAX:,}, so split it")
        brokers: list[tuple[Node, ...]] = []
        now = start
        for number, step in enumerate(steps, start=1):
            after = _applied(now, step, number)
            brokers.append(touched(now, step))
            now = after
        return cls(start, steps, tuple(brokers), now)

    @property
    def swaps(self) -> int:
        return sum(isinstance(step, SwapStep) for step in self.steps)

    @property
    def exchanges(self) -> int:
        return sum(isinstance(step, ExchangeStep) for step in self.steps)

    @cached_property
    def dependencies(self) -> tuple[tuple[int, ...], ...]:
        """Per step, the indexes of its prerequisites: the last earlier step at each of its brokers."""
        latest: dict[Node, int] = {}
        found: list[tuple[int, ...]] = []
        for index, brokers in enumerate(self.touched):
            found.append(tuple(sorted({latest[broker] for broker in brokers if broker in latest})))
            latest.update(dict.fromkeys(brokers, index))
        return tuple(found)

    @cached_property
    def waves(self) -> tuple[tuple[int, ...], ...]:
        """Indexes of steps; steps of one wave touch disjoint brokers."""
        wave_of: list[int] = []
        waves: list[list[int]] = []
        for index, needed in enumerate(self.dependencies):
            wave = max((wave_of[other] + 1 for other in needed), default=0)
            wave_of.append(wave)
            if wave == len(waves):
                waves.append([])
            waves[wave].append(index)
        return tuple(map(tuple, waves))

    def fits(self, topology: Topology) -> bool:
        """Whether the plan starts from this tree; `difference` explains why not."""
        return self.start == topology

    def difference(self, topology: Topology) -> TreeDifference:
        """The difference between a tree and the start of the plan."""
        return TreeDifference.of(planned=self.start, found=topology)


def _applied(topology: Topology, step: Step, number: int) -> Topology:
    try:
        return apply(topology, step)
    except StepError as error:
        raise StepError(spelled(step), error.reason, number=number) from None
