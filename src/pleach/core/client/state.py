"""What a client machine keeps, as plain data, and what it says again where its requests are leased (stabilise/)."""

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
    Unadvertise,
)
from pleach.core.mobility.phases import ClientPhase
from pleach.core.mobility.resettling import Resettling

RENEW = "renew"  # the timer
ROUNDS_UNANSWERED_MAX = 2  # of renewal: an answer that has not come by then is lost


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
    early: dict[
        Node, list[ClientReply | Redirect | Halt | Resume]
    ]  # what brokers sent that this client has not been sent to yet
    asked: dict[str, None] = {}  # subscriptions without an answer, and …
    ended: dict[str, int] = {}  # … rounds of renewal for which one is that of a former life (with leases only)
    withdrawn: dict[str, int] = {}  # the same for advertisements
    refresh: float = 0.0  # what the broker has said of it
    phase: ClientPhase = ClientPhase.RUNNING
    unsaid: list[ClientRequest] = []  # what waits until a halted client goes on
    resettling: Resettling | None = None  # it moves by itself
    left: Node = ""  # the broker that it has left so: what that one still sends is not read

    def note_subscribed(self, name: str, wanted: Filter, *, network_wide: bool) -> None:
        """As at the broker, a name stands for what it was first used for, until that is taken back or refused."""
        if self.subscriptions.setdefault(name, wanted) != wanted:
            return
        self.asked[name] = None
        if not network_wide:
            self.local.append(name)

    def note_refused(self, refused: Refused, *, is_leased: bool) -> None:
        """What was never confirmed goes. What was is still wanted: a broker that forgot it may have room later.

        With leases it may be damaged state that refuses, so that all is asked for again with every round.
        """
        if is_leased:
            return
        name, wanted = refused.subject, refused.filter
        match refused.layer:
            case Layer.SUBSCRIPTIONS if name in self.asked and self.subscriptions.get(name) == wanted:
                del self.subscriptions[name], self.asked[name]
                self.local = [each for each in self.local if each != name]
            case Layer.ADVERTISEMENTS if name in self.unconfirmed and self.advertisements.get(name) == wanted:
                del self.advertisements[name]

    def note_advertised(self, message: Publish | Advertise | Unadvertise, *, is_leased: bool) -> None:
        match message:
            case Advertise(name, advertised):
                self.advertisements.setdefault(name, advertised)
            case Unadvertise(name):
                self.advertisements.pop(name, None)
                if is_leased:
                    self.withdrawn[name] = ROUNDS_UNANSWERED_MAX

    def renewals(self, *, own_events: bool) -> list[ClientRequest]:
        """A round: asks again for all that the client has. The broker may have forgotten any of it, and the client."""
        self.ended, self.withdrawn = _a_round_later(self.ended), _a_round_later(self.withdrawn)
        advertised, wanted = sorted(self.advertisements.items()), sorted(self.subscriptions.items())
        return [
            Attach(own_events),
            *(Advertise(name, each, renews=True) for name, each in advertised),
            *(Advertise(name, each) for name, each in advertised if name in self.unconfirmed),
            *(Subscribe(name, each, renews=True) for name, each in wanted),
            Renewed(),
            *(Subscribe(name, self.subscriptions[name]) for name in sorted(self.asked)),
        ]


def unpublished(refused: PublishRefused) -> Observe:
    """What the trace has to know of an event that was not taken over; one that is in doubt may have been."""
    event_id = str(refused.event)
    if refused.is_in_doubt:
        return Observe(Observed.STATE, event_id=event_id, detail=f"in doubt: {refused.reason}")
    return Observe(Observed.PUBLISH_FAIL, event_id=event_id, detail=refused.reason)


def _a_round_later(rounds: Mapping[str, int]) -> dict[str, int]:
    return {name: left - 1 for name, left in rounds.items() if left > 1}
