"""A ring beside the brokers of a run: brokers join by it, and its steward makes their tree follow it.

As in server/ring/: every broker has a host on the ring, which goes and comes with it. A broker that joins enters the
ring by a member, waits until the ring has named its neighbours, and joins the tree at one of them; the steward then
exchanges links, where their ends agree and no other operation is under way. There it surveys over admin ports, here it
looks.

Rule 1: time of the ring advances at looks: a broker is found in the tree, or missing, one look later at most.
Rule 2: a broker that is lost has no host until it serves elsewhere; its links stay, and so does its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING, Final

from pleach.core.messages import Node, Peer
from pleach.core.overlay.choice import AT_ONCE, AUTO
from pleach.core.overlay.plans import Link, Topology
from pleach.core.overlay.plans.steps import apply
from pleach.core.overlay.plans.transform import exchanges_at_once
from pleach.core.ring.chord import RingPhase
from pleach.core.ring.config import RingConfig
from pleach.core.ring.host import RingHost
from pleach.errors import TopologyError
from pleach.operate.ring_seats import RingSeat, ring_wish, seat_of, wanted_tree
from pleach.scenario.planted_bugs import BrokerMachine
from pleach.scenario.steps import AddBroker, Exchange
from pleach.sim.ring_network import RingNetwork

if TYPE_CHECKING:
    from pleach.sim.run import ScenarioRun

LOOK_SECONDS: Final = 1.0
BROKERS_PER_SECOND: Final = 20.0  # that a steward asks, where there is nothing to do
AT_ONCE_MAX: Final = 32  # exchanges
SEEDS_GIVEN: Final = 4  # to a newcomer: some may be gone


class RingSight(StrEnum):
    """What came of the last look at the tree."""

    UNCERTAIN = "the tree or the ring is changing, or not all of it answers"
    MOVING = "it is not as it was at the last look"
    RIGHT = "the tree is that of the ring"
    CHANGED = "links are being exchanged"


class RingBeside:
    def __init__(
        self, run: ScenarioRun, config: RingConfig, *, look_every: float = LOOK_SECONDS, weaves: bool = True
    ) -> None:
        """`weaves`: the steward keeps the ring's tree. Else brokers join where there is room, and stay there."""
        self.network = RingNetwork(config, f"{run.stream}/ring")
        self.sight = RingSight.UNCERTAIN
        self.exchanged = 0  # links
        self.on_entered: Callable[[Node], None] = lambda _: None  # called once a newcomer is in the tree
        self._run = run
        self._config = config
        self._look_every = look_every
        self._weaves = weaves
        self._draws = Random(f"{run.stream}/ring/seeds")
        self._outside: dict[Node, None] = {}  # newcomers that are not in the tree yet
        self._asked: dict[Node, None] = {}  # those of them that are on their way into it
        self._seen: Topology | None = None
        self._made: list[Link] = []  # links that were asked for at the last look
        self._is_stopped = False
        self._weave_at = 0.0
        run.sim.at(run.sim.now, self._look)

    # Joining ---------------------------------------------------------------------------------------------------

    def join(self, name: Node) -> None:
        """A broker that is new: into the ring, and then into the tree."""
        self._outside[name] = None
        self._enter_ring(name)

    @property
    def outside(self) -> int:
        """How many newcomers are not in the tree yet."""
        return len(self._outside)

    def _enter_ring(self, name: Node) -> None:
        members = self.network.members()  # none: it founds the ring
        chosen = self._draws.sample(members, min(SEEDS_GIVEN, len(members)))
        self.network.add(Peer(self._config.circle.key_of(name), name), [host.me for host in chosen])

    def _let_in(self) -> None:
        """Newcomers that have neighbours on the ring join the tree at the first that is in it (entrance.py)."""
        for name in list(self._outside):
            if name in self._asked:
                self._follow(name)
                continue
            open_ones = self._open_ones(self.network.hosts.get(name))
            if open_ones:
                self._asked[name] = None
                self._run.operations.start(AddBroker(at=self._run.sim.now, broker=name, to=open_ones[0]))

    def _open_ones(self, host: RingHost | None) -> list[Node]:
        found = [name for name in _candidates(host) if self._is_inside(name)] if host is not None else []
        if not self._weaves:  # stable, as for processes
            found.sort(key=lambda name: max(self._links_at(name), self._config.degree - 1))
        return found

    def _links_at(self, name: Node) -> int:
        """Those of brokers that are on their way to it, too, whom processes would see a moment later."""
        coming = sum(name in each.awaited[1:] for each in self._run.operations.under_way)
        return len(self._run.brokers[name].router.neighbours) + coming

    def _follow(self, name: Node) -> None:
        broker = self._run.brokers.get(name)
        if broker is None:  # refused: at the next look it asks again
            del self._asked[name]
        elif broker.router.neighbours and not self._is_awaited(name):
            del self._asked[name], self._outside[name]
            self.on_entered(name)

    def _is_awaited(self, name: Node) -> bool:
        return any(name in operation.awaited for operation in self._run.operations.under_way)

    def _is_inside(self, name: Node) -> bool:
        return name in self._run.brokers and name not in self._outside and self._is_up(name)

    def _is_up(self, name: Node) -> bool:
        standbys = self._run.standbys
        return self._run.outages.is_running(name) if standbys is None else standbys.brokers[name].current is not None

    # The steward -------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        run = self._run
        self.network.run(run.sim.now)
        self._take_census()
        self._let_in()
        if run.sim.now >= self._weave_at:
            self.sight = self._weave()
            is_quick = self.sight is RingSight.CHANGED
            self._weave_at = run.sim.now + (0.0 if is_quick else len(run.brokers) / BROKERS_PER_SECOND)
        if not self._is_stopped:
            run.sim.at(run.sim.now + self._look_every, self._look)

    def stop(self) -> None:
        """No look any more after the next one: they would keep a run from ending."""
        self._is_stopped = True

    def _take_census(self) -> None:
        """Hosts of brokers that are lost fail; those of brokers that serve again join."""
        hosts = self.network.hosts
        for name in [*self._run.brokers, *self._outside]:
            host = hosts.get(name)
            is_up = name in self._outside or self._is_up(name)
            if host is not None and (not is_up or host.phase is RingPhase.OUT):
                self.network.fail(name)  # one that could not join tries again
            if is_up and name not in hosts:
                self._enter_ring(name)

    def _weave(self) -> RingSight:
        """As the steward of processes (server/ring/steward.py), whose rules these are."""
        run = self._run
        if not self._is_idle:
            return RingSight.UNCERTAIN
        before, self._seen = self._seen, self.tree()
        if self._seen is None:
            return RingSight.UNCERTAIN
        self.exchanged += sum(self._seen.has_link(*ends) for ends in self._made)
        self._made = []
        seats = self._seats()
        wish = ring_wish(seats)
        links = wish.links if wish.root and self._weaves else ()
        exchanges = exchanges_at_once(self._seen, links, AT_ONCE, kept=wish.kept, most=AT_ONCE_MAX)
        if not exchanges:
            return RingSight.RIGHT if not self._outside and wanted_tree(seats).tree else RingSight.UNCERTAIN
        if before is None or not all(self._seen.has_link(a, b) for a, b in before.links):
            return RingSight.MOVING
        self._made = [each.add for each in exchanges]
        for each in exchanges:
            self._seen = apply(self._seen, each)  # as it will be
            run.operations.start(Exchange(at=run.sim.now, remove=each.remove, add=each.add, protocol=AUTO))
        return RingSight.CHANGED

    @property
    def _is_idle(self) -> bool:
        """Brokers that join are in nobody's way."""
        under_way = self._run.operations.under_way
        return all(isinstance(operation.step, AddBroker) for operation in under_way)

    def tree(self) -> Topology | None:
        """Of the brokers that are in it; None where not everybody is up and idle."""
        if any(broker.operation or not self._is_up(name) for name, broker in self._inside()):
            return None
        try:
            return self._run.operations.topology()
        except TopologyError:
            return None

    def _inside(self) -> Iterator[tuple[Node, BrokerMachine]]:
        return ((name, broker) for name, broker in self._run.brokers.items() if name not in self._outside)

    def _seats(self) -> dict[Node, RingSeat]:
        hosts = self.network.hosts.items()
        return {name: seat_of(host, is_leaving=False) for name, host in hosts if name not in self._outside}


def _candidates(host: RingHost) -> list[Node]:
    """As for processes: the parent, the children, whoever else is known; none until the ring has named neighbours."""
    if host.phase is not RingPhase.MEMBER or not host.neighbourhood.all:
        return []
    known = (*host.neighbourhood.all, host.view.predecessor, *host.view.successors)
    return [peer.name for peer in dict.fromkeys(known) if peer != host.me]
