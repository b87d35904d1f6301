"""All cases of machines that go at a message: which network, whose messages, which machine, before or after.

Protocols between brokers: each message × {the machine that handles it, one with a copy, the sender's} × {before, after}
it is handled. Replication: each record, fill and view change beside them × {receiver, sender} × {before, after}.
Promotion: a machine is destroyed, and at each message from there on another one is (three copies), or crashes (two).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product

import msgspec

from pleach.core.overlay.registry import CYCLES
from pleach.scenario.model import Scenario, StandbyTable
from pleach.scenario.steps import Destroy, Exchange, RemoveBroker, Step
from pleach.trace import Rule
from support.mobility.movement_chain import MOVE, MOVES_AT, route
from support.mobility.moving_clients import WatchedMoves
from support.overlay.faults_at_messages import When
from support.overlay.judgement import Watched
from support.overlay.small_networks import ADD, BEGINS_AT, OPPOSED, REMOVE, SWAP, station
from support.standby.machines_at_messages import Between, Mishap, Ordeal, Point, Victim

AFTER = 0.25  # seconds of silence: ten times the slowest latency
OUTAGES = (0.05, 1.0)  # shorter than silence, and longer
SPARE = ("m1", "m2")
AROUND = Exchange(at=BEGINS_AT, remove=("a", "b"), add=("x", "c"))
UPROOT = RemoveBroker(at=BEGINS_AT, broker="b")
MEMBERS = {"between": Between.MEMBERS, "victims": (Victim.RECEIVER, Victim.SENDER)}
FAULTLESS = ("advanced-coordinated",)  # of the protocols for cycles: the others lose or double by themselves


@dataclass(frozen=True)
class Case:
    """`spared`: rules that the protocol breaks without any mishap."""

    name: str
    scenario: Scenario
    begins_at: float = BEGINS_AT
    watch: type[Watched] = Watched
    between: Between = Between.BROKERS
    victims: tuple[Victim, ...] = tuple(Victim)
    outages: tuple[float | None, ...] = (None,)
    spared: frozenset[Rule] = frozenset()

    def ordeal(self, *mishaps: Mishap) -> Ordeal:
        """Up to the first mishap it is always the same run."""
        return Ordeal(self.scenario, mishaps, self.between, self.begins_at, self.watch, spared=self.spared)

    @property
    def points(self) -> tuple[Point, ...]:
        return _points(self.name)

    def mishaps(self) -> Iterator[tuple[Point, Mishap]]:
        for point, when, victim, seconds in product(self.points, When, self.victims, self.outages):
            yield point, Mishap(point.index, when, victim, seconds)


def with_standbys(scenario: Scenario, copies: int = 2, steps: tuple[Step, ...] = ()) -> Scenario:
    standby = StandbyTable(copies=copies, after=AFTER, machines=SPARE)
    timeline = tuple(sorted([*scenario.steps, *steps], key=lambda step: step.at))
    return msgspec.structs.replace(scenario, standby=standby, steps=timeline)


def _networks() -> Iterator[tuple[str, Scenario, dict]]:
    for name, steps in {
        "swap": (SWAP,),
        "opposed swaps": (SWAP, OPPOSED),
        "add": (ADD,),
        "remove": (REMOVE,),
        "swap and remove": (SWAP, REMOVE),
        "plan": (UPROOT,),
    }.items():
        yield name, station(*steps), {}
    for protocol in sorted(CYCLES):
        if "printed" in protocol:
            continue  # errors included
        spared = frozenset() if protocol in FAULTLESS else frozenset(Rule)
        yield f"exchange, {protocol}", station(AROUND, exchange=protocol), {"spared": spared}
    yield "move", route(MOVE), {"begins_at": MOVES_AT, "watch": WatchedMoves}


def _made() -> Iterator[Case]:
    for name, scenario, how in _networks():
        yield Case(name, with_standbys(scenario), **how)
        if name in ("swap", "add", "remove", "move"):
            yield Case(f"{name}: replication", with_standbys(scenario), **how, **MEMBERS)
    for name, steps in {"swap": (SWAP,), "remove": (REMOVE,)}.items():
        how = {"begins_at": BEGINS_AT + AFTER / 2, **MEMBERS}
        lost = (Destroy(at=BEGINS_AT + 0.01, broker="b"),)
        yield Case(f"{name}: promotion, destroyed", with_standbys(station(*steps), 3, lost), **how)
        yield Case(f"{name}: promotion, crashed", with_standbys(station(*steps), 2, lost), outages=OUTAGES, **how)


CASES = {case.name: case for case in _made()}


@cache
def _points(name: str) -> tuple[Point, ...]:
    """Found by a run without mishap."""
    ordeal = CASES[name].ordeal()
    flaws = ordeal.finish()
    assert not flaws, (name, flaws)
    return tuple(ordeal.points)


@cache
def all_mishaps() -> tuple[tuple[str, Point, Mishap], ...]:
    """In a fixed order: the n-th is the n-th in every process."""
    return tuple((case.name, point, mishap) for case in CASES.values() for point, mishap in case.mishaps())


@dataclass
class Judgement:
    seed: int
    name: str
    flaws: list[str] = field(default_factory=list)
    told: str = ""
    promoted: int = 0
    deliveries: int = 0


def judge_mishap(seed: int) -> Judgement:
    name, point, mishap = all_mishaps()[seed]
    ordeal = CASES[name].ordeal(mishap)
    told = f"{name}: {point}, {mishap}"
    flaws = ordeal.finish()
    served = [r for r in ordeal.run.recorder.records if r.detail.startswith("serves at ")]
    promoted = len(served) - len(ordeal.run.scenario.brokers)
    return Judgement(seed, name, flaws, told, promoted, ordeal.deliveries)


raised = partial(Judgement, name="raised")
