"""A large network with all that looks after it, in the simulator: ring, standbys, leases, councils, and clients.

    grow      a broker comes every second, by the ring, with two clients; events flow all the time
    settle    until the tree is that of the ring
    rest      nothing happens but events: what upkeep costs
    lose      machines are destroyed for good, clients move
    settle    until the tree is that of the ring, and every broker has its copies; then a drain

Rule 1: a broker comes whether the one before is in the tree yet or not; but `OUTSIDE_MAX` at most are on their way.
Rule 2: a machine is destroyed only if every broker that has something on it is covered: of two copies one may be lost.
Rule 3: two that move links undo each other (decision 41). In a case either the steward keeps the tree of the ring, and
        councils look on (`dry_run`); or councils improve the tree, and newcomers join where there is room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Final

from pleach.core.client.machine import ClientMachine
from pleach.core.events.event import Value
from pleach.core.events.language import parse_filter
from pleach.core.messages import Message, Node
from pleach.core.overlay.plans import Topology
from pleach.core.ring.config import RingConfig
from pleach.core.ring.effects import OwnerFound
from pleach.lab.experiment import Case, Sample, Size
from pleach.scenario import Scenario, parse_scenario, steps
from pleach.scenario.machines import renewal_clock
from pleach.sim.council import NAME as COUNCIL_NAME
from pleach.sim.ring_beside import RingBeside, RingSight
from pleach.sim.run import ScenarioRun
from pleach.sim.standby.simulator import StandbySimulator
from pleach.trace import RecordKind, Rule, judge

FOUNDERS: Final = 3  # as many machines as two copies need for a majority
JOIN_EVERY, LOSS_EVERY, MOVE_EVERY = 1.0, 1.0, 1.0  # seconds
OUTSIDE_MAX: Final = 20
LOSS_SHARE: Final = 0.1  # of the machines
CLIENTS_PER_BROKER: Final = 2
TOPICS: Final = 32  # local ones; each client wants one, and publishes on it
HOT_SHARE: Final = 0.05  # of clients that want the hot topic as well, and of events that are about it
EVENT_SECONDS: Final = 240.0  # between two events of a client, on average
LOOK, REST, SETTLE_MAX = 1.0, 30.0, 900.0  # seconds
LOOKUPS: Final = 300
LOOKUP_SECONDS: Final = 5.0
TRIES: Final = 50  # machines that are considered for a loss
RING: Final = RingConfig(stabilise_every=2.0, check_tree_every=4.0)
KINDS: Final = frozenset(RecordKind) - {RecordKind.SEND}

DEGREE, DEGREE_WHILE, DEGREE_AFTER = "degree", "degree while growing", "degree after losses"
DEPTH, DIAMETER = "depth", "diameter"
HOPS, WRONG_OWNER = "hops of a look-up", "look-ups astray"
JOIN, SETTLE, EXCHANGES = "seconds to join", "seconds to settle", "exchanges"
LINKS, MEMBERS, DATAGRAMS = "messages on links", "messages of standbys", "messages of the ring"
DESTROYED, MOVED, NOT_MOVED, NOT_JOINED = "machines destroyed", "clients moved", "clients not moved", "brokers outside"
PUBLISHED, DELIVERED, UNCONFIRMED, RESTLESS = "events", "deliveries", "events not confirmed", "runs without rest"
VIRTUAL = "virtual seconds"

PROFILE: Final = """
name = "large network {brokers}"
routing = "covering"
exchange = "auto"
links = [{links}]
duration = 1000000.0

[latency]
default = [0.001, 0.025]

[standby]
after = 4.0

[stabilise]
kind = "leases"
refresh = 60.0
period = 150.0
diameter = 100

[improve]
every = 10.0
window = 60.0
dry_run = {dry_run}
"""

CASES = {Size.QUICK: (12,), Size.USUAL: (50, 100, 200), Size.FULL: (50, 100, 200, 400, 1_000)}


RING_KEPT, IMPROVED = "ring", "council"  # who keeps the tree (rule 3)


def cases(size: Size) -> list[Case]:
    return [{"brokers": brokers, "tree": tree} for brokers in CASES[size] for tree in (RING_KEPT, IMPROVED)]


def cost(case: Case) -> float:
    return float(case["brokers"]) ** 2


def measure(case: Case, seed: int) -> Iterator[Sample]:
    return LargeNetwork(int(case["brokers"]), seed, str(case["tree"])).measure()


def broker_named(number: int) -> Node:
    return f"b{number}"


def profile(brokers: int, tree: str) -> Scenario:
    """Of the founders; the others join."""
    first, *others = map(broker_named, range(FOUNDERS))
    links = ", ".join(f'["{first}", "{other}"]' for other in others)
    return parse_scenario(PROFILE.format(brokers=brokers, links=links, dry_run=str(tree == RING_KEPT).lower()))


class LargeNetwork:
    def __init__(
        self, brokers: int, seed: int, tree: str, on_progress: Callable[[str, LargeNetwork], None] | None = None
    ) -> None:
        """`brokers`: at the end of its growth. `on_progress`: called with the phase, now and then."""
        self.brokers = brokers
        self.run = ScenarioRun(profile(brokers, tree), seed, KINDS)
        self.ring = RingBeside(self.run, RING, look_every=LOOK, weaves=tree == RING_KEPT)
        self.sent: Counter[type[Message]] = Counter()  # on links
        self.joined_after: list[float] = []
        self._on_progress = on_progress or (lambda *_: None)
        self._draws = Random(f"{self.run.stream}/large")
        self._begun: dict[Node, float] = {}
        self._asked_to_move: dict[Node, Node] = {}  # the last place of each
        self._publishes = True
        self.run.sim.on_send = lambda _at, _node, _to, message: self.sent.update((type(message),))
        self.ring.on_entered = self._entered
        for name in list(self.run.brokers):
            self._add_clients(name)

    def measure(self) -> Iterator[Sample]:
        yield from self.grow()
        yield from self.settle()
        yield from self.shape()
        yield from self.look_up()
        yield from self.rest()
        yield from self.lose()
        yield from self.settle()
        yield from self.end()

    # Phases ----------------------------------------------------------------------------------------------------

    def grow(self) -> Iterator[Sample]:
        for number in range(FOUNDERS, self.brokers):
            name = broker_named(number)
            self._begun[name] = self.run.sim.now
            self.ring.join(name)
            self.advance(JOIN_EVERY)
            while self.ring.outside >= OUTSIDE_MAX:
                self.advance(LOOK)
            self._on_progress("grow", self)
            yield Sample(DEGREE_WHILE, float(max(self.degrees())))

    def settle(self) -> Iterator[Sample]:
        start = self.run.sim.now
        self.advance(LOOK)
        while not self._is_settled() and self.run.sim.now - start < SETTLE_MAX:
            self.advance(LOOK)
            self._on_progress("settle", self)
        yield Sample(SETTLE, self.run.sim.now - start)

    def _is_settled(self) -> bool:
        standbys = self.run.standbys
        assert standbys is not None
        return self.ring.sight is RingSight.RIGHT and all(map(standbys.is_covered, self.run.brokers))

    def shape(self) -> Iterator[Sample]:
        yield from (Sample(DEGREE, float(degree)) for degree in self.degrees())
        tree = self.ring.tree()
        if tree is not None:
            depths, diameter = measured(tree)
            yield from (Sample(DEPTH, float(depth)) for depth in depths)
            yield Sample(DIAMETER, float(diameter))

    def look_up(self) -> Iterator[Sample]:
        network = self.ring.network
        members = [host.me for host in network.members()]
        keys = [self._draws.randrange(RING.circle.size) for _ in range(LOOKUPS)]
        asked = [network.look_up(self._draws.choice(members).name, key) for key in keys]
        self.advance(LOOKUP_SECONDS)
        owners = sorted(peer.key for peer in members)
        astray = 0
        for key, number in zip(keys, asked, strict=True):
            answer = network.found.get(number)
            owner = next((each for each in owners if each >= key), owners[0])
            if isinstance(answer, OwnerFound) and answer.owner.key == owner:
                yield Sample(HOPS, float(answer.hops))
            else:
                astray += 1
        yield Sample(WRONG_OWNER, float(astray))

    def rest(self) -> Iterator[Sample]:
        """What the network says while nothing changes, per broker and second; events and their deliveries included."""
        sim, network = self.run.sim, self.ring.network
        assert isinstance(sim, StandbySimulator)
        before = self.sent.total(), sim.said, network.sent.total()
        self.advance(REST)
        after = self.sent.total(), sim.said, network.sent.total()
        for metric, then, now in zip((LINKS, MEMBERS, DATAGRAMS), before, after, strict=True):
            yield Sample(metric, (now - then) / REST / self.brokers)

    def lose(self) -> Iterator[Sample]:
        wanted = round(LOSS_SHARE * self.brokers)
        next_loss = next_move = start = self.run.sim.now
        lost = 0
        while lost < wanted and self.run.sim.now - start < SETTLE_MAX:
            self.advance(LOOK)
            if self.run.sim.now >= next_loss and self._destroy_one():
                lost, next_loss = lost + 1, self.run.sim.now + LOSS_EVERY
            if self.run.sim.now >= next_move:
                self._move_one()
                next_move = self.run.sim.now + MOVE_EVERY
            self._on_progress("lose", self)
        yield Sample(DESTROYED, float(lost))

    def end(self) -> Iterator[Sample]:
        self._publishes = False
        self.ring.stop()
        quiet = self.run.drain()
        yield Sample(RESTLESS, float(not quiet))
        yield from (Sample(JOIN, seconds) for seconds in self.joined_after)
        yield Sample(NOT_JOINED, float(self.ring.outside))
        yield Sample(EXCHANGES, float(self.ring.exchanged + self._improvements()))
        yield from (Sample(DEGREE_AFTER, float(degree)) for degree in self.degrees())
        arrived = [self.run.clients[client].broker == to for client, to in self._asked_to_move.items()]
        yield Sample(MOVED, float(sum(arrived)))
        yield Sample(NOT_MOVED, float(len(arrived) - sum(arrived)))
        yield from self._judged()

    def _improvements(self) -> int:
        """Exchanges that councils asked for."""
        states = (record.detail for record in self.run.recorder.records if record.kind is RecordKind.STATE)
        return sum(detail.startswith(f"operation {COUNCIL_NAME}") and detail.endswith(": done") for detail in states)

    def _judged(self) -> Iterator[Sample]:
        verdict = judge(self.run.recorder.records)
        assert not verdict.unusable, verdict.unusable
        found = Counter(violation.rule for violation in verdict.violations)
        yield from (Sample(str(rule), float(found[rule])) for rule in Rule)
        counts = verdict.counts
        yield Sample(PUBLISHED, float(counts.published))
        yield Sample(UNCONFIRMED, float(counts.published - counts.acknowledged))
        yield Sample(DELIVERED, float(counts.deliveries))
        yield Sample(VIRTUAL, self.run.sim.now)

    def advance(self, seconds: float) -> None:
        self.run.advance(self.run.sim.now + seconds)

    def degrees(self) -> list[int]:
        return [len(broker.router.neighbours) for broker in self.run.brokers.values()]

    # What happens ----------------------------------------------------------------------------------------------

    def _destroy_one(self) -> bool:
        """Whether a machine was found that may be lost (rule 2)."""
        standbys = self.run.standbys
        assert standbys is not None
        up = [host for host in standbys.hosts.values() if host.is_up]
        for host in self._draws.sample(up, min(TRIES, len(up))):
            if host.running and all(standbys.is_covered(broker) for broker in host.disk.registers):
                step = steps.Destroy(at=self.run.sim.now, machine=host.name)
                self.run.outages.take_destroy(step)
                return True
        return False

    def _move_one(self) -> None:
        client = self._draws.choice(list(self.run.clients))
        to = self._draws.choice(list(self.run.brokers))
        machine = self.run.clients[client]
        if machine.broker != to:
            self.run.operations.move(steps.MoveClient(at=self.run.sim.now, client=client, to=to), machine)
            self._asked_to_move[client] = to

    # Clients ---------------------------------------------------------------------------------------------------

    def _entered(self, name: Node) -> None:
        self.joined_after.append(self.run.sim.now - self._begun.pop(name))
        self._add_clients(name)

    def _add_clients(self, broker: Node) -> None:
        for number in range(CLIENTS_PER_BROKER):
            self._add_client(f"{broker}-c{number}", broker)

    def _add_client(self, name: Node, broker: Node) -> None:
        run, sim = self.run, self.run.sim
        topic = f"local {self._draws.randrange(TOPICS)}"
        machine = run.clients[name] = ClientMachine(name, broker, lease=renewal_clock(run.scenario, name))
        sim.add(name, machine)
        sim.link(name, broker)
        sim.perform(name, machine.attach())
        wanted = [f"topic = '{topic}'"]
        if self._draws.random() < HOT_SHARE:
            wanted.append(f"topic = 'hot' AND price > {self._draws.randrange(100)}")
        for number, text in enumerate(wanted, start=1):
            sim.perform(name, machine.subscribe(f"s{number}", parse_filter(text)))
        self._publish_later(name, topic)

    def _publish_later(self, client: Node, topic: str) -> None:
        after = self._draws.expovariate(1.0 / EVENT_SECONDS)
        self.run.sim.at(self.run.sim.now + after, partial(self._publish, client, topic))

    def _publish(self, client: Node, topic: str) -> None:
        if not self._publishes:
            return
        is_hot = self._draws.random() < HOT_SHARE
        attributes: dict[str, Value] = {"topic": "hot" if is_hot else topic, "price": self._draws.randrange(100)}
        self.run.sim.perform(client, self.run.clients[client].publish(attributes, b""))
        self._publish_later(client, topic)


def measured(tree: Topology) -> tuple[list[int], int]:
    """Links from a broker in the middle to each broker, and the longest way between two."""
    one_end = max(distances(tree, tree.brokers[0]).items(), key=lambda pair: pair[1])[0]
    from_end = distances(tree, one_end)
    other_end, diameter = max(from_end.items(), key=lambda pair: pair[1])
    middle = tree.path(one_end, other_end)[diameter // 2]
    return list(distances(tree, middle).values()), diameter


def distances(tree: Topology, start: Node) -> dict[Node, int]:
    found = {start: 0}
    for broker in (waiting := [start]):
        for neighbour in tree.neighbours(broker):
            if neighbour not in found:
                found[neighbour] = found[broker] + 1
                waiting.append(neighbour)
    return found
