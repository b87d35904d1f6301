"""Batches as an endpoint could have made them: any that a store takes, of a few peers, chosen by a random stream."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from pleach.core.links.endpoint import Batch, Journalled, Progress, Queued, Saved
from pleach.server.storage.store import Store

PEERS = ("a", "b", "c", "d", "é")


@dataclass
class Peer:
    """What the endpoint knows of a peer: sequences from `first` on wait for it, `last` is the highest."""

    epoch: int
    received: int
    first: int
    last: int


class RandomBatches:
    """`payload_bytes`: the largest payload."""

    def __init__(self, stream: Random, epoch: int, *, payload_bytes: int = 40) -> None:
        self._stream = stream
        self._epoch = epoch
        self._payload_bytes = payload_bytes
        self._peers: dict[str, Peer] = {}
        self._queued_for: dict[str, None] = {}  # in the batch that is being made
        self._floor = 1
        self._now = 0.0

    def commit_to(self, store: Store) -> None:
        """One commit, of one batch or of some with a state."""
        kind = self._stream.random()
        if kind < 0.1:
            before = [self.batch() for _ in range(self._stream.randrange(3))]
            store.commit(self.batch(), self._payload(), before=before, record_first=self._stream.random() < 0.5)
        elif kind < 0.13:
            store.made_with({f"key {self._stream.randrange(6)}": f"{self._stream.random()}"})
        else:
            store.commit(self.batch(), record_first=self._stream.random() < 0.5)

    def batch(self) -> Batch:
        touched: dict[str, None] = {}
        self._queued_for = {}
        queued = [each for _ in range(self._stream.randrange(4)) for each in self._queue(touched)]
        journal = [self._entry() for _ in range(self._stream.randrange(3))]
        forgotten = self._forgotten() if self._stream.random() < 0.1 else []
        rewritten = self._rewritten() if self._stream.random() < 0.2 else []
        for name in self._peers:
            if self._stream.random() < 0.4:
                self._confirm(name)
                touched[name] = None
        progress = {name: self._progress(self._peers[name]) for name in touched}
        return Batch.empty()._replace(
            journal=journal, queued=queued, progress=progress, forgotten=forgotten, rewritten=rewritten
        )

    def _queue(self, touched: dict[str, None]) -> list[Queued]:
        """One payload, for some peers."""
        payload, queued = self._payload(), []
        for name in self._stream.sample(PEERS, self._stream.randrange(1, len(PEERS))):
            if name not in self._peers:
                self._peers[name] = Peer(self._stream.randrange(1, 2**60), 0, self._floor, self._floor - 1)
                touched[name] = None
            self._peers[name].last += 1
            self._queued_for[name] = None
            queued.append(Queued(name, self._peers[name].last, payload))
        return queued

    def _confirm(self, name: str) -> None:
        peer = self._peers[name]
        peer.received += self._stream.randrange(3)
        peer.first = self._stream.randint(peer.first, peer.last + 1)
        if self._stream.random() < 0.05:  # it has lost its memory
            peer.epoch, peer.received, peer.first = peer.epoch + 1, 0, peer.last + 1

    def _forgotten(self) -> list[str]:
        names = [name for name in self._peers if name not in self._queued_for]
        gone = self._stream.sample(names, min(len(names), 1))
        for name in gone:
            self._floor = max(self._floor, self._peers.pop(name).last + 2)
        return gone

    def _rewritten(self) -> list[Queued]:
        """Only what was queued in earlier batches is."""
        idle = [(name, peer) for name, peer in self._peers.items() if name not in self._queued_for]
        waiting = [(name, peer) for name, peer in idle if peer.first <= peer.last]
        return [Queued(name, self._stream.randint(peer.first, peer.last), self._payload()) for name, peer in waiting]

    def _entry(self) -> Journalled:
        self._now += self._stream.random()
        payload = self._payload() if self._stream.random() < 0.8 else None
        return Journalled(self._stream.choice(PEERS), payload, self._now, "" if payload else "timer")

    def _payload(self) -> bytes:
        return self._stream.randbytes(self._stream.randrange(self._payload_bytes))

    def _progress(self, peer: Peer) -> Progress:
        return Progress(self._epoch, peer.epoch, peer.received, peer.first)

    def resume(self, saved: Saved) -> None:
        """Go on from what is on disk."""
        for name, session in saved.sessions.items():
            last = session.first + len(session.outbox) - 1
            self._peers[name] = Peer(session.peer_epoch, session.received, session.first, last)
        self._floor = saved.sequence_floor
