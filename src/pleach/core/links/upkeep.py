"""The links and timers that a machine has asked for, kept by an endpoint besides its sessions.

    LinkUp ──▶ WANTED ── LinkDown ──▶ RETIRING ── both sides have sent DONE ──▶ FORMER
                  ▲                     │   ▲                                     │ │
                  └──────── LinkUp ─────┴───│─────────────────────────────────────┘ │
                                            └── the peer connects: it missed DONE   ┘

Rule 1: a side whose machine asked for LinkDown and whose outbox is confirmed sends DONE (`ByeReason.DONE`). It ends the
        connection once the peer has sent DONE too. Until then the dialling side keeps dialling.
Rule 2: DONE carries the last sequence received, and counts only if nothing was sent behind it: a later payload may
        make the machine ask for the link again, or answer. Otherwise DONE is sent again.
Rule 3: DONE is valid for one connection. If the link is asked for again after DONE, the connection ends, and the next
        one starts without it.
Rule 4: a session is never deleted, only its connection ends. A link that comes back continues its sequence, and nothing
        is lost or doubled. The price: a session's numbers for every broker that was ever a peer.
Rule 5: wanted and retiring links are captured with the machine and follow from the journal again. Timers are not: a
        machine that resumes sets them anew.
Rule 6: a link to a client ends by the same rules and is marked as such: a client that nobody waits for is deleted with
        its note, while brokers never are (rule 4).
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
    """A link that a machine has asked for. `address`: of the peer, if known. `epoch`: that LinkUp referred us to."""

    address: str
    phase: LinkPhase
    is_client: bool = False
    epoch: int = 0


class EndpointState(msgspec.Struct, frozen=True, array_like=True):
    """The captured state of an endpoint, except its sessions."""

    machine: bytes
    links: dict[Node, LinkNote]


class Upkeep:
    def __init__(self) -> None:
        self.links: dict[Node, LinkNote] = {}
        self.timers: dict[str, float] = {}  # due times
        self._said: dict[Node, int] = {}  # DONE sent on the present connection: the sequence received by then
        self._heard: dict[Node, int] = {}  # DONE received, likewise

    def note(self, effect: UpkeepEffect, now: float) -> None:
        match effect:
            case LinkUp(to, address, is_client, epoch):
                self.links[to] = LinkNote(address or self._address(to), LinkPhase.WANTED, is_client, epoch)
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
        """Its session was deleted."""
        self.links.pop(peer, None)
        self._said.pop(peer, None)
        self._heard.pop(peer, None)

    def is_client(self, peer: Node) -> bool:
        """Whether the link to it, in whatever phase, is one to a client."""
        note = self.links.get(peer)
        return note is not None and note.is_client

    def awaited_epoch(self, peer: Node) -> int:
        """The epoch of a peer that this node was referred to; 0: none."""
        note = self.links.get(peer)
        return 0 if note is None else note.epoch

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
        """Take in a Bye that concerns the link; True if the link has ended with it.

        A peer that no longer knows us has closed the link as well, unless our outbox still has payloads for it.
        """
        if farewell.why is ByeReason.DONE:
            self._heard[peer] = farewell.received
        is_retiring = self.phase(peer) is LinkPhase.RETIRING
        is_forgotten = farewell.why is ByeReason.REFUSED and is_retiring and not session.unconfirmed
        if is_forgotten:
            self._enter(peer, LinkPhase.FORMER)
        return is_forgotten

    def done(self, sessions: Mapping[Node, Session]) -> list[Node]:
        """The peers to send DONE to now."""
        ready = {peer: sessions[peer].received for peer in self._finished(sessions)}
        unsaid = [peer for peer, received in ready.items() if self._said.get(peer) != received]
        self._said.update(ready)
        return unsaid

    def over(self, sessions: Mapping[Node, Session]) -> list[Node]:
        """The links that both sides have closed now; called after `done`."""
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
        """Remove and return the name of a timer that is due."""
        due, name = min(((due, name) for name, due in self.timers.items()), default=(now, None))
        if name is None or due > now:
            return None
        del self.timers[name]
        return name
