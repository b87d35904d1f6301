"""What an endpoint hands to its driver, and what a disk gives back to an endpoint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from pleach.core.effects import Concluded, Observe
from pleach.core.links.frames import Frame
from pleach.core.links.session import SessionState
from pleach.core.messages import Node


class Journalled(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One thing that changed the machine's state: a message, a timer, or (neither) that the peer was reborn."""

    peer: Node
    payload: bytes | None
    now: float
    timer: str = ""


class Queued(NamedTuple):
    peer: Node
    sequence: int
    payload: bytes


class Progress(NamedTuple):
    """How far a link is: what of it must be on disk, besides the outbox."""

    epoch: int
    peer_epoch: int
    received: int
    first: int  # everything before is confirmed


class PublisherMark(NamedTuple):
    """The highest event of a publisher that came from a peer before we said anything beyond `after` to it.

    `after` 0: before anything that the peer has not confirmed.
    """

    peer: Node
    publisher: str
    after: int
    incarnation: int
    sequence: int


class PublisherMarks(NamedTuple):
    """What is new of them. `settled`: per peer, those with an `after` between 0 and this one are in others now."""

    seen: tuple[PublisherMark, ...] = ()
    settled: tuple[tuple[Node, int], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.seen or self.settled)


class Batch(NamedTuple):
    """What happened since the last one; all from `transmits` to `forgotten` waits for the commit of the rest."""

    journal: list[Journalled]
    queued: list[Queued]
    progress: dict[Node, Progress]
    transmits: list[tuple[Node, Frame]]
    hangups: list[tuple[Node, str]]
    observed: list[Observe]
    up: list[Node]
    fenced: list[tuple[Node, str]]
    dial: list[tuple[Node, str]]  # links that are wanted from now on, and where to, if that is known
    retired: list[Node]  # links that have been given up on both sides
    concluded: list[Concluded]
    forgotten: list[Node]  # peers whose sessions are no more; none of them is in `progress`
    sightings: PublisherMarks = PublisherMarks()

    @classmethod
    def empty(cls) -> Batch:
        return cls([], [], {}, [], [], [], [], [], [], [], [], [])

    @property
    def changes_disk(self) -> bool:
        return bool(self.journal or self.queued or self.progress or self.forgotten or self.sightings)


class Saved(NamedTuple):
    """What a disk gives back."""

    state: bytes | None
    journal: Iterable[Journalled]
    sessions: dict[Node, SessionState]
    sequence_floor: int = 1  # from which new sessions count
