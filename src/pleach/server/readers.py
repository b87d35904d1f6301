"""Connections of readers: they read what is kept for a client, beside or instead of its own connection.

The frames of readers and the answers are in core/links/reading.py. Here is who may read: whoever knows the epochs of
the client and of the broker, as the client would; never the session of a neighbour. Each request is checked anew, since
a session may have ended in the meantime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pleach.core.links.frames import Ack, Bye, ByeReason, Extent, Frame, Hello, Ping, Read
from pleach.core.links.reading import answer, gap, refusal
from pleach.core.links.session import Session
from pleach.server.absence import AbsentClients
from pleach.server.feature import Feature
from pleach.server.links import Wire
from pleach.server.parts import NodeParts

READERS_MAX = 1_024
SILENCE_SECONDS_MAX = 60.0


@dataclass(slots=True)
class _Reader:
    hello: Hello
    heard_at: float


class Readers(Feature):
    def __init__(self, parts: NodeParts, absent: AbsentClients) -> None:
        self._name, self._endpoint, self._committer = parts.broker.name, parts.endpoint, parts.committer
        self._directory, self._links = parts.directory, parts.links
        self._absent = absent
        self._readers: dict[Wire, _Reader] = {}  # the one heard last is the last

    def admit(self, wire: Wire, hello: Hello, now: float) -> str:
        """A reader said Hello; returns why it is refused (it is told), or nothing."""
        if len(self._readers) >= READERS_MAX:
            return _end(wire, Bye(ByeReason.REFUSED, f"{self._name} has {READERS_MAX} readers, its limit"))
        wire.send(Hello(self._name, self._endpoint.epoch, 0, 0, 1))  # it may look for another broker
        session = self._session(wire, hello, now)
        if isinstance(session, str):
            return session
        self._readers[wire] = _Reader(hello, now)
        return ""

    def read(self, wire: Wire, frame: Frame, now: float) -> bool:
        """Answer a frame of a reader; whether that ended its connection."""
        hello = self._readers.pop(wire).hello
        session = self._session(wire, hello, now)
        if isinstance(session, str):
            return True
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
        return wire not in self._readers

    def _confirm(self, wire: Wire, session: Session, upto: int) -> None:
        if upto > self._visible(session):
            self._send(wire, gap(session, upto) or Bye(ByeReason.REFUSED, f"{upto} confirmed, which nobody has seen"))
            return
        self._endpoint.confirm(session.peer, upto)
        self._committer.touch()
        self._send(wire, Extent(upto, session.first, session.last))

    def lost(self, wire: Wire) -> None:
        self._readers.pop(wire, None)

    def tick(self, now: float) -> None:
        silent = [wire for wire, reader in self._readers.items() if now - reader.heard_at > SILENCE_SECONDS_MAX]
        self._dismiss(silent, f"nothing heard for {SILENCE_SECONDS_MAX:g} s")

    async def stop(self, *, is_fatal: bool) -> None:
        if not is_fatal:
            self._dismiss(list(self._readers), f"{self._name} is stopping")

    def _dismiss(self, wires: Sequence[Wire], reason: str) -> None:
        for wire in wires:
            self._send(wire, Bye(ByeReason.LEAVING, reason))

    def _session(self, wire: Wire, hello: Hello, now: float) -> Session | str:
        """The session that a reader may read; or why it may not (it is told)."""
        peer = hello.node
        if self._directory.is_broker(peer):
            return _end(wire, Bye(ByeReason.REFUSED, f"{self._name} has no client {peer!r}"))
        session = self._endpoint.sessions.get(peer)
        bye = refusal(session, hello, self._endpoint.epoch)
        if bye is not None:
            return _end(wire, bye)
        assert session is not None
        if peer not in self._links:
            self._absent.was_read(peer, now)
        return session

    def _visible(self, session: Session) -> int:
        """The last payload that a crash could not undo."""
        return self._committer.durable.last(session.peer) if self._committer.is_durable else session.last

    def _send(self, wire: Wire, frame: Frame) -> None:
        """A Bye ends the connection."""
        if isinstance(frame, Bye):
            self.lost(wire)
            _end(wire, frame)
        else:
            wire.send(frame)


def _end(wire: Wire, bye: Bye) -> str:
    wire.send(bye)
    wire.close(bye.reason)
    return bye.reason
