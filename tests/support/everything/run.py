"""A run of a case: the simulator's run of its scenario, with components and a ring beside it."""

from __future__ import annotations

from functools import partial

from pleach.core.events.language import parse_filter
from pleach.core.messages import OPERATOR, Node, RequestHost, RequestMove
from pleach.core.mobility.ways import way
from pleach.scenario import steps
from pleach.sim.operations import SimOperation
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind
from support.everything.case import Case, ComponentMove, HostedComponent
from support.everything.draw import SAYS
from support.everything.losses import can_lose, machine_of
from support.everything.steward import RingSteward

STEPS_MAX = 1_000_000  # of the simulator: some thirty times what a run needs
KINDS = frozenset(RecordKind) - {RecordKind.SEND}
KIND = "running-sum"
TOO_MANY = "more than the copies allow: a broker would have no copy or no majority left"


class CaseRun(ScenarioRun):
    def __init__(self, case: Case, kinds: frozenset[RecordKind] = KINDS) -> None:
        self.case = case
        self.spared: list[steps.Destroy] = []  # machines that could not be lost in addition
        super().__init__(case.scenario, case.seed, kinds)
        self.sim._steps_left = STEPS_MAX
        beside = case.beside
        for component in beside.components:
            self.sim.at(component.at, partial(self._host, component))
        for number, move in enumerate(beside.component_moves):
            self.sim.at(move.at, partial(self._move, move, number))
        self.steward = RingSteward(self, beside.ring_every) if beside.ring_every else None

    @property
    def rebuilds(self) -> bool:
        return self.scenario.stabilise is not None and self.scenario.stabilise.kind.rebuilds

    @property
    def mended_by(self) -> float:
        """When probes are published: what was damaged is right again by then, unless something is in the way."""
        return max((step.at for step in self.scenario.steps if isinstance(step, steps.Drain)), default=0.0)

    @property
    def up(self) -> list[Node]:
        return [name for name in sorted(self.brokers) if self._is_up(name)]

    def _is_up(self, broker: Node) -> bool:
        if self.standbys is None:
            return not self.outages.is_down(broker)
        return self.standbys.brokers[broker].current is not None

    # Machines ------------------------------------------------------------------------------------------------

    def _take(self, step: steps.Step) -> None:
        """Machines that cannot be lost in addition are spared."""
        if isinstance(step, steps.Destroy) and self.standbys is not None and not self._can_bear(step):
            self.spared.append(step)
            self.refuse(step, TOO_MANY)
            return
        super()._take(step)

    def _can_bear(self, step: steps.Destroy) -> bool:
        assert self.standbys is not None
        if step.machine:
            return can_lose(self.standbys, step.machine)
        return step.broker not in self.brokers or can_lose(self.standbys, machine_of(self.standbys, step.broker))

    # Components ----------------------------------------------------------------------------------------------

    def places(self, component: Node) -> list[Node]:
        """Brokers that are up and host it."""
        return [name for name in self.up if component in self.brokers[name].hosting.here]

    def _host(self, component: HostedComponent) -> None:
        broker, wanted, said = component.broker, [parse_filter(component.filter)], [parse_filter(SAYS)]
        request = RequestHost(f"host {component.id}", component.id, KIND, wanted, said)
        if self.standbys is not None:
            self.standbys.ask(broker, request)
        else:
            self.sim.perform(broker, self.brokers[broker].handle(OPERATOR, request, now=self.sim.now))

    def _move(self, move: ComponentMove, number: int) -> None:
        """Wherever it is; nothing happens where that cannot be known."""
        places = self.places(move.component)
        path = way(self._neighbours, places[0], move.to) if places else []
        if len(path) > 1:
            name = f"{move.component}/{number}"
            request = RequestMove(name, move.component, path, round(move.delay_max * 1_000))
            step = steps.MoveClient(at=move.at, client=move.component, to=move.to)
            self.operations._ask(SimOperation(step, places[0], request))

    def _neighbours(self, broker: Node) -> list[Node]:
        known = self.brokers.get(broker)
        return [] if known is None else known.router.neighbours
