"""A subscription that is read in ranges, by processes that share nothing but a position in it.

    subscribe ──▶ position ── reach ──▶ position ── events(from, to) ──▶ confirm    the same range as often as needed
                                 └── the broker leaves the tree ──▶ follow ──▶ a position at another broker

Rule 1: the broker keeps what was delivered until it is confirmed; reading confirms nothing (core/links/reading.py).
Rule 2: a position names the epochs of the client and of the broker. If one of them is over, reading on from it is an
        error; no event is skipped silently.
Rule 3: a broker that was promoted elsewhere is asked for at the other brokers that it named; an older view of it is not
        read, which may have what was never promised.
Rule 4: a broker that leaves the tree says so in its last payload for us. All before it belongs to the position at that
        broker; the next broker has what follows, from its first payload for us.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from pleach.client.short_connection import Identity, SessionPosition, ShortConnection
from pleach.core.events.event import WITHHELD, Event
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
from pleach.net.blocking_connection import BlockingWire, Greeted, greet, retried
from pleach.net.client_login import PLAIN, Entry

SUBSCRIPTION = "stream"
ATTEMPT_SECONDS_MAX = 5.0  # for one answer of one broker
FAREWELL_SECONDS_MAX = 2.0  # after that the broker is taken to have ended
POLL_SECONDS = 0.02  # between polls for a confirmation

log = logging.getLogger(__name__)


class ReadPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A position in what one broker has for one client: all payloads up to `at` are behind it."""

    broker: Node
    address: str  # of the broker
    life: int  # the broker's epoch
    epoch: int  # the client's
    since: int  # the session with this broker began behind this payload
    at: int
    said: int = 0  # payloads that the client has sent to this broker
    next_broker: Node = ""  # the broker has left the tree and redirects us: nothing follows here
    next_address: str = ""
    token: str = ""  # that the broker gave to the client
    view: int = 0  # of the broker
    fallbacks: tuple[str, ...] = ()  # other brokers that it named


class Reader:
    """`patience`: seconds within which a broker that is away must answer again."""

    def __init__(self, name: Node, addresses: Sequence[Address], *, patience: float, entry: Entry = PLAIN) -> None:
        self.name = name
        self._addresses = tuple(addresses)
        self._patience = patience
        self._entry = entry

    # Beginning -----------------------------------------------------------------------------------------------

    def subscribe(self, wanted: Filter, epoch: int, *, own_events: bool = True) -> ReadPosition:
        """Begin a new epoch of the client, with one subscription; returns once the whole network knows it.

        What was kept for former epochs is void. Raises ConnectError, ClientFencedError,
        SubscribeRefusedError.
        """
        who = Identity(self.name, epoch)
        requests = [encode(Attach(own_events)), encode(Subscribe(SUBSCRIPTION, wanted))]

        def ask(address: Address) -> ReadPosition:
            with ShortConnection(address, who, ATTEMPT_SECONDS_MAX, entry=self._entry) as connection:
                for number, payload in enumerate(requests[connection.taken :], connection.taken + 1):
                    connection.say(number, payload)
                connection.until_taken(len(requests))
                connection.leave()
                return position_at(connection, address, epoch, len(requests))

        position = retried(self._addresses, self._patience, ask)
        self._await_confirmation(position)
        return position

    def _await_confirmation(self, position: ReadPosition) -> None:
        """Poll for it without consuming: what was delivered before it belongs to the stream."""
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            reached = self.reach(position)
            for data in self.payloads(position, position.at, reached.at):
                match _message(data.payload):
                    case Subscribed():
                        return
                    case Refused(_, reason):
                        raise SubscribeRefusedError(self.name, reason)
            if reached.next_broker:
                reached = self._introduce(reached)  # the next broker confirms what the former one was asked
            position = reached
            time.sleep(POLL_SECONDS)
        raise ConnectError({position.address: "the subscription was not confirmed in time: is a broker down?"})

    # Going on ------------------------------------------------------------------------------------------------

    def reach(self, position: ReadPosition, *, messages_max: int = 0) -> ReadPosition:
        """The position up to which payloads are there; with `messages_max`, about so many messages."""
        if position.next_broker:
            return position

        def ask(address: Address) -> ReadPosition:
            wire, hello = self._opened(position, address)
            with wire:
                extent = _extent(wire, Read(position.at, messages_max=messages_max, is_survey=True))
                if extent.upto == position.at:
                    return position  # unchanged: not even its address
                further = msgspec.structs.replace(
                    position,
                    at=extent.upto,
                    address=str(address),
                    view=hello.view,
                    fallbacks=tuple(hello.fallbacks),
                )
                return _ending(wire, further) if extent.upto == extent.last else further

        return retried(self._addresses_of(position), self._patience, ask)

    def payloads(self, position: ReadPosition, after: int, upto: int) -> Iterator[Data]:
        """All payloads of a range, each once, over as many connections as it takes."""
        deadline = time.monotonic() + self._patience
        while after < upto:
            try:
                wire, _ = retried(self._addresses_of(position), self._patience, partial(self._opened, position))
                with wire:
                    for data in _read(wire, after, upto):
                        yield data
                        after, deadline = data.sequence, time.monotonic() + self._patience
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ConnectError({position.address: why(error)}) from error

    def events(self, position: ReadPosition, after: int, upto: int) -> Iterator[list[Event]]:
        """The events of a range, in order, without those that are withheld."""
        for _, payload in self.payloads(position, after, upto):
            if is_run(payload):
                yield [event for event in Run(payload).events() if event != WITHHELD]
            elif isinstance(message := decode(payload), Deliver) and message.event != WITHHELD:
                yield [message.event]

    def confirm(self, position: ReadPosition) -> None:
        """Let the broker discard what is behind a position."""

        def say(address: Address) -> None:
            with self._opened(position, address).wire as wire:
                wire.send(Ack(position.at))
                _next_extent(wire)

        if not position.next_broker:  # else the Farewell confirms it
            retried(self._addresses_of(position), self._patience, say)

    def follow(self, position: ReadPosition) -> ReadPosition:
        """Continue at the broker that we are redirected to. All up to the position is consumed. May be repeated."""
        assert position.next_broker, "no redirection"
        self._say_farewell(position)
        return self._introduce(position)

    def _introduce(self, position: ReadPosition) -> ReadPosition:
        who = Identity(self.name, position.epoch)

        def introduce(address: Address) -> ReadPosition:
            with ShortConnection(
                address, who, ATTEMPT_SECONDS_MAX, broker=position.next_broker, entry=self._entry
            ) as connection:
                connection.leave()
                return position_at(connection, address, position.epoch)

        told = parse_addresses(position.next_address) if position.next_address else ()
        return retried(tuple(dict.fromkeys((*told, *self._addresses))), self._patience, introduce)

    def _say_farewell(self, position: ReadPosition) -> None:
        """Let the broker end. One that has ended without it has given up the session, and needs none."""
        who = Identity(self.name, position.epoch)
        standing, number = SessionPosition(position.life, position.at, position.said), position.said + 1

        def say(address: Address) -> None:
            with ShortConnection(
                address,
                who,
                ATTEMPT_SECONDS_MAX,
                standing=standing,
                broker=position.broker,
                view=position.view,
                entry=self._entry,
            ) as connection:
                if connection.taken < number:
                    connection.say(number, encode(Farewell()))
                    connection.until_taken(number)
                connection.leave()

        try:
            retried(self._addresses_of(position), FAREWELL_SECONDS_MAX, say)
        except ClientError as error:
            log.info("%s: no farewell to %s: %s", self.name, position.broker, error)

    # Connections ---------------------------------------------------------------------------------------------

    def _addresses_of(self, position: ReadPosition) -> tuple[Address, ...]:
        named = [each for text in position.fallbacks for each in parse_addresses(text)]
        return tuple(dict.fromkeys((*parse_addresses(position.address), *self._addresses, *named)))

    def _opened(self, position: ReadPosition, address: Address) -> Greeted:
        numbers = (position.epoch, position.life, position.at, 1)
        hello = Hello(self.name, *numbers, role=READER, token=position.token)
        broker, view = position.broker, position.view
        return greet(address, hello, ATTEMPT_SECONDS_MAX, broker=broker, view=view, entry=self._entry)


def position_at(connection: ShortConnection, address: Address, epoch: int, said: int = 0) -> ReadPosition:
    """Where a session begins that is read at this broker."""
    since = connection.first - 1
    return ReadPosition(
        connection.broker,
        str(address),
        connection.life,
        epoch,
        since,
        since,
        said,
        token=connection.token,
        view=connection.view,
        fallbacks=connection.fallbacks,
    )


def _read(wire: BlockingWire, after: int, upto: int) -> Iterator[Data]:
    """The payloads of a range; raises OSError where the connection breaks."""
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
            raise ConnectionError(f"nothing follows {after}, although {upto} was announced")


def _extent(wire: BlockingWire, read: Read) -> Extent:
    wire.send(read)
    return _next_extent(wire)


def _next_extent(wire: BlockingWire) -> Extent:
    while not isinstance(frame := wire.receive(ATTEMPT_SECONDS_MAX), Extent):
        pass
    return frame


def _ending(wire: BlockingWire, position: ReadPosition) -> ReadPosition:
    """The position, with the next broker if its last payload is a redirection."""
    for _, payload in _read(wire, position.at - 1, position.at):
        match _message(payload):
            case Redirect(broker, address):
                return msgspec.structs.replace(position, next_broker=broker, next_address=address)
    return position


def _message(payload: bytes) -> Message | None:
    return None if is_run(payload) else decode(payload)
