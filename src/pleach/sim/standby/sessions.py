"""Links as sessions: what is sent in a direction is numbered, and kept until its receiver has confirmed it.

Rule 1: a broker confirms what it received when the commit is at all its copies; a client at once. Confirmations take no
        time here: they only shorten what a sender keeps.
Rule 2: what was lost with a machine or on a way that was cut is sent again, in order; receivers drop what they have.
Rule 3: a sender that is a broker has sent what was confirmed of its commits: any copy that is promoted has it, too. So
        what it keeps belongs to the broker, not to one of its processes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TypeAlias

from pleach.core.messages import Message, Node
from pleach.sim.links import SimLink

OUTSIDE = 0  # the number of a message that belongs to no session: it is made up, or garbled

Numbered: TypeAlias = tuple[int, Message]


class OneWaySession:
    """One direction between two nodes."""

    __slots__ = ("confirmed", "link", "outbox", "sent")

    def __init__(self, link: SimLink) -> None:
        self.link = link
        self.sent = 0
        self.confirmed = 0
        self.outbox: deque[Numbered] = deque()

    def peer_of(self, node: Node) -> Node:
        return self.link.receiver if self.link.sender == node else self.link.sender

    def keep(self, number: int, message: Message) -> Numbered:
        assert number == self.sent + 1, f"{self.link.sender} sends {number} to {self.link.receiver} after {self.sent}"
        self.sent = number
        numbered = (number, message)
        self.outbox.append(numbered)
        return numbered

    def confirm(self, number: int) -> int:
        """How many messages are confirmed by this."""
        outbox, before = self.outbox, len(self.outbox)
        while outbox and outbox[0][0] <= number:
            outbox.popleft()
        self.confirmed = max(self.confirmed, number)
        return before - len(outbox)


class SimSessions:
    """All of them, by sender and receiver."""

    def __init__(self, *, may_lose: bool) -> None:
        """`may_lose`: links are lossy, and lose messages for good."""
        self.may_lose = may_lose
        self.all: dict[tuple[Node, Node], OneWaySession] = {}
        self._of: defaultdict[Node, list[OneWaySession]] = defaultdict(list)
        self.unconfirmed = 0  # messages

    def add(self, link: SimLink) -> OneWaySession:
        ends = (link.sender, link.receiver)
        session = self.all.get(ends)
        if session is None:
            session = self.all[ends] = OneWaySession(link)
            for node in ends:
                self._of[node].append(session)
        return session

    def confirm(self, sender: Node, receiver: Node, number: int) -> None:
        if number != OUTSIDE:
            self.unconfirmed -= self.all[sender, receiver].confirm(number)

    def of(self, node: Node) -> list[OneWaySession]:
        """Those that begin or end at a node."""
        return list(self._of[node])

    def is_new(self, node: Node, sender: Node, number: int, known: int) -> bool:
        """Whether a message is not one that was sent again; nothing is missing before it."""
        assert number <= known + 1 or self.may_lose, f"{node} gets {number} of {sender} after {known}"
        return number > known

    def received_by(self, node: Node) -> dict[Node, int]:
        """Up to which number a node has confirmed what each other one sent."""
        return {each.link.sender: each.confirmed for each in self._of[node] if each.link.receiver == node}

    def sent_by(self, node: Node) -> dict[Node, int]:
        return {each.link.receiver: each.sent for each in self._of[node] if each.link.sender == node}
