"""Rings to test with, and what must hold of them: S3 word by word, key by key, sharing no code with ours."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from random import Random

from pleach.core.messages import Peer
from pleach.sim.ring_network import RingNetwork

STEP = 0.5  # seconds between two looks at a ring that is settling
SETTLE_MAX = 90.0
SEEDS_GIVEN = 4  # to a newcomer: some of them may be gone


def peer(key):
    return Peer(key, f"h{key}")


# S3 §3.2 to §3.4, naively -------------------------------------------------------------------------------------------


def reference(keys, degree, side="root"):
    """The tree of these keys as (key, children); `side`: on which side of its parent it is."""
    count = degree - 1
    before = {"root": count // 2, "left": 1, "right": count - 1}[side]
    share, rest = divmod(len(keys) - 1, count)
    sizes = [share + (number < rest) for number in range(count)]
    own = sum(sizes[:before])
    others = [*keys[:own], *keys[own + 1 :]]
    children = []
    for number, size in enumerate(sizes):
        part, others = others[:size], others[size:]
        if part:
            children.append(reference(part, degree, "left" if number < before else "right"))
    return keys[own], children


@lru_cache
def _whole_reference(bits, degree):
    return reference(range(1 << bits), degree)


def keysets(size, hosts):
    """Definition 1: from its predecessor, excluded, to itself."""
    owner = [next((host for host in sorted(hosts) if host >= key), min(hosts)) for key in range(size)]
    return {host: {key for key in range(size) if owner[key] == host} for host in hosts}


def topmost_keys(tree, sets):
    """Definition 2: the first that is met breadth-first."""
    order, waiting = [], deque([tree])
    while waiting:
        key, children = waiting.popleft()
        order.append(key)
        waiting.extend(children)
    return {host: next(key for key in order if key in keyset) for host, keyset in sets.items()}


def naive_parents(bits, degree, hosts):
    return _naive_parents(bits, degree, tuple(sorted(hosts)))


@lru_cache
def _naive_parents(bits, degree, hosts):
    """Definition 3: the closest topmost key on the way to the root."""
    tree = _whole_reference(bits, degree)
    sits_at = {key: host for host, key in topmost_keys(tree, keysets(1 << bits, hosts)).items()}
    parents = {}

    def walk(node, nearest):
        key, children = node
        host = sits_at.get(key)
        if host is not None and nearest is not None:
            parents[host] = nearest
        for child in children:
            walk(child, nearest if host is None else host)

    walk(tree, None)
    return parents


def children_of(parents, host):
    return sorted(child for child, parent in parents.items() if parent == host)


# What a ring has come to ----------------------------------------------------------------------------------------


def flaws(hosts, config):
    """What is not as it should be, in words; empty where ring and tree are right."""
    keys = sorted(host.me.key for host in hosts)
    parents = naive_parents(config.bits, config.degree, keys)
    return [flaw for host in hosts for flaw in _flaws(host, keys, parents, config)]


def _flaws(host, keys, parents, config):
    key, at = host.me.key, keys.index(host.me.key)
    following = [*keys[at + 1 :], *keys[:at]]
    if host.view.predecessor.key != (following or [key])[-1]:
        yield f"{key} takes {host.view.predecessor.key} for its predecessor"
    if [p.key for p in host.view.successors] != following[: config.successors]:
        yield f"{key} is followed by {[p.key for p in host.view.successors]}"
    parent, children = host.neighbourhood
    if (parent and parent.key) != parents.get(key):
        yield f"{key} has the parent {parent and parent.key}, not {parents.get(key)}"
    if sorted(p.key for p in children) != children_of(parents, key):
        yield f"{key} has the children {[p.key for p in children]}"


def settle(network, config, limit=SETTLE_MAX):
    """Let time pass until all is right; returns what is not right at the end."""
    end = network.now + limit
    while flaws(network.hosts.values(), config) and network.now < end:
        network.run(network.now + STEP)
    return flaws(network.hosts.values(), config)


class Churn:
    """Hosts that come, leave and fail, up to `most` of them; a few at a time."""

    def __init__(self, config, seed, most, **network):
        self.random = Random(seed)
        self.config = config
        self.most = most
        self.network = RingNetwork(config, seed, **network)
        self.operations = 0
        self.network.add(peer(self.random.randrange(config.circle.size)))

    @property
    def keys(self):
        return sorted(host.me.key for host in self.network.hosts.values())

    def burst(self, count):
        for _ in range(count):
            self.operations += 1
            if self.random.random() < self._likely_to_grow():
                self.come()
            else:
                go = self.random.choice((self.network.leave, self.network.fail))
                go(self.random.choice(self.network.members()).me.name)

    def _likely_to_grow(self):
        count = len(self.network.members())
        return 1.0 if count < 3 else 0.8 if len(self.keys) < self.most else 0.2

    def come(self):
        free = [key for key in range(self.config.circle.size) if key not in self.keys]
        members = self.network.members()
        seeds = self.random.sample(members, min(SEEDS_GIVEN, len(members)))
        self.network.add(peer(self.random.choice(free)), [seed.me for seed in seeds])
