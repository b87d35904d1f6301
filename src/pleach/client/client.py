"""The client library: publish and subscribe from asyncio.

    async with pleach.connect("pleach://localhost:7000", name="me") as client:
        trades = await client.subscribe("topic = 'trade' AND price > 100")
        await client.publish({"topic": "trade", "price": 120})
        async for event in trades:
            ...

Requests and events survive lost connections (session_driver.py), in order and once. What cannot be kept is raised: a
refusal, an outcome that cannot be known any more, a session that the broker ended, a name that another client took.

Back-pressure: events that the application has not asked for wait in memory. From `queue_max` on the client stops
confirming, and the broker stops sending after its window. While a call waits for its answer, which comes behind the
events, the client goes on confirming: the memory then holds what the broker had queued before the answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from pleach.client.pending import InFlight, PendingRequests
from pleach.client.session_driver import ClientOptions, SessionDriver
from pleach.client.subscription import Callback, Receipt, Receipts, Subscription, call_for_each
from pleach.core.client.machine import ClientMachine as Machine
from pleach.core.client.state import ClientMachineState
from pleach.core.effects import Effect
from pleach.core.events.event import WITHHELD, Event, EventId, Value
from pleach.core.events.filter import Filter
from pleach.core.events.index.matching import MatchingIndex
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    Advertised,
    Deliver,
    Layer,
    Message,
    Publish,
    Published,
    PublishRefused,
    Refused,
    Subscribed,
    Unadvertised,
    Unsubscribed,
    unpack,
)
from pleach.errors import (
    ClientClosedError,
    ClientError,
    InvalidInputError,
    PublishRefusedError,
    SubscribeRefusedError,
    UnknownOutcomeError,
    WithdrawnError,
)

log = logging.getLogger(__name__)

TURN_EVENTS_MAX = 128  # published before the event loop, and with it the connection, gets its turn
CLOSE_SECONDS_MAX = 5.0  # for answers that are still to come when a client is closed


class Client:
    """Made by `pleach.connect`. One event loop, one session, one name in the network."""

    def __init__(self, options: ClientOptions, *, window: int, queue_max: int) -> None:
        self.name = options.name
        self._is_durable = options.state_dir is not None
        self._queue_max = queue_max
        self._driver = SessionDriver(options, self)
        self._underway = InFlight(window)
        self._published = 0
        self._requests = PendingRequests()
        self._subscriptions: dict[str, Subscription] = {}
        self._index = MatchingIndex()
        self._restored: dict[str, Subscription] = {}  # of a former process, and not yet claimed
        self._receipts = Receipts()
        self._names = 0
        self._callbacks: set[asyncio.Task[None]] = set()
        self._error: ClientError | None = None

    async def __aenter__(self) -> Self:
        try:
            self._restore(*self._driver.recall())
            await self._driver.start()
        except BaseException:
            await self._driver.stop("no connection")
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(consume=kind is None)

    # Publishing ----------------------------------------------------------------------------------------------

    async def publish(self, attributes: Mapping[str, Value], payload: bytes = b"") -> EventId:
        """Publish an event; returns when the broker has taken it over. Raises EventError, PublishRefusedError."""
        return await (await self.publish_windowed(attributes, payload))

    async def publish_windowed(self, attributes: Mapping[str, Value], payload: bytes = b"") -> asyncio.Future[EventId]:
        """Publish without waiting for the confirmation, which the future brings. Waits while the window is full."""
        self._check_open()
        if not self._underway.try_enter():
            await self._underway.enter()
        try:
            self._check_open()
            event = self._driver.publish(attributes, payload)
        except BaseException:
            self._underway.leave()
            raise
        future = self._underway.sent(event.id)
        self._published += 1
        if self._published % TURN_EVENTS_MAX == 0:
            await asyncio.sleep(0)
        return future

    async def advertise(self, advertised: str | Filter, *, name: str | None = None) -> str:
        """Announce what will be published; returns the advertisement's name once it is in effect."""
        self._check_open()
        chosen = name or self._next_name("a", self._state().advertisements)
        machine = self._driver.machine
        try:
            await self._request(Advertised, chosen, machine.advertise(chosen, _filter(advertised)))
        except asyncio.CancelledError:
            if name is None:  # the application gave up, and has no name to withdraw it by
                self._driver.perform(machine.unadvertise(chosen))
            raise
        return chosen

    async def unadvertise(self, name: str) -> None:
        self._check_open()
        await self._request(Unadvertised, name, self._driver.machine.unadvertise(name))

    # Subscribing ---------------------------------------------------------------------------------------------

    @property
    def restored(self) -> Sequence[Subscription]:
        """Subscriptions of a former process with this `state_dir` that have not been asked for again: subscribe with
        the same filter to go on with one, or unsubscribe it. Until then its events wait."""
        return list(self._restored.values())

    async def subscribe(
        self,
        wanted: str | Filter,
        *,
        name: str | None = None,
        network_wide: bool = True,
        manual_ack: bool = False,
        callback: Callback | None = None,
    ) -> Subscription:
        """Returns once the whole network knows the subscription; `network_wide=False`: once our broker does."""
        self._check_open()
        subscription = self._claim(_filter(wanted), name)
        subscription.manual_ack = manual_ack
        machine = self._driver.machine
        effects = machine.subscribe(subscription.name, subscription.filter, network_wide=network_wide)
        try:
            await self._request(Subscribed, subscription.name, effects)
        except WithdrawnError:
            raise  # `unsubscribe` has removed it
        except BaseException:  # refused, or cancelled by the application, which has no reference to it
            if subscription.name not in self._restored:
                self._driver.perform(machine.unsubscribe(subscription.name))
                self._let_go(subscription)
            raise
        self._restored.pop(subscription.name, None)
        if callback is not None:
            task = asyncio.create_task(call_for_each(subscription, callback))
            self._callbacks.add(task)
            task.add_done_callback(self._callbacks.discard)
        return subscription

    async def unsubscribe(self, which: Subscription | str) -> None:
        """See `Subscription.unsubscribe`. `which` may be a name; one that is not subscribed to changes nothing."""
        name = which if isinstance(which, str) else which.name
        self._check_open()
        subscription = self._subscriptions.get(name)
        if subscription is None:
            return
        self._requests.answer(Subscribed, name, WithdrawnError(name))
        self._let_go(subscription)  # at once: the name may be used again
        await self._request(Unsubscribed, name, self._driver.machine.unsubscribe(name))

    def _let_go(self, subscription: Subscription) -> None:
        self._remove(subscription)
        subscription.release()
        subscription.end()

    def _remove(self, subscription: Subscription) -> None:
        if self._subscriptions.pop(subscription.name, None) is not None:
            self._index.remove(subscription.name)
        self._restored.pop(subscription.name, None)

    def _claim(self, wanted: Filter, name: str | None) -> Subscription:
        """A restored subscription that fits, or a new one."""
        for restored in self._restored.values():
            if restored.filter == wanted and name in (None, restored.name):
                return restored
        if name in self._subscriptions:
            raise InvalidInputError(f"this client has a subscription {name!r} already; unsubscribe it first")
        name = name or self._next_name("s", self._subscriptions)
        return self._add(name, wanted)

    def _next_name(self, prefix: str, taken: Mapping[str, Any]) -> str:
        while True:
            self._names += 1
            if f"{prefix}{self._names}" not in taken:
                return f"{prefix}{self._names}"

    # Closing -------------------------------------------------------------------------------------------------

    async def close(self, *, consume: bool = True) -> None:
        """Wait (bounded) for answers still to come, take leave of the broker, close the connection.

        Without a `state_dir` the session ends, and the subscriptions with it; with one it waits for the next process.
        `consume`: the event that each iteration has in hand counts as consumed.
        """
        if isinstance(self._error, ClientClosedError):
            return
        pending: list[asyncio.Future[Any]] = [*self._underway.futures, *self._requests.futures]
        if self._error is None and pending:
            await asyncio.wait(pending, timeout=CLOSE_SECONDS_MAX)
        for task in self._callbacks:
            task.cancel()
        await asyncio.gather(*self._callbacks, return_exceptions=True)
        if consume:
            for subscription in self._subscriptions.values():
                subscription.close()
        if not self._is_durable and self._error is None:
            self._driver.perform(self._driver.machine.detach())
        self.on_end(ClientClosedError(f"client {self.name!r} is closed"))
        await self._driver.stop("the client is closed")

    # Calls of subscriptions -----------------------------------------------------------------------------------

    def consume(self, receipt: Receipt) -> None:
        """A subscription has consumed its copy of an event."""
        self._receipts.consumed(receipt)
        self._driver.settle_soon()

    async def settled(self) -> None:
        """Return once what was consumed is in the state file, if there is one."""
        await self._driver.settled()

    # Calls of the session driver ----------------------------------------------------------------------------------

    def on_message(self, what: Message | list[Event], sequence: int) -> None:
        """The broker sent a message, or delivered a run of events, in the payload of this number."""
        if isinstance(what, list):
            for event in what:
                if self._receipts.is_new(sequence):
                    self._deliver(event)
        elif self._receipts.is_new(sequence):
            self._on_single(what)

    def _on_single(self, message: Message) -> None:
        match message:
            case Deliver(event):
                self._deliver(event)
            case Published(event_id, count):
                self._underway.confirmed(event_id.sequence, count)
            case PublishRefused(event_id, reason, is_in_doubt):
                error = UnknownOutcomeError if is_in_doubt else PublishRefusedError
                self._underway.failed(event_id, error(str(event_id), reason))
            case Subscribed(name, effective, is_change=True) if name in self._subscriptions:
                self._subscriptions[name].narrowed(effective)
            case Subscribed(name) if self._requests.is_waiting(Unsubscribed, name):
                pass  # of the subscription that was withdrawn; a later one of its name is answered later
            case Subscribed(name, effective) | Advertised(name, effective):
                self._granted(type(message), name, effective)
            case Unsubscribed(name) | Unadvertised(name):
                self._requests.answer(type(message), name)
            case Refused(name, _, Layer.SUBSCRIPTIONS, Filter()) if self._requests.is_waiting(Unsubscribed, name):
                pass  # likewise
            case Refused(name, reason, layer):
                self._refused(name, reason, layer)

    def _granted(self, kind: type[Message], name: str, effective: Filter | None) -> None:
        self._requests.answer(kind, name)
        if kind is Subscribed and name in self._subscriptions:
            self._subscriptions[name].narrowed(effective)
        elif kind is Advertised and effective is not None:
            log.warning("advertisement %s is narrowed to what the client may publish: %s", name, effective.text)

    def _refused(self, name: str, reason: str, layer: Layer | None) -> None:
        """A request was refused, or (nobody waits) a right was withdrawn: then the subscription ends."""
        is_answer = self._requests.refuse(name, reason, layer)
        subscription = self._subscriptions.get(name)
        if is_answer or layer is not Layer.SUBSCRIPTIONS or subscription is None:
            return
        log.warning("subscription %s has ended: %s", name, reason)
        self._driver.perform(self._driver.machine.unsubscribe(name))
        self._remove(subscription)
        subscription.end(SubscribeRefusedError(name, reason))

    def on_broker_reset(self, received: int) -> None:
        """The broker lost its memory: what was not confirmed is void; the machine has repeated the requests.

        `received`, here and below: the number that the session counts on from.
        """
        self.on_new_broker(received)
        self.on_unknown_outcome("the broker lost its memory before it confirmed the event")
        self._requests.answer_all(Unsubscribed, Unadvertised)  # there is nothing left to withdraw

    def on_new_broker(self, received: int) -> None:
        """The session goes on with another broker; the former one cannot repeat what it delivered."""
        self._receipts.restart(received)

    def on_unknown_outcome(self, reason: str) -> None:
        """It will never be known whether a broker accepted what is in flight."""
        waiting = {message.event.id for message in self._state().waiting if isinstance(message, Publish)}
        for event_id in [e for e in self._underway.ids if e not in waiting]:
            self._underway.failed(event_id, UnknownOutcomeError(str(event_id), reason))

    def on_end(self, error: ClientError) -> None:
        if self._error is None or isinstance(error, ClientClosedError):
            self._error = error
        for event_id in self._underway.ids:
            unknown = UnknownOutcomeError(str(event_id), "the client was closed first")
            self._underway.failed(event_id, unknown if isinstance(error, ClientClosedError) else error)
        self._requests.fail_all(error)
        for subscription in self._subscriptions.values():
            subscription.end(None if isinstance(error, ClientClosedError) else error)

    def confirmable(self, confirmed: int) -> int:
        """How far the session may be confirmed; `confirmed`: how far it is."""
        if self._takes_all:
            return self._receipts.received
        if self._is_durable:
            return self._receipts.position[0]
        return confirmed if self._receipts.waiting >= self._queue_max else self._receipts.received

    def consumed_after(self, position: int) -> int:
        """How many messages of the payload after this position are consumed."""
        reached, messages = self._receipts.position
        return messages if reached == position else 0

    def changes(self) -> tuple[Sequence[tuple[int, Event]], Sequence[int]]:
        """Events to keep in the state file, and kept ones that were consumed, since the last call."""
        forgotten, self._receipts.forgotten = self._receipts.forgotten, []
        if not self._is_durable:
            return [], []
        kept = [r for r in self._receipts if not r.is_kept and (self._takes_all or not r.sequence)]
        for receipt in kept:
            receipt.is_kept = True
        return [(r.number, r.event) for r in kept], forgotten

    # Inside --------------------------------------------------------------------------------------------------

    @property
    def _takes_all(self) -> bool:
        """Confirm all that arrives while a call waits."""
        return bool(self._underway or self._requests)

    def _deliver(self, event: Event) -> None:
        """Hand a delivery to every subscription that it matches."""
        if event == WITHHELD:
            return
        takers = self._takers(event)
        if takers:
            self._hand_over(self._receipts.arrived(event, len(takers)), takers)

    def _takers(self, event: Event) -> list[Subscription]:
        found = self._index.match(event.attributes)
        return [self._subscriptions[name] for name in (sorted(found) if len(found) > 1 else found)]

    def _add(self, name: str, wanted: Filter) -> Subscription:
        self._subscriptions[name] = subscription = Subscription(name, wanted, self)
        self._index.add(name, wanted, name)
        return subscription

    def _hand_over(self, receipt: Receipt, takers: Sequence[Subscription]) -> None:
        for subscription in takers:
            subscription.put(receipt)

    def _restore(self, kept: Sequence[tuple[int, Event]], skip: int) -> None:
        """Restore the subscriptions of the former process, and the events that it had not consumed."""
        if not self._driver.has_session:
            return
        for name, wanted in self._state().subscriptions.items():
            self._restored[name] = self._add(name, wanted)
        self._receipts = Receipts(self._driver.session.received, skip)
        for number, event in kept:
            takers = self._takers(event)
            if takers:
                self._hand_over(self._receipts.recalled(number, event, len(takers)), takers)
            else:
                self._receipts.forgotten.append(number)

    def _state(self) -> ClientMachineState:
        return unpack(Machine.capture(self._driver.machine), ClientMachineState)

    async def _request(self, kind: type[Message], name: str, effects: Sequence[Effect]) -> None:
        future = self._requests.asked(kind, name)
        self._driver.perform(effects)
        await asyncio.shield(future)

    def _check_open(self) -> None:
        if self._error is not None:
            raise self._error


def _filter(given: str | Filter) -> Filter:
    return parse_filter(given) if isinstance(given, str) else given
