"""The state of a client machine as plain data, and the renewal of its leased requests (core/stabilise)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pleach.core.effects import Observe, Observed, SetTimer
from pleach.core.events.filter import Filter
from pleach.core.messages import (
    Advertise,
    Attach,
    ClientReply,
    ClientRequest,
    Halt,
    Layer,
    Node,
    Publish,
    PublishRefused,
    Redirect,
    Refused,
    Renewed,
    Resume,
    Subscribe,
    Subscribed,
    Unadvertise,
)
from pleach.core.mobility.phases import ClientPhase
from pleach.core.mobility.resettling import Resettling

RENEW = "renew"  # the timer
ROUNDS_UNANSWERED_MAX = 2  # renewal rounds after which an answer is lost


class RenewalClock(msgspec.Struct, frozen=True):
    """The renewal timer of a client: `every` so many seconds, the first time after `phase`."""

    every: float
    phase: float

    def first(self) -> SetTimer:
        return SetTimer(RENEW, self.phase, is_upkeep=True)

    def next(self) -> SetTimer:
        return SetTimer(RENEW, self.every, is_upkeep=True)


class UnansweredRequests(msgspec.Struct, array_like=True):
    """Requests without an answer, so that a late answer is not taken for that of a later request."""

    asked: dict[str, None] = {}  # subscriptions
    ended: dict[str, int] = {}  # subscriptions taken back: renewal rounds in which a confirmation is outdated (leases)
    withdrawn: dict[str, int] = {}  # the same for advertisements


class ClientMachineState(msgspec.Struct, array_like=True):
    broker: Node
    sequence: int
    local: list[str]  # subscriptions that are confirmed by the broker alone, not network-wide
    unconfirmed: list[str]  # advertisements that are not yet in effect
    waiting: list[Publish | Advertise | Unadvertise]  # requests that wait for them, in order
    subscriptions: dict[str, Filter]  # all that the client has, for a broker that lost its state
    advertisements: dict[str, Filter]  # those that were sent to the broker
    early: dict[Node, list[ClientReply | Redirect | Halt | Resume]]  # from brokers that this client will move to
    unanswered: UnansweredRequests = msgspec.field(default_factory=UnansweredRequests)
    refresh: float = 0.0  # seconds between renewals, as the broker asked for
    phase: ClientPhase = ClientPhase.RUNNING
    unsaid: list[ClientRequest] = []  # requests made while halted
    resettling: Resettling | None = None  # a movement of its own
    left: Node = ""  # the broker that it left by itself: messages from there are ignored

    def note_subscribed(self, name: str, wanted: Filter, *, network_wide: bool) -> None:
        """A name stands for its first filter until that is taken back or refused, as at the broker."""
        if self.subscriptions.setdefault(name, wanted) != wanted:
            return
        self.unanswered.asked[name] = None
        if not network_wide:
            self.local.append(name)

    def note_refused(self, refused: Refused, *, is_leased: bool) -> None:
        """Drop a request that was never confirmed. One that was is kept: a broker that lost it may accept it later.

        With leases the refusal may come from damaged state: everything is requested again in each renewal round.
        """
        if is_leased:
            return
        name, wanted = refused.subject, refused.filter
        match refused.layer:
            case Layer.SUBSCRIPTIONS if name in self.unanswered.asked and self.subscriptions.get(name) == wanted:
                del self.subscriptions[name], self.unanswered.asked[name]
                self.local = [each for each in self.local if each != name]
            case Layer.ADVERTISEMENTS if name in self.unconfirmed and self.advertisements.get(name) == wanted:
                del self.advertisements[name]

    def changed(self, reply: Subscribed) -> Observe:
        """The observation of a right that has changed what is in effect of a subscription."""
        effective = reply.effective or self.subscriptions.get(reply.subscription)
        text = effective.text if effective else ""
        return Observe(Observed.STATE, subscription=reply.subscription, filter=text, detail="rights have changed")

    def note_advertised(self, message: Publish | Advertise | Unadvertise, *, is_leased: bool) -> None:
        match message:
            case Advertise(name, advertised):
                self.advertisements.setdefault(name, advertised)
            case Unadvertise(name):
                self.advertisements.pop(name, None)
                if is_leased:
                    self.unanswered.withdrawn[name] = ROUNDS_UNANSWERED_MAX

    def renewals(self, *, own_events: bool) -> list[ClientRequest]:
        """A renewal round: requests all that the client has. The broker may have lost any of it, and the client."""
        pending = self.unanswered
        pending.ended, pending.withdrawn = _a_round_later(pending.ended), _a_round_later(pending.withdrawn)
        advertised, wanted = sorted(self.advertisements.items()), sorted(self.subscriptions.items())
        return [
            Attach(own_events),
            *(Advertise(name, each, renews=True) for name, each in advertised),
            *(Advertise(name, each) for name, each in advertised if name in self.unconfirmed),
            *(Subscribe(name, each, renews=True) for name, each in wanted),
            Renewed(),
            *(Subscribe(name, self.subscriptions[name]) for name in sorted(pending.asked)),
        ]


def unpublished(refused: PublishRefused) -> Observe:
    """The observation of an event that was refused; one in doubt may have been published."""
    event_id = str(refused.event)
    if refused.is_in_doubt:
        return Observe(Observed.STATE, event_id=event_id, detail=f"in doubt: {refused.reason}")
    return Observe(Observed.PUBLISH_FAIL, event_id=event_id, detail=refused.reason)


def _a_round_later(rounds: Mapping[str, int]) -> dict[str, int]:
    return {name: left - 1 for name, left in rounds.items() if left > 1}
