"""Links and timers that a machine asks for while it runs: what an endpoint keeps of them besides its sessions.

    LinkUp ──▶ WANTED ── LinkDown ──▶ RETIRING ── both sides have said DONE ──▶ FORMER
                  ▲                     │   ▲                                     │ │
                  └──────── LinkUp ─────┴───│─────────────────────────────────────┘ │
                                            └── the peer connects: it has not heard ┘

Rule 1: a side of which nothing is unconfirmed, and whose machine has said LinkDown, says DONE (`Farewell.DONE`); it
        ends the connection once the other has said it, too. Until then whoever dials this link goes on dialling it.
Rule 2: DONE is said knowing what has been received, and counts only if that is all there is: what comes later may make
        the machine want the link again, or answer. If not, it is said again.
Rule 3: DONE counts for one connection. If a link is wanted again after it was said, the connection ends, and the next
        one starts without it.
Rule 4: a session is never forgotten, only its connection goes. So a link that comes back goes on counting where it was,
        and what was under way is neither lost nor doubled. The price is a session's numbers for every broker ever met.
Rule 5: which links are wanted or retiring is captured with the machine; what follows from the journal follows again.
        Timers are not captured: a machine that resumes sets them anew.
Rule 6: a link to a client ends by the same rules, and is noted as one to a client: whom nobody waits for any longer is
        forgotten, note and all, while brokers never are (rule 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TypeAlias

import msgspec

from pleach.core.effects import CancelTimer, LinkDown, LinkUp, SetTimer
from pleach.core.links.frames import Bye, ByeReason
from pleach.core.links.session import Session, SessionPhase
from pleach.core.messages import Node

UpkeepEffect: TypeAlias = LinkUp | LinkDown | SetTimer | CancelTimer


class LinkPhase(IntEnum):
    WANTED = 0
    RETIRING = 1
    FORMER = 2


class LinkNote(msgspec.Struct, frozen=True, array_like=True):
    """A link that a machine has asked for. `address`: where the peer listens, if that is known. `life`: see LinkUp."""

    address: str
    phase: LinkPhase
    is_client: bool = False
    life: int = 0


class EndpointState(msgspec.Struct, frozen=True, array_like=True):
    """What is captured of an endpoint: all but its sessions."""

    machine: bytes
    links: dict[Node, LinkNote]


class Upkeep:
    def __init__(self) -> None:
        self.links: dict[Node, LinkNote] = {}
        self.timers: dict[str, float] = {}  # when they are due
        self._said: dict[Node, int] = {}  # peers to which we have said DONE on the present connection, knowing what
        self._heard: dict[Node, int] = {}  # peers that have said it

    def note(self, effect: UpkeepEffect, now: float) -> None:
        match effect:
            case LinkUp(to, address, is_client, life):
                self.links[to] = LinkNote(address or self._address(to), LinkPhase.WANTED, is_client, life)
            case LinkDown(to, is_client):
                self.links[to] = LinkNote(self._address(to), LinkPhase.RETIRING, is_client)
            case SetTimer(name, after):
                self.timers[name] = now + after
            case CancelTimer(name):
                self.timers.pop(name, None)

    # Links ---------------------------------------------------------------------------------------------------

    def _address(self, peer: Node) -> str:
        known = self.links.get(peer)
        return known.address if known else ""

    def _enter(self, peer: Node, phase: LinkPhase) -> None:
        self.links[peer] = msgspec.structs.replace(self.links[peer], phase=phase)

    def forget(self, peer: Node) -> None:
        """Its session is no more."""
        self.links.pop(peer, None)
        self._said.pop(peer, None)
        self._heard.pop(peer, None)

    def is_client(self, peer: Node) -> bool:
        """Whether the link to it, in whatever phase, is one to a client."""
        note = self.links.get(peer)
        return note is not None and note.is_client

    def life(self, peer: Node) -> int:
        """The life of a peer that this node was sent to; 0 where nobody has sent it."""
        note = self.links.get(peer)
        return 0 if note is None else note.life

    def phase(self, peer: Node) -> LinkPhase | None:
        note = self.links.get(peer)
        return None if note is None else note.phase

    def has_said_done(self, peer: Node) -> bool:
        return peer in self._said

    def connected(self, peer: Node) -> None:
        if self.phase(peer) is LinkPhase.FORMER:
            self._enter(peer, LinkPhase.RETIRING)
        self._said.pop(peer, None)
        self._heard.pop(peer, None)

    def heard(self, peer: Node, farewell: Bye, session: Session) -> bool:
        """Note a farewell that concerns links; True if the link is over with it.

        A peer that does not know us any more has given the link up as well, unless we still have something for it.
        """
        if farewell.why is ByeReason.DONE:
            self._heard[peer] = farewell.received
        is_retiring = self.phase(peer) is LinkPhase.RETIRING
        is_forgotten = farewell.why is ByeReason.REFUSED and is_retiring and not session.unconfirmed
        if is_forgotten:
            self._enter(peer, LinkPhase.FORMER)
        return is_forgotten

    def done(self, sessions: Mapping[Node, Session]) -> list[Node]:
        """The peers to which DONE is to be said now."""
        ready = {peer: sessions[peer].received for peer in self._finished(sessions)}
        unsaid = [peer for peer, received in ready.items() if self._said.get(peer) != received]
        self._said.update(ready)
        return unsaid

    def over(self, sessions: Mapping[Node, Session]) -> list[Node]:
        """The links that are given up on both sides now; to be asked after `done`."""
        gone = [peer for peer in self._finished(sessions) if self._heard.get(peer) == sessions[peer].last]
        for peer in gone:
            self._enter(peer, LinkPhase.FORMER)
        return gone

    def _finished(self, sessions: Mapping[Node, Session]) -> list[Node]:
        retiring = (peer for peer, note in self.links.items() if note.phase is LinkPhase.RETIRING)
        return [peer for peer in retiring if sessions[peer].phase is SessionPhase.UP and not sessions[peer].unconfirmed]

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
