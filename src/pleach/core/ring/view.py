"""A host's view of the ring: predecessor, successors and fingers.

Rule 1: successors are in their order on the circle, without duplicates, and end before the host itself (Zave: ordered,
        no duplicates).
Rule 2: a host enters the list of successors only after it has answered, or from the list of one that has.
Rule 3: the predecessor determines the host's arc. A host alone is its own predecessor and owns all keys.
Rule 4: fingers are hints: a wrong one costs hops or a timeout, never a wrong answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from typing import NamedTuple

from pleach.core.messages import Peer
from pleach.core.ring.keys import Arc, Circle


class Hop(NamedTuple):
    peer: Peer
    is_last: bool  # it should be the owner


class RingView:
    def __init__(self, circle: Circle, me: Peer, successors_max: int) -> None:
        self.circle = circle
        self.me = me
        self._successors_max = successors_max
        self.predecessor = me
        self.successors: tuple[Peer, ...] = ()
        self.fingers: dict[int, Peer] = {}
        self._distances: list[int] = []  # of all known hosts, clockwise
        self._known: list[Peer] = []

    @property
    def arc(self) -> Arc:
        return Arc(self.circle, self.predecessor.key, self.me.key)

    @property
    def is_alone(self) -> bool:
        return not self.successors and self.predecessor == self.me

    # Updates -------------------------------------------------------------------------------------------------

    def follow(self, peers: Iterable[Peer]) -> None:
        """Take over a list of successors from one of them."""
        self.successors = self._in_order(peers)[: self._successors_max]
        nearest = self.first_finger  # lower fingers are not refreshed any more
        self.fingers = {number: peer for number, peer in self.fingers.items() if number >= nearest}
        self._note_known()

    def _in_order(self, peers: Iterable[Peer]) -> tuple[Peer, ...]:
        """The peers up to where the order comes round to this host."""
        ordered: list[Peer] = []
        reached = 0
        for peer in peers:
            distance = self.circle.distance(self.me.key, peer.key)
            if distance <= reached:
                break
            ordered.append(peer)
            reached = distance
        return tuple(ordered)

    def hint(self, peers: Iterable[Peer]) -> None:
        """Initial fingers: for each power of two the nearest known host beyond it."""
        for peer in sorted(peers, key=self._distance, reverse=True):
            if peer.key != self.me.key:
                self.fingers[self._distance(peer).bit_length() - 1] = peer
        self._note_known()

    def point(self, number: int, owner: Peer) -> int:
        """Set finger `number`; higher fingers up to the owner are the same. Returns the next finger to look up."""
        distance = self._distance(owner)
        following = max(number + 1, distance.bit_length() if distance else self.circle.bits)
        for between in range(number, following):
            self.fingers.pop(between, None)
        if distance:
            self.fingers[number] = owner
        self._note_known()
        return following

    def unpoint(self, key: int) -> None:
        self.fingers = {number: peer for number, peer in self.fingers.items() if peer.key != key}
        self._note_known()

    def forget(self, key: int) -> None:
        """Remove a host that does not answer. The predecessor stays until it is replaced: it determines the arc."""
        self.successors = tuple(peer for peer in self.successors if peer.key != key)
        self.fingers = {number: peer for number, peer in self.fingers.items() if peer.key != key}
        if not self.successors:
            self._fall_back(key)
        self._note_known()

    def _fall_back(self, gone: int) -> None:
        """All successors are gone (more than Zave allows, or a small ring): take the known hosts as successors."""
        known = {peer.key: peer for peer in (*self.fingers.values(), self.predecessor) if peer.key != gone}
        known.pop(self.me.key, None)
        self.successors = tuple(sorted(known.values(), key=self._distance))[: self._successors_max]
        if not self.successors:
            self.predecessor = self.me

    def restore(self, predecessor: Peer, successors: tuple[Peer, ...], fingers: dict[int, Peer]) -> None:
        self.predecessor, self.fingers = predecessor, dict(fingers)
        self.follow(successors)

    def _note_known(self) -> None:
        known = {self._distance(peer): peer for peer in (*self.fingers.values(), *self.successors)}
        self._distances = sorted(known)
        self._known = [known[distance] for distance in self._distances]

    def _distance(self, peer: Peer) -> int:
        return self.circle.distance(self.me.key, peer.key)

    # Queries -------------------------------------------------------------------------------------------------

    @property
    def first_finger(self) -> int:
        """The first finger beyond all successors."""
        return self._distance(self.successors[-1]).bit_length() if self.successors else self.circle.bits

    def knows(self, key: int) -> Peer | None:
        distance = self.circle.distance(self.me.key, key)
        index = bisect_left(self._distances, distance)
        return self._known[index] if index < len(self._known) and self._distances[index] == distance else None

    def next_hop(self, key: int, avoid: Collection[int] = ()) -> Hop | None:
        """The next hop to the owner of another host's key: the nearest known host before it, or the successor."""
        following = next((peer for peer in self.successors if peer.key not in avoid), None)
        if following is None:
            return None
        distance = self.circle.distance(self.me.key, key)
        if distance <= self._distance(following):
            return Hop(following, is_last=True)
        index = bisect_left(self._distances, distance) - 1
        while index > 0 and self._known[index].key in avoid:
            index -= 1
        nearest = self._known[index]
        return Hop(following if nearest.key in avoid else nearest, is_last=False)
