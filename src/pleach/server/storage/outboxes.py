"""The index of a store's outbox: which peers have not confirmed which row.

    rows       7: for a (sequence 4) and b (9)     8: for b (10)
    a waits    4 → 7                                            b waits    9 → 7, 10 → 8

A payload is one row, however many peers it is queued for, and the row can go when the last of them has confirmed it.
On disk this index would be larger than the rows; in memory it is a few numbers beside the payloads, which the sessions
keep there anyway.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple, Self, TypeAlias

import msgspec

from pleach.core.links.endpoint import Batch
from pleach.core.messages import Node


class Row(NamedTuple):
    """A row of the outbox: a payload, and for whom it is, under which sequence."""

    id: int
    recipients: list[tuple[int, int]]
    payload: bytes


_recipients = msgspec.msgpack.Decoder(list[tuple[int, int]])


def encode_recipients(recipients: list[tuple[int, int]]) -> bytes:
    return msgspec.msgpack.encode(recipients)


def decode_recipients(data: bytes) -> list[tuple[int, int]]:
    """Pairs of session and sequence; raises msgspec.DecodeError."""
    return _recipients.decode(data)


SessionRow: TypeAlias = tuple[int, Node, int, int, int, int]  # the columns of `sessions`


class OutboxChange(NamedTuple):
    """What a batch does to sessions and outbox."""

    joined: list[SessionRow]  # sessions that are not on disk yet
    sessions: list[SessionRow]
    confirmed: Counter[int]  # rows of the outbox, each with how many recipients have confirmed it now
    finished: list[int]  # those that nobody waits for any more
    rows: list[Row]
    queued: list[tuple[Node, int]]  # who waits for which row, in order
    rewritten: list[tuple[Node, int, int]]  # who waits for which row now, under which sequence
    forgotten: dict[Node, int]  # sessions that end, by peer
    sequence_floor: int  # beyond all that was ever queued for forgotten sessions, these among them


@dataclass(slots=True)
class Backlog:
    """What a peer has not confirmed: the outbox rows of sequence `first` and its successors, in order."""

    session: int
    first: int = 1
    is_on_disk: bool = False
    rows: deque[int] = field(default_factory=deque)

    def row(self, sequence: int) -> int:
        return self.rows[sequence - self.first]


class Outboxes:
    def __init__(self) -> None:
        self._peers: dict[Node, Backlog] = {}
        self._unconfirmed: Counter[int] = Counter()  # recipients of each row that have not confirmed it
        self._next_row = 1
        self._next_session = 1
        self._sequence_floor = 1

    @classmethod
    def of(
        cls, sessions: Iterable[tuple[int, Node, int]], rows: Iterable[tuple[int, bytes]], sequence_floor: int = 1
    ) -> Self:
        """From the disk. A row may list forgotten sessions: a later one of the same number counts from beyond."""
        outboxes = cls()
        outboxes._sequence_floor = sequence_floor
        outboxes._peers = {peer: Backlog(session, first, is_on_disk=True) for session, peer, first in sessions}
        by_session = {waiting.session: waiting for waiting in outboxes._peers.values()}
        outboxes._next_session = max(by_session, default=0) + 1
        slots: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for row, recipients in rows:
            for session, sequence in decode_recipients(recipients):
                if session in by_session and sequence >= by_session[session].first:
                    slots[session].append((sequence, row))
            outboxes._next_row = row + 1
        for session, waiting in by_session.items():
            waiting.rows.extend(row for _, row in sorted(dict(slots[session]).items()))  # the last row counts
            outboxes._unconfirmed.update(waiting.rows)
        return outboxes

    def plan(self, batch: Batch) -> OutboxChange:
        """What the batch will change. Nothing changes yet, as the disk may be full; but session numbers stay given."""
        joined: list[SessionRow] = []
        sessions: list[SessionRow] = []
        rows: list[int] = []
        for peer, (_, peer_epoch, received, first, peer_view) in batch.progress.items():
            waiting = self._peers.get(peer) or self._admit(peer)
            reached = max(first, waiting.first)  # an older batch may come late, after confirmations went ahead of it
            row = (waiting.session, peer, peer_epoch, received, reached, peer_view)
            (sessions if waiting.is_on_disk else joined).append(row)
            rows.extend(islice(waiting.rows, reached - waiting.first))
        forgotten, floor = self._forgotten(batch)
        rows.extend(row for peer in forgotten for row in self._peers[peer].rows)
        placed, queued = self._place(batch)
        rewritten = self._rewritten(batch, placed)
        rows.extend(self._peers[peer].row(sequence) for peer, sequence, _ in rewritten)
        confirmed = Counter(rows)
        finished = [row for row, count in confirmed.items() if count == self._unconfirmed[row]]
        return OutboxChange(joined, sessions, confirmed, finished, placed, queued, rewritten, forgotten, floor)

    def _rewritten(self, batch: Batch, placed: list[Row]) -> list[tuple[Node, int, int]]:
        """A rewritten payload is a new row; a later row stands for what an earlier one says of the same sequence."""
        rewritten = []
        for peer, sequence, payload in batch.rewritten:
            waiting, progress = self._peers.get(peer), batch.progress.get(peer)
            first = max(waiting.first if waiting else 0, progress.first if progress else 0)
            if waiting is None or peer in batch.forgotten or sequence < first:
                continue  # confirmed, or void
            placed.append(Row(self._next_row + len(placed), [(waiting.session, sequence)], payload))
            rewritten.append((peer, sequence, placed[-1].id))
        return rewritten

    def _forgotten(self, batch: Batch) -> tuple[dict[Node, int], int]:
        known = {peer: self._peers[peer] for peer in batch.forgotten if peer in self._peers}
        assert not known.keys() & batch.progress.keys(), "forgotten, and back in the same batch"
        ends = [waiting.first + len(waiting.rows) + 1 for waiting in known.values()]
        return {peer: waiting.session for peer, waiting in known.items()}, max([self._sequence_floor, *ends])

    def _admit(self, peer: Node) -> Backlog:
        waiting = self._peers[peer] = Backlog(self._next_session)
        self._next_session += 1
        return waiting

    def _place(self, batch: Batch) -> tuple[list[Row], list[tuple[Node, int]]]:
        """New rows, each payload once, and who waits for which of them."""
        rows: dict[bytes, Row] = {}
        queued: list[tuple[Node, int]] = []
        for peer, sequence, payload in batch.queued:
            progress = batch.progress.get(peer)
            if progress is not None and sequence < progress.first:
                continue  # void before it was written: the peer has lost its memory
            row = rows.get(payload)
            if row is None:
                row = rows[payload] = Row(self._next_row + len(rows), [], payload)
            row.recipients.append((self._peers[peer].session, sequence))
            queued.append((peer, row.id))
        return list(rows.values()), queued

    def apply(self, change: OutboxChange) -> None:
        """The change is on the disk."""
        for peer, sequence, row in change.rewritten:
            self._peers[peer].rows[sequence - self._peers[peer].first] = row
        for _, peer, _, _, first, _ in chain(change.joined, change.sessions):
            waiting = self._peers[peer]
            for _ in range(min(first - waiting.first, len(waiting.rows))):
                waiting.rows.popleft()
            waiting.first, waiting.is_on_disk = first, True
        for row, count in change.confirmed.items():
            self._unconfirmed[row] -= count
        for row in change.finished:
            del self._unconfirmed[row]
        for peer in change.forgotten:
            del self._peers[peer]
        for peer, row in change.queued:
            self._peers[peer].rows.append(row)
        for each in change.rows:
            self._unconfirmed[each.id] = len(each.recipients)
        self._next_row += len(change.rows)
        self._sequence_floor = change.sequence_floor
