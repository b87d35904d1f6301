"""What goes to each peer, before it is a payload: events that follow each other become a run, confirmations one.

What was said last to a peer stays open, and what is said next may join it:

    Deliver e1, Deliver e2, Published p4, Published p5, Deliver e3   ──▶   run of e1 e2 · Published p5 (2) · Deliver e3

Rule 1: nothing overtakes: what cannot join closes what is open.
Rule 2: what is open has no number yet. It is closed before its session is asked for anything that counts numbers.
Rule 3: what is the same for many peers is put together once, and is one object for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pleach.core.events.event import EventId
from pleach.core.messages import CONFIRMED_TOGETHER_MAX, Node, Published, encode
from pleach.core.messages.runs import RUN_BYTES_MAX, RUN_EVENTS_MAX, EventKind, encode_run


@dataclass(slots=True)
class _Run:
    kind: EventKind
    count: int
    size: int
    chunks: list[bytes]  # encoded events, back to back


@dataclass(slots=True)
class _Confirmation:
    last: EventId
    count: int


class RunJoiner:
    def __init__(self, put: Callable[[Node, bytes], None]) -> None:
        """`put` takes a payload that is complete."""
        self._put = put
        self._open: dict[Node, _Run | _Confirmation] = {}
        self._made: dict[tuple[object, ...], bytes] = {}  # runs that were put together since `close_all`

    def add_events(self, peer: Node, kind: EventKind, count: int, events: bytes) -> None:
        """Encoded events, back to back."""
        run = self._open.get(peer)
        if (
            run.__class__ is _Run
            and run.kind is kind
            and run.count + count <= RUN_EVENTS_MAX
            and run.size + len(events) <= RUN_BYTES_MAX
        ):
            run.count += count
            run.size += len(events)
            run.chunks.append(events)
            return
        if run is not None:
            self.close(peer)
        self._open[peer] = _Run(kind, count, len(events), [events])

    def add_confirmation(self, peer: Node, message: Published) -> None:
        held = self._open.get(peer)
        if isinstance(held, _Confirmation):
            publisher, incarnation, sequence = held.last
            follows = message.event == (publisher, incarnation, sequence + message.count)
            if follows and held.count + message.count <= CONFIRMED_TOGETHER_MAX:
                held.last = message.event
                held.count += message.count
                return
        if held is not None:
            self.close(peer)
        self._open[peer] = _Confirmation(message.event, message.count)

    def add(self, peer: Node, payload: bytes) -> None:
        """Something that joins nothing."""
        self.close(peer)
        self._put(peer, payload)

    def close(self, peer: Node) -> None:
        match self._open.pop(peer, None):
            case _Run() as run:
                self._put(peer, self._payload(run))
            case _Confirmation(last, count):
                self._put(peer, encode(Published(last, count)))

    def close_all(self) -> None:
        for peer in list(self._open):
            self.close(peer)
        self._made.clear()

    def _payload(self, run: _Run) -> bytes:
        key = (run.kind, *run.chunks)
        payload = self._made.get(key)
        if payload is None:
            payload = self._made[key] = encode_run(run.kind, run.count, b"".join(run.chunks))
        return payload
