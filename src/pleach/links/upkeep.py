"""Links and timers that a machine asks for while it runs: what an endpoint keeps of them besides its sessions.

    LinkUp ──▶ wanted ── LinkDown ──▶ retiring ── both sides have said DONE ──▶ former
                  ▲                       │                                       │
                  └──────── LinkUp ───────┴───────────────────────────────────────┘

Rule 1: a side of which nothing is unconfirmed, and whose machine has said LinkDown, says DONE (`Farewell.DONE`); it
        ends the connection once the other has said it, too. Until then whoever dials this link goes on dialling it.
Rule 2: DONE counts for one connection. If a link is wanted again after it was said, the connection ends, and the next
        one starts without it.
Rule 3: a session is never forgotten, only its connection goes. So a link that comes back goes on counting where it was,
        and what was under way is neither lost nor doubled. The price is a session's numbers for every broker ever met.
Rule 4: which links are wanted or retiring is captured with the machine; what follows from the journal follows again.
        Timers are not captured: a machine that resumes sets them anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from pleach.effects import CancelTimer, LinkDown, LinkUp, SetTimer
from pleach.links.frames import Farewell
from pleach.links.session import Phase, Session
from pleach.messages import Node

UpkeepEffect: TypeAlias = LinkUp | LinkDown | SetTimer | CancelTimer


class LinkNote(msgspec.Struct, array_like=True):
    """A link that a machine has asked for. `address`: where the peer listens, if that is known."""

    address: str = ""
    is_retiring: bool = False


class EndpointState(msgspec.Struct, frozen=True, array_like=True):
    """What is captured of an endpoint: all but its sessions."""

    machine: bytes
    links: dict[Node, LinkNote]


class Upkeep:
    def __init__(self) -> None:
        self.links: dict[Node, LinkNote] = {}
        self.former: dict[Node, None] = {}  # links that were given up on both sides, in this process's time
        self.timers: dict[str, float] = {}  # when they are due
        self._said: dict[Node, None] = {}  # peers to which we have said DONE, on the present connection
        self._heard: dict[Node, None] = {}  # peers that have said it

    def note(self, effect: UpkeepEffect, now: float) -> None:
        match effect:
            case LinkUp(to, address):
                self.former.pop(to, None)
                known = self.links.get(to, LinkNote()).address
                self.links[to] = LinkNote(address or known)
            case LinkDown(to):
                self.links[to] = LinkNote(self.links.get(to, LinkNote()).address, is_retiring=True)
            case SetTimer(name, after):
                self.timers[name] = now + after
            case CancelTimer(name):
                self.timers.pop(name, None)

    # Links ---------------------------------------------------------------------------------------------------

    def is_retiring(self, peer: Node) -> bool:
        note = self.links.get(peer)
        return note is not None and note.is_retiring

    def has_said_done(self, peer: Node) -> bool:
        return peer in self._said

    def connected(self, peer: Node) -> None:
        self._said.pop(peer, None)
        self._heard.pop(peer, None)

    def heard(self, peer: Node, why: Farewell, session: Session) -> bool:
        """Note a farewell that concerns links; True if the link is over with it.

        A peer that does not know us any more has given the link up as well, unless we still have something for it.
        """
        if why is Farewell.DONE:
            self._heard[peer] = None
        is_forgotten = why is Farewell.REFUSED and self.is_retiring(peer) and not session.unconfirmed
        if is_forgotten:
            self._give_up(peer)
        return is_forgotten

    def done(self, sessions: Mapping[Node, Session]) -> list[Node]:
        """The peers to which DONE is to be said now."""
        ready = [
            peer
            for peer, note in self.links.items()
            if note.is_retiring and peer not in self._said and _is_finished(sessions[peer])
        ]
        self._said.update(dict.fromkeys(ready))
        return ready

    def over(self) -> list[Node]:
        """The links that are given up on both sides now."""
        gone = [peer for peer in self.links if self.is_retiring(peer) and peer in self._said and peer in self._heard]
        for peer in gone:
            self._give_up(peer)
        return gone

    def _give_up(self, peer: Node) -> None:
        del self.links[peer]
        self.former[peer] = None

    # Timers --------------------------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        return min(self.timers.values(), default=None)

    def take_due(self, now: float) -> str | None:
        """The name of a timer that is due; it is not set any more."""
        due, name = min(((due, name) for name, due in self.timers.items()), default=(now, None))
        if name is None or due > now:
            return None
        del self.timers[name]
        return name


def _is_finished(session: Session) -> bool:
    return session.phase is Phase.UP and not session.unconfirmed
