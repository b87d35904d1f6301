"""Idempotent publishing: a batch may be repeated by any process, as often as needed, and each event is published once.

The publisher is a client whose epoch is the batch, and whose events are numbered within it. The broker answers each
payload that it has received, and keeps its answers in the session until they are confirmed:

    Attached · Published 1–256 · Published 257–512 · PublishRefused 513 · …     ◀── a process that continues reads them

Rule 1: the answers are read first; then events are sent that no answer mentions. An answer may take long: a broker that
        joins the tree holds what it receives, and one that leaves it has its successor answer. So nothing is sent
        before all that was sent is answered. A process that continues the batch sends a probe: its answer comes behind
        all others, and tells whether the broker knows the client. The batch begins only where the client is unknown and
        has sent nothing but probes.
Rule 2: answers are confirmed only as far as the rest still tells everything: all events before a `Published` that comes
        first have been published, too. The last answer is never confirmed.
Rule 3: one run is in flight at a time, so that order is kept when a broker that lacks space refuses events for a while.
Rule 4: a process that connects takes the session over, and reads the answers after that: of several processes with the
        same batch, one at a time gets through. A broker that has lost the answers is an error, not a new beginning.
Rule 5: a broker that leaves the tree redirects the client, and its successor answers what was passed on to it. Only a
        process that has read all answers of the leaving broker continues there: nobody else knows what they were.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from pleach.client.reader import Reader, ReadPosition, position_at
from pleach.client.short_connection import Identity, ShortConnection
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
from pleach.net.client_login import PLAIN, Entry

ATTEMPT_SECONDS_MAX = 10.0  # for one answer
CONFIRMED_TOGETHER = 64  # answers; fewer are not worth a connection
BROKERS_MAX = 16  # that one batch is sent to, as one after the other leaves the tree


class PublishLedger:
    """What the answers tell: which events are published, which were refused, how far the answers may be confirmed.

    `done`: events that were published at former brokers.
    """

    def __init__(self, done: int | None = None) -> None:
        self.done = done or 0  # all up to here are published
        self.refused: dict[int, str] = {}  # since the last that was published
        self.confirmable = 0
        self.is_begun = done is not None
        self.probes: set[str] = set()  # answered
        self.is_unknown = False  # to the broker, at the last of them
        self.redirect: Redirect | None = None  # should the successor lose its memory, more answers may follow here
        self._has_told = False  # a first `Published` (rule 2)

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
                case Unsubscribed(probe) | Refused(probe):
                    self.probes.add(probe)
                    self.is_unknown = isinstance(message, Refused)
                case Redirect():
                    self.redirect = message

    def has_answered(self, last: int) -> bool:
        return all(number in self.refused for number in range(self.done + 1, last + 1))

    def _published(self, number: int, last: int, count: int) -> None:
        if not self._has_told:  # rule 2
            assert last - count >= self.done, "events of former brokers are not answered here"
            self.done, self.is_begun, self._has_told = last - count, True, True
        assert last - count == self.done, "one run at a time, in order"
        self.done = last
        self.refused.clear()
        self.confirmable = number - 1


class _Target:
    """A broker that the batch is sent to: the one that was named, or the successor of one that has left the tree."""

    def __init__(
        self,
        addresses: Sequence[Address],
        successor: ReadPosition | None = None,
        done: int | None = None,
        *,
        entry: Entry = PLAIN,
    ) -> None:
        self.entry = entry
        self.addresses = [*addresses]
        self.broker = successor.broker if successor else ""  # empty: any, until one is met
        self.view = successor.view if successor else 0
        self.done = done  # at former brokers
        self._epoch = successor.life if successor else 0

    def met(self, connection: ShortConnection) -> None:
        if self._epoch not in (0, connection.life):
            raise SessionLostError(f"{connection.broker} has lost its memory: what it had published is not known")
        self._epoch, self.broker, self.view = connection.life, connection.broker, connection.view
        others = [each for text in connection.fallbacks for each in parse_addresses(text)]
        self.addresses += [each for each in others if each not in self.addresses]


class _Batch:
    """The batch at one broker, over one connection."""

    def __init__(
        self,
        connection: ShortConnection,
        who: Identity,
        address: Address,
        events: Sequence[Event],
        ledger: PublishLedger,
        entry: Entry,
    ) -> None:
        self._connection = connection
        self._events = events
        since = connection.first - 1
        self._position = position_at(connection, address, who.epoch)
        self._reader = Reader(who.name, (address,), patience=ATTEMPT_SECONDS_MAX, entry=entry)
        self._confirmed = since
        self._entry = entry
        self._sent = connection.taken
        self.ledger = ledger

    @property
    def is_done(self) -> bool:
        return self.ledger.done >= len(self._events)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to send to this broker."""
        return self.is_done or self.ledger.redirect is not None

    def resume(self, patience: float) -> None:
        """Learn the outcome of all that was sent before, by whatever process (rule 1)."""
        probe = self._probe(self._sent + 1)
        self._send(encode(Unsubscribe(probe)))  # from a subscription that does not exist: it only brings an answer
        self._read_until(lambda: probe in self.ledger.probes, patience)
        if self.ledger.is_unknown and not self.ledger.is_begun and self._has_only_probed:
            self._send(encode(Attach()))
            self._read_until(lambda: self.ledger.is_begun, patience)
        if not self.ledger.is_begun:
            redirect = self.ledger.redirect
            leaves = f"leaves the tree, sends its clients to {redirect.broker}, and " if redirect else ""
            raise SessionLostError(
                f"{self._position.broker} {leaves}does not know any more what of this it has published"
            )

    def send_next(self, patience: float) -> None:
        """Send the first events that are not published: a run, or one event while the broker refuses."""
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
        self.ledger.refused.clear()  # they are sent again
        self._send(encode_run(Publish, len(run), b"".join(run)))
        self._read_until(lambda: self.ledger.has_answered(last), patience)

    def stay(self, seconds: float) -> None:
        self._connection.stay(seconds)

    def follow(self) -> _Target:
        """The next broker, after all that this one has answered (rule 5). Its connection is closed."""
        redirect = self.ledger.redirect
        assert redirect is not None, "no redirection"
        position = msgspec.structs.replace(
            self._position, said=self._sent, next_broker=redirect.broker, next_address=redirect.address
        )
        successor = self._reader.follow(position)
        if redirect.life not in (0, successor.life):
            raise SessionLostError(f"{successor.broker} has lost its memory: what was passed on to it is not known")
        return _Target(parse_addresses(successor.address), successor, self.ledger.done, entry=self._entry)

    def _probe(self, number: int) -> str:
        """The name of the probe in the payload of that number."""
        return f"answered/{self._position.broker}/{number}"

    @property
    def _has_only_probed(self) -> bool:
        """Whether nothing but probes was ever sent here, by us or by a process before us."""
        return all(self._probe(number) in self.ledger.probes for number in range(1, self._sent + 1))

    def _send(self, payload: bytes) -> None:
        self._sent += 1
        self._connection.say(self._sent, payload)
        self._connection.until_taken(self._sent)

    def _read_until(self, is_enough: Callable[[], bool], patience: float) -> None:
        """Read answers until then, or until a redirection. Raises TimeoutError."""
        deadline, pauses = time.monotonic() + patience, backoff()
        self._read_answers()
        while not (is_enough() or self.ledger.redirect):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._position.broker} has received the payload, and has not answered in time")
            self._connection.stay(next(pauses))
            self._read_answers()

    def _read_answers(self) -> None:
        """Read further answers. Raises ConnectionError where another process has taken over, and confirmed some."""
        try:
            reached = self._reader.reach(self._position)
            answers = list(self._reader.payloads(self._position, self._position.at, reached.at))
        except SessionLostError as error:
            raise ConnectionError(str(error)) from error
        for number, payload in answers:
            self.ledger.note(number, payload)
        self._position = reached
        if self.ledger.confirmable >= self._confirmed + CONFIRMED_TOGETHER:
            self._confirmed = self.ledger.confirmable
            self._reader.confirm(msgspec.structs.replace(reached, at=self._confirmed))


def publish_once(
    addresses: Sequence[Address],
    who: Identity,
    events: Sequence[Event],
    *,
    patience: float,
    entry: Entry = PLAIN,
) -> None:
    """Publish `events`, numbered from 1 in the epoch of `who`; what was published before is not published again.

    A repetition must be sent to the same broker. Raises ConnectError, PublishRefusedError,
    SessionLostError, and ClientFencedError where a later epoch of that name exists.
    """
    target = _Target(addresses, entry=entry)
    for _ in range(BROKERS_MAX):
        further = retried(target.addresses, patience, partial(_send_to, target, who, events, patience))
        if further is None:
            return
        target = further
    raise SessionLostError(f"{BROKERS_MAX} brokers have left the tree, one after the other, and sent {who.name} on")


def _send_to(
    target: _Target, who: Identity, events: Sequence[Event], patience: float, address: Address
) -> _Target | None:
    """Returns the next broker, if the batch goes on there."""
    with ShortConnection(
        address, who, ATTEMPT_SECONDS_MAX, broker=target.broker, view=target.view, entry=target.entry
    ) as connection:
        target.met(connection)
        batch = _Batch(connection, who, address, events, PublishLedger(target.done), target.entry)
        _send_all(batch, who, patience)
        connection.leave()
    return None if batch.is_done else batch.follow()


def _send_all(batch: _Batch, who: Identity, patience: float) -> None:
    """Send as much of the batch as this broker takes."""
    batch.resume(patience)
    deadline, pauses = time.monotonic() + patience, backoff()
    while not batch.is_over:
        batch.send_next(patience)
        if batch.ledger.refused:
            _wait_for_room(batch, who, deadline, next(pauses))
        else:
            deadline, pauses = time.monotonic() + patience, backoff()


def _wait_for_room(batch: _Batch, who: Identity, deadline: float, pause: float) -> None:
    if time.monotonic() + pause > deadline:
        first = min(batch.ledger.refused)
        raise PublishRefusedError(f"event {first} of {who.name}", batch.ledger.refused[first])
    batch.stay(pause)
