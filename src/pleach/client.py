"""One client, as a pure machine: what an application asks for becomes messages, what arrives becomes observations.

A client counts its own events, so that ids are given where events are made. While an advertisement is not yet in
effect, publishing waits: an event sent earlier would be refused. Drivers put an event loop (or virtual time) around
this machine.

A client may be sent to another broker (S0 §IV-C): what that one has for it waits until the former one has said all that
it had, and then the client says farewell and goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import msgspec

from pleach.effects import Effect, LinkDown, LinkUp, Observe, Observed, Send, SetTimer
from pleach.errors import ProtocolError
from pleach.events.event import Event, EventId, Value, check_content
from pleach.events.filter import Filter
from pleach.messages import (
    CONFIRMED_TOGETHER_MAX,
    Advertise,
    Advertised,
    Attach,
    Attached,
    ClientReply,
    Deliver,
    Detach,
    Farewell,
    Message,
    Node,
    Publish,
    Published,
    PublishRefused,
    Redirect,
    Refused,
    Renewed,
    Subscribe,
    Subscribed,
    Unadvertise,
    Unadvertised,
    Unsubscribe,
    Unsubscribed,
    pack,
    unpack,
)
from pleach.runs import Passed, Run
from pleach.stabilise.lease import phase_of

FROM_BROKERS: frozenset[type] = frozenset((*get_args(ClientReply), Redirect))
RENEW = "renew"  # the timer
ROUNDS_UNANSWERED_MAX = 2  # of renewal: an answer that has not come by then is lost
PASSING: frozenset[type] = frozenset((Deliver, Published, PublishRefused))  # the machine keeps nothing of them


class RenewalClock(msgspec.Struct, frozen=True):
    """When a client renews what it has leased: `every` so many seconds, for the first time after `phase`."""

    every: float
    phase: float

    def first(self) -> SetTimer:
        return SetTimer(RENEW, self.phase, is_upkeep=True)

    def next(self) -> SetTimer:
        return SetTimer(RENEW, self.every, is_upkeep=True)


class ClientMachineState(msgspec.Struct, array_like=True):
    broker: Node
    sequence: int
    local: list[str]  # subscriptions whose confirmation was asked for early, and promises less
    unconfirmed: list[str]  # advertisements that are not yet in effect
    waiting: list[Publish | Advertise | Unadvertise]  # what must not go out before they are, in order
    subscriptions: dict[str, Filter]  # what the client has, to ask for it again of a broker that lost its memory
    advertisements: dict[str, Filter]  # those of which the broker was told
    early: dict[Node, list[ClientReply | Redirect]]  # what brokers sent that this client has not been sent to yet
    asked: dict[str, None] = {}  # subscriptions without a confirmation, and …
    ended: dict[str, int] = {}  # … rounds of renewal for which one is that of a former life (both: with leases only)
    withdrawn: dict[str, int] = {}  # the same for advertisements
    refresh: float = 0.0  # what the broker has said of it


class Client:
    """`lease`: how often what it wants is renewed; None: as the broker says when it is attached (stabilise/)."""

    def __init__(
        self,
        name: Node,
        broker: Node,
        *,
        own_events: bool = True,
        incarnation: int = 0,
        lease: RenewalClock | None = None,
    ) -> None:
        self.name = name
        self.is_observed = True  # False: nobody wants to know of each event, and nothing is made to tell of them
        self.own_events = own_events
        self.incarnation = incarnation
        self._lease = lease
        self._state = ClientMachineState(broker, 0, [], [], [], {}, {}, {})

    @property
    def broker(self) -> Node:
        return self._state.broker

    # What the application asks for ---------------------------------------------------------------------------

    def attach(self) -> Sequence[Effect]:
        timer = [self._lease.first()] if self._lease else []
        return [self._send(Attach(self.own_events)), *timer]

    def detach(self) -> Sequence[Effect]:
        return [self._send(Detach())]

    def publish(self, attributes: Mapping[str, Value], payload: bytes = b"") -> Sequence[Effect]:
        """Publish an event; raises EventError for attributes that no event may have, with nothing published."""
        return self.publish_draft(self.draft(attributes, payload))

    def draft(self, attributes: Mapping[str, Value], payload: bytes = b"") -> Event:
        """The next event; it must be sent: with `publish_draft`, or, where `may_publish` and nobody observes, as it is.

        Raises EventError, with nothing drafted.
        """
        attributes = dict(attributes)
        check_content(attributes, payload)
        self._state.sequence += 1
        return Event(EventId(self.name, self.incarnation, self._state.sequence), attributes, payload)

    def publish_draft(self, event: Event) -> Sequence[Effect]:
        return [Observe(Observed.PUBLISH, event=event), *self._send_in_turn(Publish(event))]

    @property
    def may_publish(self) -> bool:
        """Whether an event can go out at once: no advertisement has to come into effect before it."""
        return not (self._state.unconfirmed or self._state.waiting)

    def subscribe(self, subscription: str, wanted: Filter, *, network_wide: bool = True) -> Sequence[Effect]:
        if not network_wide:
            self._state.local.append(subscription)
        self._state.subscriptions[subscription] = wanted
        if self._lease:
            self._state.asked[subscription] = None
        detail = "" if self.own_events else "no-own"
        return [
            Observe(Observed.SUBSCRIBE, subscription=subscription, filter=wanted.text, detail=detail),
            self._send(Subscribe(subscription, wanted, network_wide)),
        ]

    def unsubscribe(self, subscription: str) -> Sequence[Effect]:
        self._state.subscriptions.pop(subscription, None)
        if self._lease:
            self._state.asked.pop(subscription, None)
            self._state.ended[subscription] = ROUNDS_UNANSWERED_MAX
        return [
            Observe(Observed.UNSUBSCRIBE, subscription=subscription),
            self._send(Unsubscribe(subscription)),
        ]

    def advertise(self, advertisement: str, advertised: Filter) -> Sequence[Effect]:
        observed = Observe(Observed.ADVERTISE, subscription=advertisement, filter=advertised.text)
        return [observed, *self._send_in_turn(Advertise(advertisement, advertised))]

    def unadvertise(self, advertisement: str) -> Sequence[Effect]:
        observed = Observe(Observed.UNADVERTISE, subscription=advertisement)
        return [observed, *self._send_in_turn(Unadvertise(advertisement))]

    # What the broker says ------------------------------------------------------------------------------------

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:  # noqa: ARG002
        if message.__class__ not in FROM_BROKERS:
            raise ProtocolError(self.name, sender, message, "brokers do not send this to clients")
        if sender != self._state.broker:
            self._state.early.setdefault(sender, []).append(message)  # type: ignore[arg-type]
            return []
        if isinstance(message, Redirect):
            return self._go_to(message)
        return self._answer(sender, message)  # type: ignore[arg-type]

    def _go_to(self, redirect: Redirect) -> Sequence[Effect]:
        """The former broker has said all that it had: farewell, and on with the new one."""
        state = self._state
        former, state.broker = state.broker, redirect.broker
        effects: list[Effect] = [LinkUp(redirect.broker, redirect.address), Send(former, Farewell()), LinkDown(former)]
        for message in state.early.pop(redirect.broker, ()):
            effects += self.handle(redirect.broker, message, now=0.0)
        return effects

    def _answer(self, sender: Node, reply: ClientReply) -> Sequence[Effect]:
        match reply:
            case Deliver(event):
                return [Observe(Observed.DELIVER, event=event)] if self.is_observed else []
            case Published():
                return self._published(sender, reply)
            case PublishRefused(event_id, reason):
                return [Observe(Observed.PUBLISH_FAIL, event_id=str(event_id), detail=reason)]
            case Subscribed(name):
                return self._subscribed(name)
            case Unsubscribed(name):
                self._state.ended.pop(name, None)
                return [Observe(Observed.UNSUBSCRIBE_ACK, subscription=name)]
            case Advertised(name):
                return [] if name in self._state.withdrawn else self._confirmed(name)
            case Unadvertised(name):
                self._state.withdrawn.pop(name, None)
                return []
            case Attached(refresh):
                return self._attached(refresh)
            case Refused(subject, reason):
                refused = Observe(Observed.STATE, subscription=subject, detail=f"refused: {reason}")
                return [refused, *self._confirmed(subject)]

    def handle_run(self, sender: Node, run: Run) -> Passed | None:  # noqa: ARG002
        """Here each event is observed by itself."""
        return None

    def _attached(self, refresh: float) -> Sequence[Effect]:
        """The broker says how often it wants to be told again. What was asked for before is not confirmed yet."""
        if refresh <= 0.0 or (self._lease is not None and self._lease.every == refresh):
            return []
        is_first = self._lease is None
        self._take_lease(refresh)
        assert self._lease
        if is_first:
            self._state.asked = dict.fromkeys(self._state.subscriptions)
        return [self._lease.first()]

    def _take_lease(self, refresh: float) -> None:
        self._state.refresh = refresh
        self._lease = RenewalClock(refresh, phase_of(self.name, refresh))

    def _confirmed(self, advertisement: str) -> Sequence[Effect]:
        """Once nothing is outstanding, what waited goes out."""
        if advertisement in self._state.unconfirmed:
            self._state.unconfirmed.remove(advertisement)
        return self._release()

    def _subscribed(self, subscription: str) -> Sequence[Effect]:
        """Asking again may bring a second confirmation; it must not be taken for that of a later subscription."""
        if subscription in self._state.ended:
            return []
        self._state.asked.pop(subscription, None)
        return [Observe(Observed.SUBSCRIBE_ACK, subscription=subscription, detail=self._reach(subscription))]

    def _published(self, sender: Node, message: Published) -> Sequence[Effect]:
        if not 1 <= message.count <= min(message.event.sequence, CONFIRMED_TOGETHER_MAX):
            raise ProtocolError(self.name, sender, message, f"it confirms {message.count} events")
        if not self.is_observed:
            return []
        return [Observe(Observed.PUBLISH_ACK, event_id=str(event_id)) for event_id in message.events]

    def _reach(self, subscription: str) -> str:
        """What the trace has to know of a confirmation: `local` where it came early, by wish."""
        if subscription not in self._state.local:
            return ""
        self._state.local.remove(subscription)
        return "local"

    def _send_in_turn(self, message: Publish | Advertise | Unadvertise) -> Sequence[Effect]:
        self._state.waiting.append(message)
        return self._release()

    def _release(self) -> Sequence[Effect]:
        """Send what waits, in order: advertisements at once, what follows them once they are in effect."""
        state = self._state
        count = 0
        for message in state.waiting:
            if isinstance(message, Advertise):
                state.unconfirmed.append(message.advertisement)
            elif state.unconfirmed:
                break
            count += 1
        released, state.waiting = state.waiting[:count], state.waiting[count:]
        for message in released:
            self._note_advertised(message)
        return [self._send(message) for message in released]

    def _note_advertised(self, message: Publish | Advertise | Unadvertise) -> None:
        match message:
            case Advertise(name, advertised):
                self._state.advertisements[name] = advertised
            case Unadvertise(name):
                self._state.advertisements.pop(name, None)
                if self._lease:
                    self._state.withdrawn[name] = ROUNDS_UNANSWERED_MAX

    def _send(self, message: Message) -> Send:
        return Send(self._state.broker, message)

    # The link ------------------------------------------------------------------------------------------------

    def peer_reborn(self, peer: Node) -> Sequence[Effect]:
        """The broker has lost its memory: ask again for all that this client has."""
        state = self._state
        if peer != state.broker:
            return ()  # of one that this client was sent away from
        state.unconfirmed = list(state.advertisements)
        return [
            self._send(Attach(self.own_events)),
            *(self._send(Advertise(name, advertised)) for name, advertised in state.advertisements.items()),
            *(self._send(Subscribe(name, wanted)) for name, wanted in state.subscriptions.items()),
            *self._release(),
        ]

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:  # noqa: ARG002
        assert self._lease, f"{self.name} has set no timer {name!r}"
        return [*self._renewals(), self._lease.next()]

    def put_off(self) -> Sequence[Effect]:
        """Nothing can be renewed now, since the broker cannot be reached; nor has it to be (routing/rounds.py)."""
        return [self._lease.next()] if self._lease else []

    def reconnected(self) -> Sequence[Effect]:
        """The broker can be reached again: what was put off is done."""
        return [*self._renewals(), self._lease.next()] if self._lease else []

    def _renewals(self) -> list[Send]:
        """Ask again for all that this client has: the broker may have forgotten any of it, and the client itself."""
        state = self._state
        state.ended, state.withdrawn = _a_round_later(state.ended), _a_round_later(state.withdrawn)
        advertised = sorted(state.advertisements.items())
        wanted = sorted(state.subscriptions.items())
        return [
            self._send(Attach(self.own_events)),
            *(self._send(Advertise(name, each, renews=True)) for name, each in advertised),
            *(self._send(Advertise(name, each)) for name, each in advertised if name in state.unconfirmed),
            *(self._send(Subscribe(name, each, renews=True)) for name, each in wanted),
            self._send(Renewed()),
            *(self._send(Subscribe(name, state.subscriptions[name])) for name in sorted(state.asked)),
        ]

    def resume(self, *, now: float) -> Sequence[Effect]:  # noqa: ARG002
        """After a restart the session sends again what was not confirmed; only renewals have to be set going."""
        return [self._lease.first()] if self._lease else []

    def is_changed_by(self, sender: Node, message: Message) -> bool:  # noqa: ARG002
        """Deliveries go to the application; the machine keeps nothing of them."""
        return message.__class__ not in PASSING

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> bytes:
        return pack(self._state)

    def restore(self, data: bytes) -> None:
        self._state = unpack(data, ClientMachineState)
        if self._state.refresh:
            self._take_lease(self._state.refresh)


def _a_round_later(rounds: Mapping[str, int]) -> dict[str, int]:
    return {name: left - 1 for name, left in rounds.items() if left > 1}
