"""The client machine (pure): requests of an application become messages, arriving messages become observations.

Rule 1: a client numbers its own events; ids are assigned where events are created.
Rule 2: while an advertisement is not yet in effect, publishing waits: the broker would refuse an earlier event.
Rule 3: a client may be redirected to another broker (S0 §IV-C). Messages of the new broker wait until the former one
        has sent its last; then the client says Farewell and switches.
Rule 4: a client may be moved (S4; core/mobility). After Halt it sends nothing, and requests of the application wait;
        Resume tells it to continue, at the same broker or another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from pleach.core.client.state import RENEW, ROUNDS_UNANSWERED_MAX, ClientMachineState, RenewalClock, unpublished
from pleach.core.effects import Concluded, Effect, LinkDown, LinkUp, Observe, Observed, Passed, Send
from pleach.core.events.event import WITHHELD, Event, EventId, Value, check_content
from pleach.core.events.filter import Filter
from pleach.core.messages import (
    CONFIRMED_TOGETHER_MAX,
    Advertise,
    Advertised,
    Attach,
    Attached,
    ClientReply,
    ClientRequest,
    Deliver,
    Detach,
    Farewell,
    Halt,
    Halted,
    Layer,
    Message,
    Node,
    Publish,
    Published,
    PublishRefused,
    Redirect,
    Refused,
    Resume,
    Subscribe,
    Subscribed,
    Unadvertise,
    Unadvertised,
    Unsubscribe,
    Unsubscribed,
    pack,
    unpack,
)
from pleach.core.messages.runs import Run
from pleach.core.mobility.phases import ClientPhase
from pleach.core.mobility.resettling import Resettling, taken_back
from pleach.core.timing import phase_of
from pleach.errors import ProtocolError

FROM_BROKERS: frozenset[type] = frozenset((*get_args(ClientReply), Redirect, Halt, Resume))
PASSING: frozenset[type] = frozenset((Deliver, Published, PublishRefused))  # they do not change its state


class ClientMachine:
    """`lease`: the renewal timer; None: as the broker asks for in Attached (core/stabilise)."""

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
        self.is_observed = True  # False: no observation per event is created
        self.own_events = own_events
        self.incarnation = incarnation
        self._lease = lease
        self._state = ClientMachineState(broker, 0, [], [], [], {}, {}, {})

    @property
    def broker(self) -> Node:
        return self._state.broker

    # Requests of the application ---------------------------------------------------------------------------

    def attach(self) -> Sequence[Effect]:
        timer = [self._lease.first()] if self._lease else []
        return [*self._send(Attach(self.own_events)), *timer]

    def detach(self) -> Sequence[Effect]:
        return self._send(Detach())

    def publish(self, attributes: Mapping[str, Value], payload: bytes = b"") -> Sequence[Effect]:
        """Publish an event; raises EventError for invalid attributes, with nothing published."""
        return self.publish_draft(self.draft(attributes, payload))

    def draft(self, attributes: Mapping[str, Value], payload: bytes = b"") -> Event:
        """The next event. It must be sent: with `publish_draft`, or directly where `may_publish` and nobody observes.

        Raises EventError, with nothing drafted.
        """
        attributes = dict(attributes)
        check_content(attributes, payload)
        self._state.sequence += 1
        return Event(EventId(self.name, self.incarnation, self._state.sequence), attributes, payload)

    def publish_draft(self, event: Event) -> Sequence[Effect]:
        return [Observe(Observed.PUBLISH, event=event), *self._send_in_turn(Publish(event))]

    @property
    def is_halted(self) -> bool:
        return self._state.phase is ClientPhase.HALTED

    @property
    def may_publish(self) -> bool:
        """Whether an event can be sent at once: not halted, and no advertisement pending."""
        state = self._state
        return state.phase is ClientPhase.RUNNING and not (state.unconfirmed or state.waiting)

    def subscribe(self, subscription: str, wanted: Filter, *, network_wide: bool = True) -> Sequence[Effect]:
        self._state.note_subscribed(subscription, wanted, network_wide=network_wide)
        detail = "" if self.own_events else "no-own"
        return [
            Observe(Observed.SUBSCRIBE, subscription=subscription, filter=wanted.text, detail=detail),
            *self._send(Subscribe(subscription, wanted, network_wide)),
        ]

    def unsubscribe(self, subscription: str) -> Sequence[Effect]:
        self._state.subscriptions.pop(subscription, None)
        self._state.unanswered.asked.pop(subscription, None)
        if self._lease:
            self._state.unanswered.ended[subscription] = ROUNDS_UNANSWERED_MAX
        return [
            Observe(Observed.UNSUBSCRIBE, subscription=subscription),
            *self._send(Unsubscribe(subscription)),
        ]

    def advertise(self, advertisement: str, advertised: Filter) -> Sequence[Effect]:
        observed = Observe(Observed.ADVERTISE, subscription=advertisement, filter=advertised.text)
        return [observed, *self._send_in_turn(Advertise(advertisement, advertised))]

    def unadvertise(self, advertisement: str) -> Sequence[Effect]:
        observed = Observe(Observed.UNADVERTISE, subscription=advertisement)
        return [observed, *self._send_in_turn(Unadvertise(advertisement))]

    # Messages of brokers -------------------------------------------------------------------------------------

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:  # noqa: ARG002
        if message.__class__ not in FROM_BROKERS:
            raise ProtocolError(self.name, sender, message, "brokers do not send this to clients")
        if sender != self._state.broker:
            if sender == self._state.left:
                return []
            self._state.early.setdefault(sender, []).append(message)  # type: ignore[arg-type]
            return []
        match message:
            case Redirect(broker, address, life):
                return self._go_to(LinkUp(broker, address, life=life), [Send(sender, Farewell())])
            case Halt(operation):
                self._state.phase, self._state.left = ClientPhase.HALTED, ""
                return [Send(sender, Halted(operation))]
            case Resume():
                return self._go_on(message)
        return self._answer(sender, message)  # type: ignore[arg-type]

    def _go_to(self, there: LinkUp, last: Sequence[Send] = ()) -> list[Effect]:
        """Switch to another broker: the former one has sent its last message; `last`: messages to it."""
        state = self._state
        former, state.broker = state.broker, there.to
        effects: list[Effect] = [there, *last, LinkDown(former)]
        for message in state.early.pop(there.to, ()):
            effects += self.handle(there.to, message, now=0.0)
        return effects

    def _go_on(self, resume: Resume) -> Sequence[Effect]:
        """The movement has ended: the client is at the new broker, or has stayed."""
        state = self._state
        state.phase = ClientPhase.RUNNING
        gone: list[Effect] = []
        if resume.broker == state.broker:
            state.early.clear()  # from the broker of a movement that failed
        else:
            gone.append(Observe(Observed.MOVE, detail=f"from {state.broker} to {resume.broker}"))
            gone += self._go_to(LinkUp(resume.broker, resume.address, life=resume.life))
        return [*gone, *self._say_unsaid()]

    def _say_unsaid(self) -> list[Send]:
        """Send the requests made while halted; nothing if it is halted again."""
        if self._state.phase is ClientPhase.HALTED:
            return []
        unsaid, self._state.unsaid = self._state.unsaid, []
        return [Send(self._state.broker, message) for message in unsaid]

    def resettle(self, operation: str, to: Node, address: str = "", *, gently: bool) -> Sequence[Effect]:
        """Move without the help of brokers. `gently`: take all requests back first (core/mobility/resettling.py)."""
        state = self._state
        if state.phase is ClientPhase.HALTED or state.resettling or to == state.broker:
            return [Concluded(operation, f"{self.name} moves already, or is at {to}")]
        state.resettling = Resettling(operation, to, address)
        if not gently:
            return self._resettled()
        state.phase = ClientPhase.HALTED
        state.resettling.awaited = [*state.subscriptions, *state.advertisements]
        asked_back = [Send(state.broker, m) for m in taken_back(state.subscriptions, state.advertisements)]
        return asked_back or self._resettled()

    def _resettled(self) -> Sequence[Effect]:
        """Once all answers have arrived: leave, or conclude the movement."""
        state, resettling = self._state, self._state.resettling
        assert resettling
        if resettling.awaited:
            return []
        if resettling.has_arrived:
            state.resettling = None
            return [Concluded(resettling.operation)]
        state.left, resettling.has_arrived = state.broker, True
        resettling.awaited = [*state.subscriptions, *state.advertisements]
        moved = Observe(Observed.MOVE, detail=f"from {state.broker} to {resettling.to}")
        gone = self._go_to(LinkUp(resettling.to, resettling.address), [Send(state.broker, Detach())])
        return [moved, *gone, *self.peer_reset(resettling.to), *self._resettled()]

    def _answer(self, sender: Node, reply: ClientReply) -> Sequence[Effect]:
        if self._state.resettling and self._state.resettling.takes(reply):
            return [*self._answered_on_the_way(reply), *self._resettled()]
        match reply:
            case Deliver(event):
                return [Observe(Observed.DELIVER, event=event)] if self.is_observed and event != WITHHELD else []
            case Published():
                return self._published(sender, reply)
            case PublishRefused():
                return [unpublished(reply)]
            case Subscribed():
                return self._subscribed(reply)
            case Unsubscribed(name):
                self._state.unanswered.ended.pop(name, None)
                return [Observe(Observed.UNSUBSCRIBE_ACK, subscription=name)]
            case Advertised() | Unadvertised():
                return self._of_advertisement(reply)
            case Attached(refresh):
                return self._attached(refresh)
            case Refused():
                return self._refused(reply)

    def _answered_on_the_way(self, reply: ClientReply) -> Sequence[Effect]:
        """An answer during a movement of its own; the application was answered before."""
        match reply:
            case Advertised(name):
                return self._confirmed(name)
            case Refused():
                return self._refused(reply)
        return []

    def _refused(self, refused: Refused) -> Sequence[Effect]:
        """Requests that wait for a refused advertisement are sent; the broker refuses them one by one."""
        observed = Observe(Observed.STATE, subscription=refused.subject, detail=f"refused: {refused.reason}")
        self._state.note_refused(refused, is_leased=self._lease is not None)
        is_of_subscription = refused.layer is Layer.SUBSCRIPTIONS
        return [observed] if is_of_subscription else [observed, *self._confirmed(refused.subject)]

    def _of_advertisement(self, reply: Advertised | Unadvertised) -> Sequence[Effect]:
        """A late confirmation must not be taken for that of a later request."""
        name = reply.advertisement
        if isinstance(reply, Unadvertised):
            self._state.unanswered.withdrawn.pop(name, None)
            return []
        return [] if name in self._state.unanswered.withdrawn else self._confirmed(name)

    def handle_run(self, sender: Node, run: Run) -> Passed | None:  # noqa: ARG002
        """Clients observe each event separately."""
        return None

    def _attached(self, refresh: float) -> Sequence[Effect]:
        """Take over the renewal period of the broker. Requests made before it count as unanswered."""
        if refresh <= 0.0 or (self._lease is not None and self._lease.every == refresh):
            return []
        is_first = self._lease is None
        self._take_lease(refresh)
        assert self._lease
        if is_first:
            self._state.unanswered.asked = dict.fromkeys(self._state.subscriptions)
        return [self._lease.first()]

    def _take_lease(self, refresh: float) -> None:
        self._state.refresh = refresh
        self._lease = RenewalClock(refresh, phase_of(self.name, refresh))

    def _confirmed(self, advertisement: str) -> Sequence[Effect]:
        """Once no advertisement is pending, send what waited."""
        if advertisement in self._state.unconfirmed:
            self._state.unconfirmed.remove(advertisement)
        return self._release()

    def _subscribed(self, reply: Subscribed) -> Sequence[Effect]:
        """A renewed request may be confirmed twice; the second must not be taken for a later subscription's."""
        subscription = reply.subscription
        if reply.is_change:
            return [self._state.changed(reply)]
        if subscription in self._state.unanswered.ended:
            return []
        self._state.unanswered.asked.pop(subscription, None)
        return [Observe(Observed.SUBSCRIBE_ACK, subscription=subscription, detail=self._reach(subscription))]

    def _published(self, sender: Node, message: Published) -> Sequence[Effect]:
        if not 1 <= message.count <= min(message.event.sequence, CONFIRMED_TOGETHER_MAX):
            raise ProtocolError(self.name, sender, message, f"it confirms {message.count} events")
        if not self.is_observed:
            return []
        return [Observe(Observed.PUBLISH_ACK, event_id=str(event_id)) for event_id in message.event_ids]

    def _reach(self, subscription: str) -> str:
        """The detail of a confirmation in the trace: `local` where it is not network-wide."""
        if subscription not in self._state.local:
            return ""
        self._state.local.remove(subscription)
        return "local"

    def _send_in_turn(self, message: Publish | Advertise | Unadvertise) -> Sequence[Effect]:
        self._state.waiting.append(message)
        return self._release()

    def _release(self) -> Sequence[Effect]:
        """Send what waits, in order: advertisements at once, events behind them once these are in effect."""
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
            state.note_advertised(message, is_leased=self._lease is not None)
        return self._send_all(released)

    def _send_all(self, messages: Iterable[ClientRequest]) -> list[Send]:
        return [send for message in messages for send in self._send(message)]

    def _send(self, message: ClientRequest) -> list[Send]:
        if self._state.phase is ClientPhase.HALTED:
            self._state.unsaid.append(message)
            return []
        return [Send(self._state.broker, message)]

    # The link ------------------------------------------------------------------------------------------------

    def peer_reset(self, peer: Node) -> Sequence[Effect]:
        """The broker has lost its memory: ask again for all that this client has."""
        state = self._state
        if peer != state.broker:
            return ()  # a broker that this client has left
        unsaid = self._unhalted()
        later = {message.advertisement for message in state.waiting if isinstance(message, Advertise)}
        again = {name: advertised for name, advertised in state.advertisements.items() if name not in later}
        state.unconfirmed = list(again)
        return [
            *self._send(Attach(self.own_events)),
            *self._send_all(Advertise(name, advertised) for name, advertised in again.items()),
            *self._send_all(Subscribe(name, wanted) for name, wanted in state.subscriptions.items()),
            *self._send_all(message for message in unsaid if isinstance(message, Unsubscribe)),
            *self._release(),
        ]

    def _unhalted(self) -> Sequence[ClientRequest]:
        """End a halt whose broker lost its state. Returns the requests made meanwhile."""
        state = self._state
        unsaid, state.unsaid, state.phase = state.unsaid, [], ClientPhase.RUNNING
        state.waiting = [*(m for m in unsaid if isinstance(m, Publish | Advertise | Unadvertise)), *state.waiting]
        return unsaid

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:  # noqa: ARG002
        assert self._lease, f"{self.name} has set no timer {name!r}"
        return [*self._send_all(self._state.renewals(own_events=self.own_events)), self._lease.next()]

    def put_off(self) -> Sequence[Effect]:
        """Skip a renewal: the broker cannot be reached, and expires nothing meanwhile (routing/renewal_rounds.py)."""
        return [self._lease.next()] if self._lease else []

    def reconnected(self) -> Sequence[Effect]:
        """The broker can be reached again: renew now."""
        return self.handle_timer(RENEW, now=0.0) if self._lease else []

    def resume(self, *, now: float) -> Sequence[Effect]:  # noqa: ARG002
        """After a restart the session resends what was not confirmed; only the renewal timer must be set."""
        return [self._lease.first()] if self._lease else []

    def is_changed_by(self, sender: Node, message: Message) -> bool:  # noqa: ARG002
        """Deliveries go to the application and do not change the machine's state."""
        return message.__class__ not in PASSING

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> bytes:
        return pack(self._state)

    def restore(self, data: bytes) -> None:
        self._state = unpack(data, ClientMachineState)
        if self._state.refresh:
            self._take_lease(self._state.refresh)
