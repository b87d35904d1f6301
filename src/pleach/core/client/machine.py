"""One client, as a pure machine: what an application asks for becomes messages, what arrives becomes observations.

A client counts its own events, so that ids are given where events are made. While an advertisement is not yet in
effect, publishing waits: an event sent earlier would be refused. Drivers put an event loop (or virtual time) around
this machine.

A client may be sent to another broker (S0 §IV-C): what that one has for it waits until the former one has said all that
it had, and then the client says farewell and goes.

Or it may be moved (S4; mobility/): asked to halt, it says nothing more, and what the application asks for waits;
then it is told to go on, there or elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from pleach.core.client.state import RENEW, ROUNDS_UNANSWERED_MAX, ClientMachineState, RenewalClock, unpublished
from pleach.core.effects import Concluded, Effect, LinkDown, LinkUp, Observe, Observed, Passed, Send
from pleach.core.events.event import Event, EventId, Value, check_content
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
PASSING: frozenset[type] = frozenset((Deliver, Published, PublishRefused))  # the machine keeps nothing of them


class ClientMachine:
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
        return [*self._send(Attach(self.own_events)), *timer]

    def detach(self) -> Sequence[Effect]:
        return self._send(Detach())

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
    def is_halted(self) -> bool:
        return self._state.phase is ClientPhase.HALTED

    @property
    def may_publish(self) -> bool:
        """Whether an event can go out at once: it is not halted, and no advertisement has to take effect first."""
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
        self._state.asked.pop(subscription, None)
        if self._lease:
            self._state.ended[subscription] = ROUNDS_UNANSWERED_MAX
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

    # What the broker says ------------------------------------------------------------------------------------

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
        """The former broker has said all that it had: `last` words to it, and on with the new one."""
        state = self._state
        former, state.broker = state.broker, there.to
        effects: list[Effect] = [there, *last, LinkDown(former)]
        for message in state.early.pop(there.to, ()):
            effects += self.handle(there.to, message, now=0.0)
        return effects

    def _go_on(self, resume: Resume) -> Sequence[Effect]:
        """The movement is over: the client is there, or it has stayed."""
        state = self._state
        state.phase = ClientPhase.RUNNING
        gone: list[Effect] = []
        if resume.broker == state.broker:
            state.early.clear()  # of one that had thought it would come
        else:
            gone.append(Observe(Observed.MOVE, detail=f"from {state.broker} to {resume.broker}"))
            gone += self._go_to(LinkUp(resume.broker, resume.address, life=resume.life))
        return [*gone, *self._say_unsaid()]

    def _say_unsaid(self) -> list[Send]:
        """What a halted client was asked to say; nothing, if it has been asked to halt again."""
        if self._state.phase is ClientPhase.HALTED:
            return []
        unsaid, self._state.unsaid = self._state.unsaid, []
        return [Send(self._state.broker, message) for message in unsaid]

    def resettle(self, operation: str, to: Node, address: str = "", *, gently: bool) -> Sequence[Effect]:
        """Move by yourself. `gently`: take back first what you have asked for (core/mobility/resettling.py)."""
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
        """All answers have come: go, or be there."""
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
                return [Observe(Observed.DELIVER, event=event)] if self.is_observed else []
            case Published():
                return self._published(sender, reply)
            case PublishRefused():
                return [unpublished(reply)]
            case Subscribed(name):
                return self._subscribed(name)
            case Unsubscribed(name):
                self._state.ended.pop(name, None)
                return [Observe(Observed.UNSUBSCRIBE_ACK, subscription=name)]
            case Advertised() | Unadvertised():
                return self._of_advertisement(reply)
            case Attached(refresh):
                return self._attached(refresh)
            case Refused():
                return self._refused(reply)

    def _answered_on_the_way(self, reply: ClientReply) -> Sequence[Effect]:
        """To a client that moves by itself; what it asks its new broker for it has asked for before."""
        match reply:
            case Advertised(name):
                return self._confirmed(name)
            case Refused():
                return self._refused(reply)
        return []

    def _refused(self, refused: Refused) -> Sequence[Effect]:
        """What waits for an advertisement does not wait for ever: the broker refuses that as well, one by one."""
        observed = Observe(Observed.STATE, subscription=refused.subject, detail=f"refused: {refused.reason}")
        self._state.note_refused(refused, is_leased=self._lease is not None)
        is_of_subscription = refused.layer is Layer.SUBSCRIPTIONS
        return [observed] if is_of_subscription else [observed, *self._confirmed(refused.subject)]

    def _of_advertisement(self, reply: Advertised | Unadvertised) -> Sequence[Effect]:
        """Like `_subscribed`: a confirmation that is late must not be taken for another one's."""
        name = reply.advertisement
        if isinstance(reply, Unadvertised):
            self._state.withdrawn.pop(name, None)
            return []
        return [] if name in self._state.withdrawn else self._confirmed(name)

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
        return [Observe(Observed.PUBLISH_ACK, event_id=str(event_id)) for event_id in message.event_ids]

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
            return ()  # of one that this client was sent away from
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
        """Whoever made the client halt knows nothing of it any more. Returns what it has not said."""
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
        """The broker can be reached again: what was put off is done."""
        return self.handle_timer(RENEW, now=0.0) if self._lease else []

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
