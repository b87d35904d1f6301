"""Reconfigurations one after the other, while clients go on publishing: each begins when the last has left no trace.

A network is *settled* when no operation is under way and no message but events has been sent between brokers for as
long as the slowest link takes: then none is under way either, and nothing that happens later is due to what was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from pleach.core.events.event import Value
from pleach.core.messages import EVENTS_BETWEEN_BROKERS, Message, Node
from pleach.core.overlay.plans import Topology
from pleach.errors import LivenessError
from pleach.scenario.model import PerLink, Scenario
from pleach.scenario.overlay_steps import TreeStep
from pleach.scenario.steps import Exchange
from pleach.scenario.values import Span
from pleach.sim.run import ScenarioRun, SimResult

SETTLE_SECONDS_MAX = 600.0  # what is not settled by then never will be


@dataclass(frozen=True)
class Publisher:
    """`gap` gives the seconds to the next event, `attributes` what it says."""

    client: Node
    gap: Callable[[], float]
    attributes: Callable[[], Mapping[str, Value]]


class Rounds:
    """A run of a scenario without a timeline of its own. Time goes on by `settle` and `wait` only."""

    def __init__(self, run: ScenarioRun) -> None:
        """Put this in place after whatever else listens to what is sent."""
        self.run = run
        self.now = 0.0
        self._patience = longest(run.scenario.latency)
        self._last_sent = 0.0  # the last message between brokers that was no event
        self._publishes = False
        self._listener, run.sim.on_send = run.sim.on_send, self._sent

    def _sent(self, at: float, sender: Node, to: Node, message: Message) -> None:
        if self._listener:
            self._listener(at, sender, to, message)
        if type(message) not in EVENTS_BETWEEN_BROKERS and to in self.run.brokers and sender in self.run.brokers:
            self._last_sent = at

    # Time ----------------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.run.advance(self.now)

    def settle(self) -> None:
        begun = self.now
        self.wait(self._patience)
        while self.run.operations.under_way or self.now - self._last_sent <= self._patience:
            self.wait(self._patience)
            if self.now > begun + SETTLE_SECONDS_MAX:
                raise LivenessError(
                    f"not settled after {SETTLE_SECONDS_MAX:.0f} s of virtual time; a protocol is stuck"
                )

    def carry_out(self, step: TreeStep) -> None:
        """Begin now, and go on until all is settled."""
        self.run.sim.at(self.now, partial(self.run.operations.start, step))
        self.settle()

    def finish(self) -> SimResult:
        """No more events; what is under way arrives."""
        self._publishes = False
        result = self.run.finish()
        assert result.quiet
        assert not result.refusals, result.refusals
        return result

    # The load ------------------------------------------------------------------------------------------------

    def publish(self, publishers: Sequence[Publisher]) -> None:
        """From now on, until the end."""
        self._publishes = True
        for publisher in publishers:
            self._plan(publisher, self.now)

    def _plan(self, publisher: Publisher, after: float) -> None:
        at = after + publisher.gap()
        self.run.sim.at(at, partial(self._publish, publisher, at))

    def _publish(self, publisher: Publisher, at: float) -> None:
        if self._publishes:
            machine = self.run.clients[publisher.client]
            self.run.sim.perform(publisher.client, machine.publish(publisher.attributes()))
            self._plan(publisher, at)

    # The tree ------------------------------------------------------------------------------------------------

    @property
    def topology(self) -> Topology:
        brokers = self.run.brokers
        links = [(name, to) for name in brokers for to in brokers[name].router.neighbours if name < to]
        return Topology.of(links, brokers)


def longest(latency: PerLink[Span]) -> float:
    return max(latency.default.high, *(span.high for _, _, span in latency.links), 0.0)


def undisturbed(scenario: Scenario, seed: int) -> ScenarioRun:
    """A run that records nothing: for those who only count."""
    return ScenarioRun(scenario, seed, kinds=frozenset())


# Exchanges that leave a tree ------------------------------------------------------------------------------------


def exchange_on_cycle(stream: Random, tree: Topology, length: int) -> Exchange:
    """Any new link that closes a cycle of so many brokers, for any link of that cycle."""
    ends = [(u, v) for u in tree.brokers for v, hops in hops_from(tree, u).items() if u < v and hops == length - 1]
    assert ends, f"no two brokers of the tree are {length - 1} hops apart"
    u, v = stream.choice(ends)
    path = tree.path(u, v)
    cut = stream.randrange(length - 1)
    return Exchange(at=0.0, remove=(path[cut], path[cut + 1]), add=(u, v))


def hops_from(tree: Topology, start: Node) -> dict[Node, int]:
    found, waiting = {start: 0}, [start]
    for here in waiting:
        for there in tree.neighbours(here):
            if there not in found:
                found[there] = found[here] + 1
                waiting.append(there)
    return found
