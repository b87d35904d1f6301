"""Batches: what an endpoint hands to its driver to commit and transmit, and what it recovers from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from pleach.core.effects import Concluded, Observe
from pleach.core.links.frames import Frame
from pleach.core.links.session import Session, SessionState
from pleach.core.messages import Node


class Journalled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One input that changed the machine's state: a message, a timer, or (neither) a reset of the peer."""

    peer: Node
    payload: bytes | None
    now: float
    timer: str = ""


class Queued(NamedTuple):
    peer: Node
    sequence: int
    payload: bytes


class Progress(NamedTuple):
    """The durable part of a session besides its outbox."""

    epoch: int
    peer_epoch: int
    received: int
    first: int  # all before are confirmed
    peer_view: int = 0

    @classmethod
    def of(cls, session: Session) -> Progress:
        own = session.introduction
        return cls(own.epoch, session.peer_epoch, session.received, session.first, session.peer_view)


class Batch(NamedTuple):
    """What happened since the last batch; `transmits` to `forgotten` are carried out after the rest is committed."""

    journal: list[Journalled]
    queued: list[Queued]
    progress: dict[Node, Progress]
    transmits: list[tuple[Node, Frame]]
    hangups: list[tuple[Node, str]]
    observed: list[Observe]
    up: list[Node]
    fenced: list[tuple[Node, str]]
    outdated: list[tuple[Node, str]]  # peers that know more of this node than it does, and what
    dial: list[tuple[Node, str]]  # links to open, with the address if known
    retired: list[Node]  # links that both sides have closed
    concluded: list[Concluded]
    forgotten: list[Node]  # peers whose sessions were deleted; none of them is in `progress`
    rewritten: list[Queued]  # payloads queued in earlier batches, in another form (withholding.py)

    @classmethod
    def empty(cls) -> Batch:
        return cls([], [], {}, [], [], [], [], [], [], [], [], [], [], [])

    @property
    def changes_disk(self) -> bool:
        return bool(self.journal or self.queued or self.progress or self.forgotten or self.rewritten)


class Saved(NamedTuple):
    """The content of a data directory."""

    state: bytes | None
    journal: Iterable[Journalled]
    sessions: dict[Node, SessionState]
    sequence_floor: int = 1  # the first sequence of new sessions
