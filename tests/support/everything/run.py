"""A run of a case: the simulator's run of its scenario, with components, one-way cuts and a ring beside it."""

from __future__ import annotations

from functools import partial

from pleach.core.events.language import parse_filter
from pleach.core.messages import OPERATOR, Node, RequestHost, RequestMove
from pleach.core.mobility.ways import way
from pleach.scenario.steps import MoveClient
from pleach.sim.operations import SimOperation
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind
from support.everything.case import Case, ComponentMove, HostedComponent, OneWayCut
from support.everything.draw import SAYS
from support.everything.steward import RingSteward

STEPS_MAX = 1_000_000  # of the simulator: some thirty times what a run needs
KINDS = frozenset(RecordKind) - {RecordKind.SEND}
KIND = "running-sum"


class CaseRun(ScenarioRun):
    def __init__(self, case: Case, kinds: frozenset[RecordKind] = KINDS) -> None:
        self.case = case
        self.looked_into: list[str] = []  # what does not hold in the brokers at a drain
        super().__init__(case.scenario, case.seed, kinds)
        self.sim._steps_left = STEPS_MAX
        beside = case.beside
        for component in beside.components:
            self.sim.at(component.at, partial(self._host, component))
        for number, move in enumerate(beside.component_moves):
            self.sim.at(move.at, partial(self._move, move, number))
        for cut in beside.one_way:
            self.sim.at(cut.at, partial(self._cut, cut))
        self.steward = RingSteward(self, beside.ring_every) if beside.ring_every else None

    @property
    def rebuilds(self) -> bool:
        return self.scenario.stabilise is not None and self.scenario.stabilise.kind.rebuilds

    @property
    def up(self) -> list[Node]:
        return [name for name in sorted(self.brokers) if not self.outages.is_down(name)]

    # Components ----------------------------------------------------------------------------------------------

    def places(self, component: Node) -> list[Node]:
        """Brokers that are up and host it."""
        return [name for name in self.up if component in self.brokers[name].hosting.here]

    def _host(self, component: HostedComponent) -> None:
        broker = component.broker if component.broker in self.up else self.up[0]
        wanted, said = [parse_filter(component.filter)], [parse_filter(SAYS)]
        request = RequestHost(f"host {component.id}", component.id, KIND, wanted, said)
        self.sim.perform(broker, self.brokers[broker].handle(OPERATOR, request, now=self.sim.now))

    def _move(self, move: ComponentMove, number: int) -> None:
        """Wherever it is; nothing happens where that cannot be known."""
        places = self.places(move.component)
        path = way(self._neighbours, places[0], move.to) if places else []
        if len(path) > 1:
            name = f"{move.component}/{number}"
            request = RequestMove(name, move.component, path, round(move.delay_max * 1_000))
            step = MoveClient(at=move.at, client=move.component, to=move.to)
            self.operations._ask(SimOperation(step, places[0], request))

    def _neighbours(self, broker: Node) -> list[Node]:
        known = self.brokers.get(broker)
        return [] if known is None else known.router.neighbours

    # One direction -------------------------------------------------------------------------------------------

    def _cut(self, cut: OneWayCut) -> None:
        if not self.sim.has_link(cut.sender, cut.receiver):
            return
        link = self.sim.links_between(cut.sender, cut.receiver)[0]
        self.record(RecordKind.FAULT, "", peer=f"{cut.sender}-{cut.receiver}", detail="cut in one direction")
        self.sim.block(link)

        def heal() -> None:
            if link.blocked:  # unless it was closed meanwhile, and is new
                self.sim.unblock(link)

        self.sim.at(cut.until, heal)
