"""Publishing that may be done again: by whatever process, as often as needed, each event is published once.

The publisher is a client whose epoch is the piece of work (a batch), and whose events are numbered by it. What the
broker has taken, it has answered, and its answers are kept in the session until they are confirmed:

    Attached · Published 1–256 · Published 257–512 · PublishRefused 513 · …     ◀── whoever takes the work up reads them

Rule 1: first the answers are read; what they do not tell of is said. An answer may be long in coming: a broker that
        joins the tree holds what it is told, and one that leaves it has its heir answer. So nothing is said before all
        that was said is answered. Whoever takes the work up asks for a sign: its answer comes behind all others, and
        tells whether the broker knows us. Only who is unknown, and has asked for nothing but signs there, begins.
Rule 2: answers are confirmed only as far as the rest still tells everything: all before a `Published` that stands first
        has been published, too. The last one stays.
Rule 3: one run at a time is under way. So order is kept when a broker that is short of space refuses some for a while.
Rule 4: whoever connects takes the session over from whoever had it, and reads the answers after that: of several at the
        same work, one at a time is heard. A broker that has forgotten the answers is an error, not a new beginning.
Rule 5: a broker that leaves the tree sends us on, and its heir answers what it has passed on. The work goes on there,
        by who has read all that the leaving one has answered: from nobody else is it known what that was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from pleach.client.reader import Reader, ReadPosition
from pleach.client.visit import Identity, ShortConnection
from pleach.core.events.event import Event
from pleach.core.messages import (
    Attach,
    Attached,
    Publish,
    Published,
    PublishRefused,
    Redirect,
    Refused,
    Unsubscribe,
    Unsubscribed,
    encode,
)
from pleach.core.messages.runs import RUN_BYTES_MAX, RUN_EVENTS_MAX, decode_all, encode_event, encode_run
from pleach.errors import PublishRefusedError, SessionLostError
from pleach.net.addresses import Address, backoff, parse_addresses
from pleach.net.blocking_connection import retried

ATTEMPT_SECONDS_MAX = 10.0  # for one answer
CONFIRMED_TOGETHER = 64  # answers; fewer are not worth a connection
BROKERS_MAX = 16  # that one piece of work is done at, as one after the other leaves the tree


class PublishLedger:
    """What the answers tell: which events are published, which were refused, how far the answers may be confirmed.

    `done`: of the work that began elsewhere, how far it had come there.
    """

    def __init__(self, done: int | None = None) -> None:
        self.done = done or 0  # all up to here are published
        self.refused: dict[int, str] = {}  # since the last that was published
        self.confirmable = 0
        self.is_begun = done is not None
        self.signs: set[str] = set()  # that were asked for, and given
        self.is_unknown = False  # at the broker, when it last gave one
        self.sent_on: Redirect | None = None  # to the heir; should that lose its memory, more may follow here
        self._has_told = False  # one that tells of all before it

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
                case Unsubscribed(sign) | Refused(sign):
                    self.signs.add(sign)
                    self.is_unknown = isinstance(message, Refused)
                case Redirect():
                    self.sent_on = message

    def has_answered(self, last: int) -> bool:
        return all(number in self.refused for number in range(self.done + 1, last + 1))

    def _published(self, number: int, last: int, count: int) -> None:
        if not self._has_told:  # rule 2
            assert last - count >= self.done, "what was published elsewhere is not said here"
            self.done, self.is_begun, self._has_told = last - count, True, True
        assert last - count == self.done, "one run at a time, in order"
        self.done = last
        self.refused.clear()
        self.confirmable = number - 1


class _Stop:
    """A broker that the work is done at: the one that was named, or the heir of one that has left the tree."""

    def __init__(self, addresses: Sequence[Address], heir: ReadPosition | None = None, done: int | None = None) -> None:
        self.addresses = addresses
        self.broker = heir.broker if heir else ""  # empty: whoever is there
        self.done = done  # before, elsewhere
        self._life = heir.life if heir else 0

    def met(self, visit: ShortConnection) -> None:
        if self._life not in (0, visit.life):
            raise SessionLostError(f"{visit.broker} has lost its memory: what it had published is not known")
        self._life = visit.life


class _Work:
    """One process at work on it, over one connection."""

    def __init__(
        self, visit: ShortConnection, who: Identity, address: Address, events: Sequence[Event], ledger: PublishLedger
    ) -> None:
        self._visit = visit
        self._events = events
        since = visit.first - 1
        self._place = ReadPosition(visit.broker, str(address), visit.life, who.epoch, since, since)
        self._reader = Reader(who.name, (address,), patience=ATTEMPT_SECONDS_MAX)
        self._confirmed = since
        self._said = visit.taken
        self.ledger = ledger

    @property
    def is_done(self) -> bool:
        return self.ledger.done >= len(self._events)

    @property
    def is_over(self) -> bool:
        """Here, at least."""
        return self.is_done or self.ledger.sent_on is not None

    def take_up(self, patience: float) -> None:
        """Know what has become of all that was said before, by whomever (rule 1)."""
        sign = self._sign(self._said + 1)
        self._say(encode(Unsubscribe(sign)))  # from what nobody has subscribed to: a question, and its answer
        self._hear_until(lambda: sign in self.ledger.signs, patience)
        if self.ledger.is_unknown and not self.ledger.is_begun and self._has_only_asked:
            self._say(encode(Attach()))
            self._hear_until(lambda: self.ledger.is_begun, patience)
        if not self.ledger.is_begun:
            sent_on = self.ledger.sent_on
            leaves = f"leaves the tree, sends its clients to {sent_on.broker}, and " if sent_on else ""
            raise SessionLostError(f"{self._place.broker} {leaves}does not know any more what of this it has published")

    def say_next(self, patience: float) -> None:
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
        last = self.ledger.done + len(run)
        self.ledger.refused.clear()  # they are said again
        self._say(encode_run(Publish, len(run), b"".join(run)))
        self._hear_until(lambda: self.ledger.has_answered(last), patience)

    def stay(self, seconds: float) -> None:
        self._visit.stay(seconds)

    def follow(self) -> _Stop:
        """Where the work goes on, after all that this broker has answered (rule 5). Its connection is closed."""
        sent_on = self.ledger.sent_on
        assert sent_on is not None, "nobody has sent us anywhere"
        place = msgspec.structs.replace(
            self._place, said=self._said, next_broker=sent_on.broker, next_address=sent_on.address
        )
        heir = self._reader.follow(place)
        if sent_on.life not in (0, heir.life):
            raise SessionLostError(f"{heir.broker} has lost its memory: what was passed on to it is not known")
        return _Stop(parse_addresses(heir.address), heir, self.ledger.done)

    def _sign(self, number: int) -> str:
        """What is asked for in the payload of that number, if it asks for a sign."""
        return f"answered/{self._place.broker}/{number}"

    @property
    def _has_only_asked(self) -> bool:
        """Whether nothing was ever said here but questions: by us, or by one that was broken off after them."""
        return all(self._sign(number) in self.ledger.signs for number in range(1, self._said + 1))

    def _say(self, payload: bytes) -> None:
        self._said += 1
        self._visit.say(self._said, payload)
        self._visit.until_taken(self._said)

    def _hear_until(self, is_heard: Callable[[], bool], patience: float) -> None:
        """Until then, or we are sent on. Raises TimeoutError; whoever takes the work up waits for the same answer."""
        deadline, pauses = time.monotonic() + patience, backoff()
        self._hear()
        while not (is_heard() or self.ledger.sent_on):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._place.broker} has taken what was said, and has not answered in time")
            self._visit.stay(next(pauses))
            self._hear()

    def _hear(self) -> None:
        """Read on in the answers. Raises ConnectionError where another one has taken over, and confirmed some."""
        try:
            reached = self._reader.reach(self._place)
            answers = list(self._reader.payloads(self._place, self._place.at, reached.at))
        except SessionLostError as error:
            raise ConnectionError(str(error)) from error
        for number, payload in answers:
            self.ledger.note(number, payload)
        self._place = reached
        if self.ledger.confirmable >= self._confirmed + CONFIRMED_TOGETHER:
            self._confirmed = self.ledger.confirmable
            self._reader.confirm(msgspec.structs.replace(reached, at=self._confirmed))


def publish_once(addresses: Sequence[Address], who: Identity, events: Sequence[Event], *, patience: float) -> None:
    """Publish `events`, numbered from 1 in the epoch of `who`; what was published before is not published again.

    Whoever does the work again must do it at the same broker. Raises ConnectError, PublishRefusedError,
    SessionLostError, and ClientFencedError where later work has been done under that name.
    """
    stop = _Stop(addresses)
    for _ in range(BROKERS_MAX):
        further = retried(stop.addresses, patience, partial(_work_at, stop, who, events, patience))
        if further is None:
            return
        stop = further
    raise SessionLostError(f"{BROKERS_MAX} brokers have left the tree, one after the other, and sent {who.name} on")


def _work_at(stop: _Stop, who: Identity, events: Sequence[Event], patience: float, address: Address) -> _Stop | None:
    """Returns where the work goes on, if anywhere."""
    with ShortConnection(address, who, ATTEMPT_SECONDS_MAX, broker=stop.broker) as visit:
        stop.met(visit)
        work = _Work(visit, who, address, events, PublishLedger(stop.done))
        _do(work, who, patience)
        visit.leave()
    return None if work.is_done else work.follow()


def _do(work: _Work, who: Identity, patience: float) -> None:
    """As far as this broker takes it."""
    work.take_up(patience)
    deadline, pauses = time.monotonic() + patience, backoff()
    while not work.is_over:
        work.say_next(patience)
        if work.ledger.refused:
            _wait_for_room(work, who, deadline, next(pauses))
        else:
            deadline, pauses = time.monotonic() + patience, backoff()


def _wait_for_room(work: _Work, who: Identity, deadline: float, pause: float) -> None:
    if time.monotonic() + pause > deadline:
        first = min(work.ledger.refused)
        raise PublishRefusedError(f"event {first} of {who.name}", work.ledger.refused[first])
    work.stay(pause)
