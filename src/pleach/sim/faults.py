"""State faults as steps of a timeline: seeded, and recorded in the trace with the time until they are repaired."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING

from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.messages import Node
from pleach.core.stabilise.twin import ONLY_TREE
from pleach.faults.coloured_damage import COLOURED_PARTS, damaged_coloured
from pleach.faults.damage import GHOST_FILTERS, PARTS, Hand, damaged, layers_of
from pleach.faults.garbling import coloured_ghost, garbled, ghost
from pleach.scenario import steps
from pleach.scenario.model import Scenario, Stabiliser
from pleach.scenario.stabilise_settings import fault_detail, is_coloured
from pleach.trace import NETWORK, RecordKind

if TYPE_CHECKING:
    from pleach.sim.run import ScenarioRun


class SimStateFaults:
    def __init__(self, run: ScenarioRun) -> None:
        self._run = run
        self._draws = Random(f"{run.stream}/faults")
        self._filters = _filters(run.scenario)
        self._trees = _trees(run.scenario)
        self._is_coloured = is_coloured(run.scenario)
        self._parts = [*(COLOURED_PARTS if self._is_coloured else PARTS)]

    def strike(self, step: steps.Corrupt | steps.Garble) -> None:
        reason = self._why_not(step)
        if reason:
            self._run.refuse(step, reason)
        elif isinstance(step, steps.Corrupt):
            self._corrupt(step)
        else:
            self._garble(step)

    def _why_not(self, step: steps.Corrupt | steps.Garble) -> str:
        run = self._run
        if run.scenario.stabilise is None:
            return "this network does not find back by itself; give it [stabilise]"
        match step:
            case steps.Garble(link=ends):
                return "" if run.sim.has_link(*ends) else f"there is no link {ends[0]}-{ends[1]}"
            case steps.Corrupt(what=what) if what not in self._parts:
                return f"nothing is known of {what!r}; {', '.join(self._parts)} can be damaged"
            case steps.Corrupt(broker=broker):
                is_running = broker in run.brokers and run.outages.is_running(broker)
                return "" if is_running else f"broker {broker} is not running"

    def _corrupt(self, step: steps.Corrupt) -> None:
        run, broker = self._run, self._run.brokers[step.broker]
        run.record(RecordKind.FAULT, step.broker, detail=fault_detail(run.scenario, f"corrupt {step.what}"))
        hand = self._hand(step.broker, step.share)
        strike = damaged_coloured if self._is_coloured else damaged
        broker.restore(strike(broker.capture(), step.what, hand))
        if run.standbys:
            run.standbys.damaged(step.broker)
        if step.what in ("clock", "all") or self._is_coloured:  # the damage changes which links and timers it has
            run.sim.perform(step.broker, broker.resume(now=run.sim.now))

    def _garble(self, step: steps.Garble) -> None:
        run = self._run
        run.record(RecordKind.FAULT, NETWORK, peer="-".join(step.link), detail=fault_detail(run.scenario, "garble"))
        ends = [node for node in step.link if node in run.clients]
        for link in run.sim.links_between(*step.link):
            hand = self._hand_for(step.share, step.link, ends)
            ghosts = coloured_ghost if self._is_coloured else ghost
            messages = garbled(run.sim.take_from_link(link), link.sender, link.receiver, hand, ghosts)
            run.sim.resend(link, messages)

    def outage(self, fault: str) -> str:
        """The detail of an outage; in a coloured network it is repaired as a state fault is."""
        return fault_detail(self._run.scenario, fault) if self._is_coloured else fault

    def _hand(self, broker: Node, share: float) -> Hand:
        clients = [name for name, client in self._run.clients.items() if client.broker == broker]
        nodes = [*self._run.brokers[broker].router.neighbours, *clients]
        return self._hand_for(share, nodes, clients)

    def _hand_for(self, share: float, nodes: Sequence[Node], clients: Sequence[Node]) -> Hand:
        scenario, brokers = self._run.scenario, sorted(self._run.brokers)
        layers = layers_of(advertisements=scenario.advertisements)
        paced = scenario.stabilise is not None and scenario.stabilise.kind is Stabiliser.REBUILD_PACED
        return Hand(self._draws, share, nodes, clients, self._filters, layers, self._trees, brokers, paced)


def _trees(scenario: Scenario) -> Sequence[Node]:
    """The trees for which tables are rebuilt; none where there are no such tables."""
    stabilise = scenario.stabilise
    if stabilise is None or not stabilise.kind.rebuilds:
        return ()
    return scenario.brokers if stabilise.cyclic else (ONLY_TREE,)


def _filters(scenario: Scenario) -> list[Filter]:
    """The filters of the scenario, and some that no client has, of which some cover everything."""
    later = [step.filter for step in scenario.steps if isinstance(step, steps.SubscribeStep)]
    texts = [*GHOST_FILTERS, *(text for client in scenario.clients for text in client.subscribe), *later]
    return [parse_filter(text) for text in dict.fromkeys(texts)]
