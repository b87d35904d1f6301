"""Trees over a settled ring, as in S3 §4.1: the reference tree, and the rendezvous scheme of S3 §5.

The ring is ideal, with correct fingers everywhere, so that ten thousand hosts and hundreds of changes take seconds. The
protocol itself is measured in `protocol.py`.

Messages of a change: the look-ups of all hosts that search for their neighbours again (each hop, and the answer), and
the notifications between them; in the rendezvous scheme the join requests.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from pleach.core.messages import Peer
from pleach.core.ring.keys import Arc, Circle
from pleach.core.ring.reference_tree import ReferenceTree, parents_of
from pleach.core.ring.survey import HostArc, Neighbourhood, survey

Parents = Mapping[int, int]


class SettledRing:
    """Hosts in order, with all fingers as they should be."""

    def __init__(self, circle: Circle, hosts: list[int]) -> None:
        self.circle = circle
        self.hosts = sorted(hosts)

    def come(self, host: int) -> None:
        insort(self.hosts, host)

    def go(self, host: int) -> None:
        del self.hosts[bisect_left(self.hosts, host)]

    def owner(self, key: int) -> int:
        at = bisect_left(self.hosts, key)
        return self.hosts[at] if at < len(self.hosts) else self.hosts[0]

    def arc(self, host: int) -> Arc:
        return Arc(self.circle, self.hosts[bisect_left(self.hosts, host) - 1], host)

    def next_hop(self, host: int, key: int) -> int:
        """The finger that is nearest before the key; else the successor, who owns it."""
        distance = self.circle.distance(host, key)
        for number in reversed(range(distance.bit_length())):
            finger = self.owner((host + (1 << number)) % self.circle.size)
            if 0 < self.circle.distance(host, finger) < distance:
                return finger
        return self.owner((host + 1) % self.circle.size)

    def hops(self, host: int, key: int) -> int:
        owner, count = self.owner(key), 0
        while host != owner:
            host, count = self.next_hop(host, key), count + 1
        return count


class RingOverlay(Protocol):
    """A way to make a tree of the hosts of a ring."""

    @property
    def parents(self) -> Parents: ...

    def come(self, host: int) -> int:
        """Returns the messages that it takes; so does `go`."""
        ...

    def go(self, host: int) -> int: ...


class ReferenceOverlay:
    def __init__(self, ring: SettledRing, degree: int) -> None:
        self._ring = ring
        self._tree = ReferenceTree(ring.circle, degree)
        self.parents: Parents = parents_of(self._tree, ring.hosts)

    def come(self, host: int) -> int:
        self._ring.come(host)
        return self._changed(host)

    def go(self, host: int) -> int:
        self._ring.go(host)
        return self._changed(host)

    def _changed(self, host: int) -> int:
        before, self.parents = self.parents, parents_of(self._tree, self._ring.hosts)
        changed = changed_links(before, self.parents)
        looking = {end for link in changed for end in link} | {host, self._ring.owner(host)}
        present = set(self._ring.hosts)
        told = sum(2 for link in changed if link <= present)
        return told + sum(self._survey(each) for each in sorted(looking & present))

    def _survey(self, host: int) -> int:
        """Messages until a host knows its neighbours."""
        ring, known, messages = self._ring, dict[int, Arc](), 0
        while True:
            holdings = [HostArc(Peer(key, ""), arc) for key, arc in known.items()]
            found = survey(self._tree, ring.arc(host), holdings)
            if isinstance(found, Neighbourhood):
                return messages
            for key in found.keys:
                messages += ring.hops(host, key) + 1
                known[ring.owner(key)] = ring.arc(ring.owner(key))


class RendezvousOverlay:
    """S3 §5: each host asks the next one on the way to the root key to be its parent, and stays there while it can."""

    def __init__(self, ring: SettledRing) -> None:
        self._ring = ring
        self._root_key = ring.circle.size // 2
        self._root = -1
        self._parents: dict[int, int] = {}
        self._begin_anew()

    @property
    def parents(self) -> Parents:
        return dict(self._parents)

    def come(self, host: int) -> int:
        self._ring.come(host)
        if self._ring.owner(self._root_key) != self._root:
            return self._begin_anew()
        self._parents[host] = self._ring.next_hop(host, self._root_key)
        return 1

    def go(self, host: int) -> int:
        self._ring.go(host)
        if host == self._root:
            return self._begin_anew()
        del self._parents[host]
        orphans = [child for child, parent in self._parents.items() if parent == host]
        for child in orphans:
            self._parents[child] = self._ring.next_hop(child, self._root_key)
        return len(orphans)

    def _begin_anew(self) -> int:
        """Another host has the root key: all join again."""
        ring, self._root = self._ring, self._ring.owner(self._root_key)
        self._parents = {host: ring.next_hop(host, self._root_key) for host in ring.hosts if host != self._root}
        return len(self._parents)


# What a change did ------------------------------------------------------------------------------------------------


class ChangeReach(NamedTuple):
    """`ends`: hosts at the ends of links that came or went. `area`: those on the ways between them, too (S3 §4.2.2)."""

    ends: int
    area: int


def changed_links(before: Parents, after: Parents) -> list[frozenset[int]]:
    changed = {host for host in before.keys() | after.keys() if before.get(host) != after.get(host)}
    old = {frozenset((host, before[host])) for host in changed if host in before}
    new = {frozenset((host, after[host])) for host in changed if host in after}
    return sorted(old ^ new, key=sorted)


def change(before: Parents, after: Parents) -> ChangeReach:
    """The ways between the ends go through the larger tree, which has all of them."""
    ends = {end for link in changed_links(before, after) for end in link}
    whole = before if len(before) > len(after) else after
    return ChangeReach(len(ends), len(joined(whole, ends)))


def joined(parents: Parents, hosts: set[int]) -> set[int]:
    """The smallest part of a tree that holds together and has all these hosts."""
    if not hosts:
        return set()
    paths = [path_up(parents, host) for host in sorted(hosts)]
    visits = Counter(host for path in paths for host in path)
    meeting = next(host for host in paths[0] if visits[host] == len(paths))
    return {host for path in paths for host in path[: path.index(meeting) + 1]}


def path_up(parents: Parents, host: int) -> list[int]:
    path = [host]
    while path[-1] in parents:
        path.append(parents[path[-1]])
    return path


def degrees(parents: Parents) -> Counter[int]:
    """By host."""
    return Counter(end for link in parents.items() for end in link)


def depths(parents: Parents) -> dict[int, int]:
    """How far each host is from the root."""
    found: dict[int, int] = {}
    for host in parents:
        if host not in found:
            found.update((each, depth) for depth, each in enumerate(reversed(path_up(parents, host))))
    return found
