"""Councils in the simulator: brokers that improve their tree among themselves (docs/protocols/council.md).

The cost of a link is its latency in the scenario, also where no link exists yet: in virtual time every measurement
would give the same. Everything else is exchanged in messages over existing links.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from pleach.core.broker import Broker
from pleach.core.effects import Effect, Observe, Observed, SetTimer
from pleach.core.messages import OPERATOR, Bulletin, Message, Motion, Node
from pleach.core.optimise.council import Councillor, CouncilObserver, CouncilTurn
from pleach.core.optimise.distances import MILLISECONDS_MIN, PROCESSING_MILLISECONDS
from pleach.core.timing import phase_of
from pleach.scenario.model import Scenario
from pleach.scenario.overlay_steps import circumstances_of, described
from pleach.scenario.values import Span
from pleach.sim.simulator import Simulator

ROUND: Final = "council:round"
NAME: Final = "ci-"  # operations that councils ask for are named so
TICKS_PER_ROUND = 4


@dataclass(frozen=True)
class SimGround:
    """The part of a broker that its councillor reads."""

    broker: Broker
    processing: float
    latency: Callable[[Node, Node], Span]
    address: str = ""  # links need none here

    @property
    def neighbours(self) -> Collection[Node]:
        return self.broker.router.neighbours

    @property
    def is_busy(self) -> bool:
        return bool(self.broker.operation)

    def reach(self, broker: Node, *, is_linked: bool) -> float:  # noqa: ARG002
        span = self.latency(self.broker.name, broker)
        return max(MILLISECONDS_MIN, 1_000.0 * (span.low + span.high) / 2)


class BrokerWithCouncil:
    """A broker and its councillor as one machine of the simulator."""

    def __init__(self, broker: Broker, councillor: Councillor, ground: SimGround, every: float) -> None:
        self._broker = broker
        self._councillor = councillor
        self._seat = CouncilObserver(councillor, ground)
        self._every = every

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        if isinstance(message, Bulletin | Motion):
            return self._done(self._councillor.handle(sender, message, now=now), now)
        effects = self._broker.handle(sender, message, now=now)
        self._seat.saw(sender, message, effects, now)
        return effects

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        if name == ROUND:
            return [*self._councillor.tick(now), self.clock(self._every / TICKS_PER_ROUND)]
        effects = self._broker.handle_timer(name, now=now)
        self._seat.saw_timer(effects, now)
        return effects

    @staticmethod
    def clock(after: float) -> SetTimer:
        return SetTimer(ROUND, after, is_upkeep=True)

    def _done(self, turn: CouncilTurn, now: float) -> Sequence[Effect]:
        effects: list[Effect] = list(turn.sends)
        if turn.judgement is not None and turn.judgement.is_worth_it:
            name = turn.request.operation if turn.request else "dry-run"
            effects.append(Observe(Observed.STATE, detail=f"improve {name}: {turn.judgement}"))
        if turn.request is not None:
            asking = f"operation {turn.request.operation}: {described(turn.request)}"  # as for operators
            effects.append(Observe(Observed.STATE, detail=asking))
            asked = self._broker.handle(OPERATOR, turn.request, now=now)
            self._seat.look(asked, now)
            effects += asked
        return effects


class SimCouncils:
    def __init__(self, sim: Simulator, scenario: Scenario) -> None:
        self._sim = sim
        self._scenario = scenario
        self._latency = scenario.latency.by_link()
        self._numbers = count(1)

    def wrapped(self, broker: Broker) -> BrokerWithCouncil:
        """The broker with a councillor, whose rounds begin at once."""
        machine = self.seated(broker)
        self._sim.at(self._sim.now, lambda: self._sim.perform(broker.name, [self.first_round(broker.name)]))
        return machine

    def first_round(self, broker: Node) -> SetTimer:
        assert self._scenario.improve is not None
        every = self._scenario.improve.every
        return BrokerWithCouncil.clock(phase_of(f"{self._scenario.name}/{broker}/council", every))

    def seated(self, broker: Broker) -> BrokerWithCouncil:
        """The broker with a councillor; the rounds begin with the first timer."""
        scenario, now = self._scenario, self._sim.now
        assert scenario.improve is not None
        processing = 1_000.0 * scenario.service or PROCESSING_MILLISECONDS
        ground = SimGround(broker, processing, self._latency_of)
        councillor = Councillor(
            broker.name,
            ground,
            scenario.improve,
            now=now,
            where=circumstances_of(scenario),
            fresh_name=lambda: f"{NAME}{next(self._numbers)}",
        )
        return BrokerWithCouncil(broker, councillor, ground, scenario.improve.every)

    def _latency_of(self, a: Node, b: Node) -> Span:
        return self._latency.get((a, b), self._scenario.latency.default)
