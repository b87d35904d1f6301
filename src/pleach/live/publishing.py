"""Publishing that may be done again: by whatever process, as often as needed, each event is published once.

The publisher is a client whose epoch is the piece of work (a batch), and whose events are numbered by it. What the
broker has taken, it has answered, and its answers are kept in the session until they are confirmed:

    Attached · Published 1–256 · Published 257–512 · PublishRefused 513 · …     ◀── whoever takes the work up reads them

Rule 1: first the answers are read; what they do not tell of is said. Once the broker has taken what was said, the
        answers to it are there.
Rule 2: answers are confirmed only as far as the rest still tells everything: all before a `Published` that stands first
        has been published, too. The last one stays.
Rule 3: one run at a time is under way. So order is kept when a broker that is short of space refuses some for a while.
Rule 4: whoever connects takes the session over from whoever had it, and reads the answers after that: of several at the
        same work, one at a time is heard. A broker that has forgotten the answers is an error, not a new beginning.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from pleach.errors import PublishRefusedError, SessionLostError
from pleach.events.event import Event
from pleach.live.addresses import Address, backoff
from pleach.live.plain import retried
from pleach.live.reader import Place, Reader
from pleach.live.visit import Identity, Visit
from pleach.messages import Attach, Attached, Publish, Published, PublishRefused, Redirect, encode
from pleach.runs import RUN_BYTES_MAX, RUN_EVENTS_MAX, decode_all, encode_event, encode_run

ATTEMPT_SECONDS_MAX = 10.0  # for one answer
CONFIRMED_TOGETHER = 64  # answers; fewer are not worth a connection


class Ledger:
    """What the answers tell: which events are published, which were refused, how far the answers may be confirmed."""

    def __init__(self) -> None:
        self.done = 0  # all up to here are published
        self.refused: dict[int, str] = {}  # since the last that was published
        self.confirmable = 0
        self.is_begun = False

    def note(self, number: int, payload: bytes) -> None:
        for message in decode_all(payload):
            match message:
                case Attached():
                    self.is_begun = True
                case Published(event, count):
                    self._published(number, event.sequence, count)
                case PublishRefused(event, reason, is_in_doubt=True):
                    raise SessionLostError(f"whether {event} was published is not known: {reason}")
                case PublishRefused(event, reason):
                    self.refused[event.sequence] = reason
                case Redirect(broker):
                    raise SessionLostError(f"the broker leaves the tree, and sends its clients to {broker}")

    def _published(self, number: int, last: int, count: int) -> None:
        if not self.is_begun:  # rule 2
            self.done, self.is_begun = last - count, True
        assert last - count == self.done, "one run at a time, in order"
        self.done = last
        self.refused.clear()
        self.confirmable = number - 1


class _Work:
    """One process at work on it, over one connection."""

    def __init__(self, visit: Visit, who: Identity, address: Address, events: Sequence[Event]) -> None:
        self._visit = visit
        self._events = events
        since = visit.first - 1
        self._place = Place(visit.broker, str(address), visit.life, who.epoch, since, since)
        self._reader = Reader(who.name, (address,), patience=ATTEMPT_SECONDS_MAX)
        self._confirmed = since
        self._said = visit.taken
        if not self._said:
            self._say(encode(Attach()))
        self.ledger = Ledger()

    @property
    def is_done(self) -> bool:
        return self.ledger.done >= len(self._events)

    def hear(self) -> None:
        """Read on in the answers. Raises ConnectionError where another one has taken over, and confirmed some."""
        try:
            reached = self._reader.reach(self._place)
            answers = list(self._reader.payloads(self._place, self._place.at, reached.at))
        except SessionLostError as error:
            raise ConnectionError(str(error)) from error
        for number, payload in answers:
            self.ledger.note(number, payload)
        if not self.ledger.is_begun:
            raise SessionLostError(f"{self._place.broker} does not know any more what of this it has published")
        self._place = reached
        if self.ledger.confirmable >= self._confirmed + CONFIRMED_TOGETHER:
            self._confirmed = self.ledger.confirmable
            self._reader.confirm(msgspec.structs.replace(reached, at=self._confirmed))

    def say_next(self) -> None:
        """The first events that are not published: as many as a run takes, or one, to see whether there is room."""
        run: list[bytes] = []
        size = 0
        for event in self._events[self.ledger.done :]:
            encoded = encode_event(event)
            limit = 1 if self.ledger.refused else RUN_EVENTS_MAX
            if run and (len(run) == limit or size + len(encoded) > RUN_BYTES_MAX):
                break
            run.append(encoded)
            size += len(encoded)
        self._say(encode_run(Publish, len(run), b"".join(run)))

    def _say(self, payload: bytes) -> None:
        self._said += 1
        self._visit.say(self._said, payload)
        self._visit.until_taken(self._said)


def publish_once(addresses: Sequence[Address], who: Identity, events: Sequence[Event], *, patience: float) -> None:
    """Publish `events`, numbered from 1 in the epoch of `who`; what was published before is not published again.

    Whoever does the work again must do it at the same broker. Raises ConnectError, PublishRefusedError,
    SessionLostError, and ClientFencedError where later work has been done under that name.
    """
    lives: set[int] = set()

    def work_at(address: Address) -> None:
        with Visit(address, who, ATTEMPT_SECONDS_MAX) as visit:
            lives.add(visit.life)
            if len(lives) > 1:
                raise SessionLostError(f"{visit.broker} has lost its memory: what it had published is not known")
            _do(_Work(visit, who, address, events), who, patience)
            visit.leave()

    retried(addresses, patience, work_at)


def _do(work: _Work, who: Identity, patience: float) -> None:
    work.hear()
    deadline, pauses = time.monotonic() + patience, backoff()
    while not work.is_done:
        work.say_next()
        work.hear()
        if work.ledger.refused:
            _wait_for_room(who, work.ledger, deadline, next(pauses))
        else:
            deadline, pauses = time.monotonic() + patience, backoff()


def _wait_for_room(who: Identity, ledger: Ledger, deadline: float, pause: float) -> None:
    if time.monotonic() + pause > deadline:
        first = min(ledger.refused)
        raise PublishRefusedError(f"event {first} of {who.name}", ledger.refused[first])
    time.sleep(pause)
