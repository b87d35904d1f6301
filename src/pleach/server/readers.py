"""Connections of readers: they read what is kept for a client, beside or instead of its own connection.

What readers ask and are told is in links/reading.py. Here is who may: whoever knows the client's life and the broker's,
as a client would; never for the session of a neighbour. Each request is judged anew, since a session may have ended in
the meantime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pleach.core.links.frames import Ack, Bye, ByeReason, Extent, Frame, Hello, Ping, Read
from pleach.core.links.reading import answer, gap, refusal
from pleach.core.links.session import Session
from pleach.server.committer import Wire

if TYPE_CHECKING:
    from pleach.server.node import BrokerNode

READERS_MAX = 1_024
SILENCE_SECONDS_MAX = 60.0  # a reader comes, reads, and goes


@dataclass
class _Reader:
    hello: Hello
    heard_at: float


class Readers:
    def __init__(self, node: BrokerNode) -> None:
        self._node = node
        self._readers: dict[Wire, _Reader] = {}  # who was heard last stands last

    def __contains__(self, wire: object) -> bool:
        return wire in self._readers

    def __len__(self) -> int:
        return len(self._readers)

    def admit(self, wire: Wire, hello: Hello, now: float) -> str:
        """A reader said Hello; returns why it is sent away (it is told), or nothing."""
        if len(self._readers) >= READERS_MAX:
            return _end(wire, Bye(ByeReason.REFUSED, f"{self._node.name} has {READERS_MAX} readers, its limit"))
        wire.send(Hello(self._node.name, self._node.endpoint.epoch, 0, 0, 1))  # it may look for another broker
        session = self._session(wire, hello, now)
        if isinstance(session, str):
            return session
        self._readers[wire] = _Reader(hello, now)
        return ""

    def heard(self, wire: Wire, frame: Frame, now: float) -> None:
        hello = self._readers.pop(wire).hello
        session = self._session(wire, hello, now)
        if isinstance(session, str):
            return
        self._readers[wire] = _Reader(hello, now)
        match frame:
            case Read():
                for each in answer(session, frame, self._visible(session)):
                    self._send(wire, each)
            case Ack(upto):
                self._confirm(wire, session, upto)
            case Ping():
                pass
            case _:
                self._send(wire, Bye(ByeReason.REFUSED, f"{type(frame).__name__} of a reader"))

    def _confirm(self, wire: Wire, session: Session, upto: int) -> None:
        if upto > self._visible(session):
            self._send(wire, gap(session, upto) or Bye(ByeReason.REFUSED, f"{upto} confirmed, which nobody has seen"))
            return
        self._node.confirm(session.peer, upto)
        self._send(wire, Extent(upto, session.first, session.last))

    def lost(self, wire: Wire) -> None:
        self._readers.pop(wire, None)

    def tick(self, now: float) -> None:
        silent = [wire for wire, reader in self._readers.items() if now - reader.heard_at > SILENCE_SECONDS_MAX]
        self._dismiss(silent, f"nothing heard for {SILENCE_SECONDS_MAX:g} s")

    def end(self, reason: str) -> None:
        self._dismiss(list(self._readers), reason)

    def _dismiss(self, wires: Sequence[Wire], reason: str) -> None:
        for wire in wires:
            self._send(wire, Bye(ByeReason.LEAVING, reason))

    def _session(self, wire: Wire, hello: Hello, now: float) -> Session | str:
        """The session that a reader may read; or why it may not, and it is told."""
        node, peer = self._node, hello.node
        if node.directory.is_broker(peer):
            return _end(wire, Bye(ByeReason.REFUSED, f"{node.name} has no client {peer!r}"))
        session = node.endpoint.sessions.get(peer)
        bye = refusal(session, hello, node.endpoint.epoch)
        if bye is not None:
            return _end(wire, bye)
        assert session is not None
        if peer not in node.links:
            node.absence.read(peer, now)
        return session

    def _visible(self, session: Session) -> int:
        """What a crash could undo, nobody sees."""
        return self._node.durable.last(session.peer) if self._node.is_durable else session.last

    def _send(self, wire: Wire, frame: Frame) -> None:
        """A Bye is the last thing that is said."""
        if isinstance(frame, Bye):
            self.lost(wire)
            _end(wire, frame)
        else:
            wire.send(frame)


def _end(wire: Wire, bye: Bye) -> str:
    wire.send(bye)
    wire.close(bye.reason)
    return bye.reason
