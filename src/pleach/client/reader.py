"""A subscription that is read in ranges, by processes that share nothing but a place in it.

    subscribe ──▶ place ── reach ──▶ place ── events(from, to) ──▶ confirm          the same range as often as needed
                              └── the broker leaves the tree ──▶ follow ──▶ a place at another broker

Rule 1: the broker keeps what was delivered until it is confirmed; reading confirms nothing (core/links/reading.py).
Rule 2: a place names the life of the client and that of the broker. If one of them is over there is no going on from
        it, and that is an error; no event is passed over in silence.
Rule 3: a broker that leaves the tree says so in the last payload that it has for us. All before it belongs to the place
        at that broker; what follows is at the next one, from the first that it has for us.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from pleach.client.visit import Identity, SessionPosition, ShortConnection
from pleach.core.events.event import Event
from pleach.core.events.filter import Filter
from pleach.core.links.frames import Ack, Data, Extent, Hello, Read
from pleach.core.links.reading import READER
from pleach.core.messages import (
    Attach,
    Deliver,
    Farewell,
    Message,
    Node,
    Redirect,
    Refused,
    Subscribe,
    Subscribed,
    decode,
    encode,
)
from pleach.core.messages.runs import Run, is_run
from pleach.errors import ClientError, ConnectError, SubscribeRefusedError
from pleach.net.addresses import Address, parse_addresses, why
from pleach.net.blocking_connection import PlainWire, greet, retried

SUBSCRIPTION = "stream"
ATTEMPT_SECONDS_MAX = 5.0  # for one answer of one broker
FAREWELL_SECONDS_MAX = 2.0  # a broker that is gone already needs no farewell
POLL_SECONDS = 0.02  # between looks for a confirmation that is still on its way

log = logging.getLogger(__name__)


class ReadPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in what one broker has for one client: all up to `at` is behind it."""

    broker: Node
    address: str  # where the broker was found
    life: int  # of the broker
    epoch: int  # the client's
    since: int  # where the client's session with this broker began
    at: int
    said: int = 0  # payloads that the client has sent to this broker
    next_broker: Node = ""  # the broker has left the tree, and sends us there: nothing follows here
    next_address: str = ""


class Reader:
    """`patience`: seconds in which a broker that is away must be back."""

    def __init__(self, name: Node, addresses: Sequence[Address], *, patience: float) -> None:
        self.name = name
        self._addresses = tuple(addresses)
        self._patience = patience

    # Beginning -----------------------------------------------------------------------------------------------

    def subscribe(self, wanted: Filter, epoch: int, *, own_events: bool = True) -> ReadPosition:
        """A new life of the client, with one subscription; returns once the whole network knows it.

        What was kept for a former life of that name is void. Raises ConnectError, ClientFencedError,
        SubscribeRefusedError.
        """
        who = Identity(self.name, epoch)
        requests = [encode(Attach(own_events)), encode(Subscribe(SUBSCRIPTION, wanted))]

        def ask(address: Address) -> ReadPosition:
            with ShortConnection(address, who, ATTEMPT_SECONDS_MAX) as visit:
                for number, payload in enumerate(requests[visit.taken :], visit.taken + 1):
                    visit.say(number, payload)
                visit.until_taken(len(requests))
                visit.leave()
                since = visit.first - 1
                return ReadPosition(visit.broker, str(address), visit.life, epoch, since, since, len(requests))

        place = retried(self._addresses, self._patience, ask)
        self._await_confirmation(place)
        return place

    def _await_confirmation(self, place: ReadPosition) -> None:
        """Look for it without taking anything: what was delivered before it belongs to the stream."""
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            reached = self.reach(place)
            for data in self.payloads(place, place.at, reached.at):
                match _message(data.payload):
                    case Subscribed():
                        return
                    case Refused(_, reason):
                        raise SubscribeRefusedError(self.name, reason)
            if reached.next_broker:
                reached = self._introduce(reached)  # it confirms what the former broker was asked
            place = reached
            time.sleep(POLL_SECONDS)
        raise ConnectError({place.address: "the subscription was not confirmed in time: is a broker away?"})

    # Going on ------------------------------------------------------------------------------------------------

    def reach(self, place: ReadPosition, *, messages_max: int = 0) -> ReadPosition:
        """How far one can read from a place: as far as there is something, or some messages."""
        if place.next_broker:
            return place

        def ask(address: Address) -> ReadPosition:
            with self._opened(place, address) as wire:
                extent = _extent(wire, Read(place.at, messages_max=messages_max, is_survey=True))
                if extent.upto == place.at:
                    return place  # not even another address for the same place
                further = msgspec.structs.replace(place, at=extent.upto, address=str(address))
                return _ending(wire, further) if extent.upto == extent.last else further

        return retried(self._directory(place), self._patience, ask)

    def payloads(self, place: ReadPosition, after: int, upto: int) -> Iterator[Data]:
        """All payloads of a range, each once, over as many connections as it takes."""
        deadline = time.monotonic() + self._patience
        while after < upto:
            try:
                with retried(self._directory(place), self._patience, partial(self._opened, place)) as wire:
                    for data in _read(wire, after, upto):
                        yield data
                        after, deadline = data.sequence, time.monotonic() + self._patience
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ConnectError({place.address: why(error)}) from error

    def events(self, place: ReadPosition, after: int, upto: int) -> Iterator[list[Event]]:
        """The events of a range, in order."""
        for _, payload in self.payloads(place, after, upto):
            if is_run(payload):
                yield Run(payload).events()
            elif isinstance(message := decode(payload), Deliver):
                yield [message.event]

    def confirm(self, place: ReadPosition) -> None:
        """The broker need not keep what is behind a place any longer."""

        def say(address: Address) -> None:
            with self._opened(place, address) as wire:
                wire.send(Ack(place.at))
                _next_extent(wire)

        if not place.next_broker:  # a farewell says so, too
            retried(self._directory(place), self._patience, say)

    def follow(self, place: ReadPosition) -> ReadPosition:
        """On to the broker that we are sent to. All up to the place must have been consumed. May be done again."""
        assert place.next_broker, "nobody has sent us anywhere"
        self._say_farewell(place)
        return self._introduce(place)

    def _introduce(self, place: ReadPosition) -> ReadPosition:
        who = Identity(self.name, place.epoch)

        def introduce(address: Address) -> ReadPosition:
            with ShortConnection(address, who, ATTEMPT_SECONDS_MAX, broker=place.next_broker) as visit:
                visit.leave()
                since = visit.first - 1
                return ReadPosition(visit.broker, str(address), visit.life, place.epoch, since, since)

        told = parse_addresses(place.next_address) if place.next_address else ()
        return retried(tuple(dict.fromkeys((*told, *self._addresses))), self._patience, introduce)

    def _say_farewell(self, place: ReadPosition) -> None:
        """So that the broker can go. One that has gone without it has given us up, and needs none."""
        who = Identity(self.name, place.epoch)
        standing, number = SessionPosition(place.life, place.at, place.said), place.said + 1

        def say(address: Address) -> None:
            with ShortConnection(address, who, ATTEMPT_SECONDS_MAX, standing=standing, broker=place.broker) as visit:
                if visit.taken < number:
                    visit.say(number, encode(Farewell()))
                    visit.until_taken(number)
                visit.leave()

        try:
            retried(self._directory(place), FAREWELL_SECONDS_MAX, say)
        except ClientError as error:
            log.info("%s: no farewell to %s: %s", self.name, place.broker, error)

    # Connections ---------------------------------------------------------------------------------------------

    def _directory(self, place: ReadPosition) -> tuple[Address, ...]:
        return tuple(dict.fromkeys((*parse_addresses(place.address), *self._addresses)))

    def _opened(self, place: ReadPosition, address: Address) -> PlainWire:
        hello = Hello(self.name, place.epoch, place.life, place.at, 1, role=READER)
        return greet(address, hello, ATTEMPT_SECONDS_MAX, broker=place.broker).wire


def _read(wire: PlainWire, after: int, upto: int) -> Iterator[Data]:
    """One answer after the other; raises OSError where the connection breaks."""
    while after < upto:
        wire.send(Read(after, upto))
        asked, frame = after, wire.receive(ATTEMPT_SECONDS_MAX)
        while not isinstance(frame, Extent):
            if isinstance(frame, Data):
                if frame.sequence != after + 1:
                    raise ConnectionError(f"payload {frame.sequence} after {after}: the connection lost something")
                yield frame
                after = frame.sequence
            frame = wire.receive(ATTEMPT_SECONDS_MAX)
        if after == asked:
            raise ConnectionError(f"nothing follows {after}, although {upto} was promised")


def _extent(wire: PlainWire, read: Read) -> Extent:
    wire.send(read)
    return _next_extent(wire)


def _next_extent(wire: PlainWire) -> Extent:
    while not isinstance(frame := wire.receive(ATTEMPT_SECONDS_MAX), Extent):
        pass
    return frame


def _ending(wire: PlainWire, place: ReadPosition) -> ReadPosition:
    """The place, with where to go from there if its last payload says so."""
    for _, payload in _read(wire, place.at - 1, place.at):
        match _message(payload):
            case Redirect(broker, address):
                return msgspec.structs.replace(place, next_broker=broker, next_address=address)
    return place


def _message(payload: bytes) -> Message | None:
    return None if is_run(payload) else decode(payload)
