"""Measurements of the ring protocol: hosts join, leave, fail, and look up keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from pleach.core.messages import Peer
from pleach.core.ring.config import RingConfig
from pleach.core.ring.effects import OwnerFound
from pleach.core.ring.lookups import Mode
from pleach.core.ring.reference_tree import parents_of, reference_tree
from pleach.lab.experiment import Sample
from pleach.lab.s3.overlays import SettledRing
from pleach.sim.ring_network import RingNetwork

GROWTH = 0.5  # new hosts per second, as a share of those that are there
SETTLE_MAX = 120.0  # seconds
LOOK_EVERY = 0.5
LOOKUPS = 1_000
LOOKUP_SECONDS = 3.0
FINGER_SECONDS = 4.0  # after the last has come; fingers are looked up one per second all the time
BURST_MAX = 12  # hosts that come and go at once
SEEDS_GIVEN = 4  # to a newcomer: some of them may be gone

RECURSIVE, ITERATIVE = "hops", "hops iterative"
SECONDS, WRONG, WRONG_OWNER = "seconds to settle", "wrong trees", "look-ups astray"
OPERATIONS, DEGREE_MAX = "operations", "degree max"


class Grown:
    """A network with a seeded stream of what happens to it."""

    def __init__(self, config: RingConfig, seed: str) -> None:
        self.config = config
        self.network = RingNetwork(config, seed)
        self.random = Random(seed)
        self.network.add(self._newcomer())

    def _newcomer(self) -> Peer:
        while True:
            key = self.random.randrange(self.config.circle.size)
            if f"h{key}" not in self.network.hosts:
                return Peer(key, f"h{key}")

    def come(self, members: Sequence[Peer]) -> None:
        self.network.add(self._newcomer(), self.random.sample(members, min(SEEDS_GIVEN, len(members))))

    def members(self) -> list[Peer]:
        return [host.me for host in self.network.members()]

    def grow(self, count: int) -> None:
        """Each second some more, while the ring is still taking in those before."""
        while len(self.network.hosts) < count:
            members = self.members()
            newcomers = max(1, int(GROWTH * len(members)))
            for _ in range(min(newcomers, count - len(self.network.hosts))):
                self.come(members)
            self.network.run(self.network.now + 1.0)

    def settle(self) -> float:
        """Seconds until the tree is what it should be; SETTLE_MAX if it does not become so."""
        start = self.network.now
        while not self.is_right() and self.network.now - start < SETTLE_MAX:
            self.network.run(self.network.now + LOOK_EVERY)
        return self.network.now - start

    def is_right(self) -> bool:
        """As both ends of every link see it."""
        hosts = self.network.hosts.values()
        tree = reference_tree(self.config.circle, self.config.degree)
        parents = set(parents_of(tree, [host.me.key for host in hosts]).items())
        upwards = {(h.me.key, h.neighbourhood.parent.key) for h in hosts if h.neighbourhood.parent is not None}
        downwards = {(child.key, h.me.key) for h in hosts for child in h.neighbourhood.children}
        return upwards == parents == downwards


def look_ups(hosts: int, bits: int, seed: int) -> Iterator[Sample]:
    """A ring that has grown to this size, and how many hops its look-ups take."""
    grown = Grown(RingConfig(bits=bits, check_tree_every=4.0), f"look-ups/{hosts}/{seed}")
    grown.grow(hosts)
    yield Sample(SECONDS, grown.settle())
    yield Sample(WRONG, float(not grown.is_right()))
    network = grown.network
    network.run(network.now + FINGER_SECONDS)
    asked = {metric: _ask(grown, mode) for metric, mode in ((RECURSIVE, Mode.RECURSIVE), (ITERATIVE, Mode.ITERATIVE))}
    network.run(network.now + LOOKUP_SECONDS)
    ring = SettledRing(grown.config.circle, [peer.key for peer in grown.members()])
    for metric, numbers in asked.items():
        answers = [answer for number in numbers if isinstance(answer := network.found.get(number), OwnerFound)]
        yield from (Sample(metric, float(answer.hops)) for answer in answers)
        right = sum(answer.owner.key == ring.owner(answer.key) for answer in answers)
        yield Sample(WRONG_OWNER, float(LOOKUPS - right))


def _ask(grown: Grown, mode: Mode) -> list[int]:
    """Random hosts look up random keys; returns the numbers of the look-ups."""
    members, random, network = grown.members(), grown.random, grown.network
    return [
        network.look_up(random.choice(members).name, random.randrange(grown.config.circle.size), mode)
        for _ in range(LOOKUPS)
    ]


def churn(hosts: int, bits: int, operations: int, seed: int) -> Iterator[Sample]:
    """Bursts of hosts that come, leave and fail; after each the tree must become what it should be."""
    grown = Grown(RingConfig(bits=bits), f"churn/{hosts}/{seed}")
    grown.grow(hosts)
    grown.settle()
    done, degree_max = 0, 0
    while done < operations:
        done += _burst(grown, hosts)
        yield Sample(SECONDS, grown.settle())
        yield Sample(WRONG, float(not grown.is_right()))
        degree_max = max(degree_max, *(len(host.neighbourhood.all) for host in grown.network.hosts.values()))
    yield Sample(OPERATIONS, float(done))
    yield Sample(DEGREE_MAX, float(degree_max))


def _burst(grown: Grown, hosts: int) -> int:
    count = grown.random.randint(1, BURST_MAX)
    for _ in range(count):
        members = grown.members()
        if grown.random.random() < (0.7 if len(grown.network.hosts) < hosts else 0.3):
            grown.come(members)
        else:
            go = grown.network.leave if grown.random.random() < 0.5 else grown.network.fail
            go(grown.random.choice(members).name)
    return count
