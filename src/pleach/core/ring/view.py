"""What one host knows of the ring: who is before it, who follows it, and some farther away.

Rule 1: successors stand in their order on the circle, none twice, none beyond the host itself (Zave: ordered,
        no duplicates). A list that has come round ends there.
Rule 2: nobody gets into the list of successors who has not answered, or was not in the list of one who has.
Rule 3: the predecessor says what the host owns. A host that knows nobody is its own predecessor, and owns everything.
Rule 4: fingers are hints: whoever is wrong in them costs hops or a timeout, never a wrong answer.
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
        self._distances: list[int] = []  # of all known, clockwise
        self._known: list[Peer] = []

    @property
    def arc(self) -> Arc:
        return Arc(self.circle, self.predecessor.key, self.me.key)

    @property
    def is_alone(self) -> bool:
        return not self.successors and self.predecessor == self.me

    # Learning ------------------------------------------------------------------------------------------------

    def follow(self, peers: Iterable[Peer]) -> None:
        """These follow me, as one of them has said."""
        self.successors = self._in_order(peers)[: self._successors_max]
        nearest = self.first_finger  # those below it are never looked up again, and would go stale
        self.fingers = {number: peer for number, peer in self.fingers.items() if number >= nearest}
        self._note_known()

    def _in_order(self, peers: Iterable[Peer]) -> tuple[Peer, ...]:
        """Up to where they have come round to me."""
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
        """Fingers to begin with: for each power of two the nearest that is known beyond it."""
        for peer in sorted(peers, key=self._distance, reverse=True):
            if peer.key != self.me.key:
                self.fingers[self._distance(peer).bit_length() - 1] = peer
        self._note_known()

    def point(self, number: int, owner: Peer) -> int:
        """Finger `number` is this host; so are those up to the next power of two beyond it, whose number it returns."""
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
        """A host that does not answer. The predecessor stays until there is a better one: what I own hangs on it."""
        self.successors = tuple(peer for peer in self.successors if peer.key != key)
        self.fingers = {number: peer for number, peer in self.fingers.items() if peer.key != key}
        if not self.successors:
            self._fall_back(key)
        self._note_known()

    def _fall_back(self, gone: int) -> None:
        """All that followed me are gone (more than Zave allows for, or the ring is small): follow whoever I know."""
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

    # Asking --------------------------------------------------------------------------------------------------

    @property
    def first_finger(self) -> int:
        """The first that points beyond all successors."""
        return self._distance(self.successors[-1]).bit_length() if self.successors else self.circle.bits

    def knows(self, key: int) -> Peer | None:
        distance = self.circle.distance(self.me.key, key)
        index = bisect_left(self._distances, distance)
        return self._known[index] if index < len(self._known) and self._distances[index] == distance else None

    def next_hop(self, key: int, avoid: Collection[int] = ()) -> Hop | None:
        """Towards the owner of a key that is not my own: the nearest before the key, or behind me who follows."""
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
