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
from pleach.scenario.stabilise_settings import is_coloured, mending_of
from pleach.trace import NETWORK, RecordKind

NUMBERED = "with [standby] the messages of a link are numbered, and one that is damaged is sent again; corrupt a broker"

if TYPE_CHECKING:
    from pleach.sim.run import ScenarioRun


class SimStateFaults:
    def __init__(self, run: ScenarioRun) -> None:
        self._run = run
        self._draws = Random(f"{run.stream}/faults")
        self._filters = _filters(run.scenario)
        self._trees = _trees(run.scenario)
        self._is_coloured = is_coloured(run.scenario)
        self._mending = mending_of(run.scenario)
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
            case steps.Garble() if run.standbys:
                return NUMBERED
            case steps.Garble(link=ends):
                return "" if run.sim.has_link(*ends) else f"there is no link {ends[0]}-{ends[1]}"
            case steps.Corrupt(what=what) if what not in self._parts:
                return f"nothing is known of {what!r}; {', '.join(self._parts)} can be damaged"
            case steps.Corrupt(broker=broker):
                is_running = broker in run.brokers and run.outages.is_running(broker)
                return "" if is_running else f"broker {broker} is not running"

    def _corrupt(self, step: steps.Corrupt) -> None:
        run, broker = self._run, self._run.brokers[step.broker]
        run.record(RecordKind.FAULT, step.broker, detail=self.struck(f"corrupt {step.what}"))
        hand = self._hand(step.broker, step.share)
        strike = damaged_coloured if self._is_coloured else damaged
        broker.restore(strike(broker.capture(), step.what, hand))
        if run.standbys:
            run.standbys.damaged(step.broker)
        if step.what in ("clock", "all") or self._is_coloured:  # the damage changes which links and timers it has
            run.sim.perform(step.broker, broker.resume(now=run.sim.now))

    def _garble(self, step: steps.Garble) -> None:
        run = self._run
        run.record(RecordKind.FAULT, NETWORK, peer="-".join(step.link), detail=self.struck("garble"))
        ends = [node for node in step.link if node in run.clients]
        for link in run.sim.links_between(*step.link):
            hand = self._hand_for(step.share, step.link, ends)
            ghosts = coloured_ghost if self._is_coloured else ghost
            on_link = run.sim.take_from_link(link)
            forges = self._is_coloured or self._is_open(link.sender, link.receiver)
            messages = garbled(on_link, link.sender, link.receiver, hand, ghosts, forges=forges)
            run.sim.resend(link, messages)

    def _is_open(self, *ends: Node) -> bool:
        """Whether both ends have the link, and neither is changing the tree: it may be about to be opened, or closed.

        What is forged behind the last message of a link is damage to a protocol under way (faults/garbling.py).
        """
        changing = [end for end in ends if end in self._run.brokers and self._run.brokers[end].operation]
        return not changing and all(self._has_link(end, other) for end, other in (ends, ends[::-1]))

    def _has_link(self, end: Node, other: Node) -> bool:
        clients, brokers = self._run.clients, self._run.brokers
        if end in clients:
            return clients[end].broker == other
        if other in clients:  # who is sent elsewhere does not know it yet
            return self._run.sim.may_send(end, other)
        return end in brokers and other in brokers[end].router.neighbours

    # What the trace says of the time to mend ------------------------------------------------------------------

    def struck(self, fault: str) -> str:
        """The detail of a fault that damages state."""
        return self._mending.struck(fault, self._run.sim.now) if self._mending else fault

    def outage(self, fault: str, disturbance: str = "") -> str:
        """The detail of an outage, which keeps tables from being mended; a coloured network repairs it as well."""
        if self._is_coloured:
            return self.struck(fault)
        if self._mending and disturbance:
            self._mending.begins(disturbance, self._run.sim.now)
        return fault

    def outage_over(self, end: str, disturbance: str) -> str:
        """The detail of the end of an outage."""
        if self._is_coloured:
            return self.struck(end)
        return end + (self._mending.ends(disturbance, self._run.sim.now) if self._mending else "")

    def begins(self, disturbance: str) -> None:
        """What is no fault, but keeps tables from being mended: an operation, or a broker that moves."""
        if self._mending and not self._is_coloured:
            self._mending.begins(disturbance, self._run.sim.now)

    def ends(self, disturbance: str) -> None:
        """A record of its own says so, where something is being mended."""
        if self._mending is None or self._is_coloured:
            return
        if since := self._mending.ends(disturbance, self._run.sim.now):
            self._run.record(RecordKind.FAULT, NETWORK, detail=f"end of {disturbance}{since}")

    def _hand(self, broker: Node, share: float) -> Hand:
        sim = self._run.sim
        at_home = [name for name, client in self._run.clients.items() if client.broker == broker]
        clients = [name for name in at_home if sim.may_send(broker, name)]  # not those that it has just sent elsewhere
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
