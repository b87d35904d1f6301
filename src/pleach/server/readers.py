"""Connections of readers: they read what is kept for a client, beside or instead of its own connection.

The frames of readers and the answers are in core/links/reading.py. Here is who may read: whoever shows the token that
the client was given (door/reader_tokens.py); never the session of a neighbour. Each request is checked anew, since a
session may have ended in the meantime. Confirmations are logged and counted: what was confirmed, the client never
gets.

Answers are large, and requests small. So no answer is made while too much waits to be taken by this reader, or by all
of them; a few requests wait for that, and with more the connection ends, as it does where nothing is taken for long.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pleach.core.links.frames import Ack, Bye, ByeReason, Extent, Frame, Hello, Ping, Read
from pleach.core.links.reading import answer, gap, refusal
from pleach.core.links.session import Session
from pleach.server.absence import AbsentClients
from pleach.server.feature import Feature
from pleach.server.links import Port, Wire
from pleach.server.parts import NodeParts

log = logging.getLogger(__name__)

READERS_MAX = 1_024
SILENCE_SECONDS_MAX = 60.0
UNSENT_BYTES_MAX = 1_048_576  # of one reader, before an answer is made
ALL_UNSENT_BYTES_MAX = 32 * 1_048_576  # of all readers together, likewise
READS_WAITING_MAX = 16
STALLED_SECONDS_MAX = 30.0  # in which a reader takes nothing of an answer


@dataclass(slots=True)
class _Reader:
    hello: Hello
    heard_at: float
    taken_at: float  # when it last took something, or there was nothing to take
    unsent_bytes: int = 0  # as of the last tick
    waiting: deque[Read] = field(default_factory=deque)


class Readers(Feature):
    def __init__(self, parts: NodeParts, absent: AbsentClients) -> None:
        self._name, self._endpoint, self._committer = parts.broker.name, parts.endpoint, parts.committer
        self._directory, self._links, self._counters = parts.directory, parts.links, parts.counters.clients
        self._absent = absent
        self._readers: dict[Wire, _Reader] = {}  # the one heard last is the last

    def admit(self, wire: Wire, hello: Hello, now: float) -> str:
        """A reader said Hello; returns why it is refused (it is told), or nothing."""
        if len(self._readers) >= READERS_MAX:
            return _end(wire, Bye(ByeReason.REFUSED, f"{self._name} has {READERS_MAX} readers, its limit"))
        directory = self._directory
        if hello.wants not in ("", self._name):
            found = directory.whereabouts(hello.wants, Port.CLIENTS)
            reason = f"this is {self._name}, not {hello.wants}"
            return _end(wire, found.bye(hello.wants) if found is not None else Bye(ByeReason.ELSEWHERE, reason))
        numbers = (self._endpoint.epoch, 0, 0, 1)
        wire.send(Hello(self._name, *numbers, view=directory.view_number, fallbacks=directory.fallbacks))
        session = self._session(wire, hello, now)
        if isinstance(session, str):
            return session
        self._readers[wire] = _Reader(hello, now, now)
        return ""

    def read(self, wire: Wire, frame: Frame, now: float) -> bool:
        """Answer a frame of a reader; whether that ended its connection."""
        reader = self._readers.pop(wire)
        session = self._session(wire, reader.hello, now)
        if isinstance(session, str):
            return True
        self._readers[wire], reader.heard_at = reader, now
        match frame:
            case Read() if len(reader.waiting) == READS_WAITING_MAX:
                self._send(wire, Bye(ByeReason.REFUSED, f"{READS_WAITING_MAX} requests wait for answers to be taken"))
            case Read():
                reader.waiting.append(frame)
                self._answer(wire, reader, session)
            case Ack(upto):
                self._confirm(wire, session, upto)
            case Ping():
                pass
            case _:
                self._send(wire, Bye(ByeReason.REFUSED, f"{type(frame).__name__} of a reader"))
        return wire not in self._readers

    def _answer(self, wire: Wire, reader: _Reader, session: Session) -> None:
        """Answer what waits, as far as there is room for answers."""
        while reader.waiting and self._has_room(wire):
            for frame in answer(session, reader.waiting.popleft(), self._visible(session)):
                self._send(wire, frame)

    def _has_room(self, wire: Wire) -> bool:
        if wire not in self._readers or wire.unsent_bytes > UNSENT_BYTES_MAX:
            return False
        return sum(each.unsent_bytes for each in self._readers) <= ALL_UNSENT_BYTES_MAX

    def _confirm(self, wire: Wire, session: Session, upto: int) -> None:
        if upto > self._visible(session):
            self._send(wire, gap(session, upto) or Bye(ByeReason.REFUSED, f"{upto} confirmed, which nobody has seen"))
            return
        before = session.first
        self._endpoint.confirm(session.peer, upto)
        self._committer.touch()
        self._counters.read_confirmed += session.first - before
        log.info("a reader has confirmed what waited for %s: %d to %d", session.peer, before, upto)
        self._send(wire, Extent(upto, session.first, session.last))

    def lost(self, wire: Wire) -> None:
        self._readers.pop(wire, None)

    def tick(self, now: float) -> None:
        silent = [wire for wire, reader in self._readers.items() if now - reader.heard_at > SILENCE_SECONDS_MAX]
        self._dismiss(silent, f"nothing heard for {SILENCE_SECONDS_MAX:g} s")
        self._dismiss(self._stalled(now), f"no answer taken for {STALLED_SECONDS_MAX:g} s")
        for wire, reader in [(wire, reader) for wire, reader in self._readers.items() if reader.waiting]:
            session = self._session(wire, reader.hello, now)
            if isinstance(session, str):
                self.lost(wire)
            else:
                self._answer(wire, reader, session)

    def _stalled(self, now: float) -> list[Wire]:
        for wire, reader in self._readers.items():
            if not wire.unsent_bytes or wire.unsent_bytes < reader.unsent_bytes:
                reader.taken_at = now
            reader.unsent_bytes = wire.unsent_bytes
        return [wire for wire, reader in self._readers.items() if now - reader.taken_at > STALLED_SECONDS_MAX]

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
        bye = refusal(session, hello, self._endpoint.epoch, self._directory.tokens.of(peer, hello.epoch))
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
