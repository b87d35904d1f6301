"""What the oracle can still tell apart of what happened before.

Two ways to the same configuration may be taken for one only if no continuation of them is judged differently. The
oracle (trace/oracle.py) reads a total order, but asks little of it:

- what one client subscribed, published, got and ended, in that client's own order (duplicate, spurious, FIFO; and
  causal, since the past of an event is its publisher's own order up to it): `lived`;
- to which subscriptions an event is owed when it is published: matching, acknowledged before, not ended (lost).
  This is the one place where orders of different clients meet, and it is noted with the publication in `lived`;
- for that, which subscriptions are acknowledged now: `stretches`;
- whether an event was acknowledged or failed at all: `answered`. When does not matter, but for a delivery after the
  failure, which is noted with the delivery.

Drains need no place here. The oracle asks whether a drain lay between an event and an unsubscription; every quiet
state is judged with a drain at its end, so what such a drain would show has been seen at that state.

`ClientHistories` numbers the pasts that occur, so that a state holds one small number for all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from pleach.core.effects import Observe, Observed
from pleach.core.events.event import Event
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_internal
from pleach.core.messages import Node
from pleach.explore.interning import Interner
from pleach.trace import attributes_text

PARSED_MAX = 4_096


class SubscriptionState(NamedTuple):
    """One subscription from its `subscribe` to its `unsubscribe_ack`."""

    subscription: str
    filter: str
    own: bool
    acknowledged: bool = False
    ended: bool = False

    def is_owed(self, client: Node, event: Event) -> bool:
        is_due = self.acknowledged and not self.ended and (self.own or event.id.publisher != client)
        return is_due and _parsed(self.filter).matches(event.attributes)


class ClientHistory(NamedTuple):
    """The past of one client."""

    lived: tuple[tuple[object, ...], ...] = ()
    stretches: tuple[SubscriptionState, ...] = ()
    answered: frozenset[tuple[str, bool]] = frozenset()  # events of this client, and whether they failed


Past = tuple[ClientHistory, ...]  # one per client


class ClientHistories:
    def __init__(self, clients: Iterable[Node]) -> None:
        self._clients = tuple(clients)
        self._interner: Interner[Past] = Interner()
        self.none = self._interner.number(tuple(ClientHistory() for _ in self._clients))

    def after(self, number: int, client: Node, seen: Iterable[Observe]) -> int:
        """The number of the past that `number` becomes once the client has seen this."""
        past = self._interner.value(number)
        index = self._clients.index(client)
        for observed in seen:
            life = self._live(past, past[index], observed)
            past = (*past[:index], life, *past[index + 1 :])
        return self._interner.number(past)

    def _live(self, past: Past, life: ClientHistory, seen: Observe) -> ClientHistory:
        match seen.kind:
            case Observed.PUBLISH | Observed.DELIVER:
                return life._replace(lived=(*life.lived, self._token(past, seen)))
            case Observed.PUBLISH_ACK | Observed.PUBLISH_FAIL:
                answer = (seen.event_id, seen.kind is Observed.PUBLISH_FAIL)
                return life._replace(answered=life.answered | {answer})
            case Observed.SUBSCRIBE_ACK:
                return life._replace(stretches=_acknowledged(life.stretches, seen.subscription))
            case Observed.SUBSCRIBE | Observed.UNSUBSCRIBE | Observed.UNSUBSCRIBE_ACK:
                token = (seen.kind, seen.subscription, seen.filter)
                return life._replace(lived=(*life.lived, token), stretches=_changed(life.stretches, seen))
            case Observed.ADVERTISE | Observed.UNADVERTISE | Observed.STATE | Observed.MOVE:
                return life  # not the oracle's business

    def _token(self, past: Past, seen: Observe) -> tuple[object, ...]:
        event = seen.event
        assert event is not None, seen
        common = (seen.kind, str(event.id), attributes_text(event.attributes))
        if seen.kind is Observed.DELIVER:
            return (*common, any((str(event.id), True) in life.answered for life in past))
        owed = (
            (client, stretch.subscription)
            for client, life in zip(self._clients, past, strict=True)
            for stretch in life.stretches
            if stretch.is_owed(client, event)
        )
        return (*common, *owed)


def _acknowledged(stretches: tuple[SubscriptionState, ...], subscription: str) -> tuple[SubscriptionState, ...]:
    """Acknowledgements come in the order of the requests: this one is for the oldest that has none."""
    for index, stretch in enumerate(stretches):
        if stretch.subscription == subscription and not stretch.acknowledged:
            return (*stretches[:index], stretch._replace(acknowledged=True), *stretches[index + 1 :])
    return stretches


def _changed(stretches: tuple[SubscriptionState, ...], seen: Observe) -> tuple[SubscriptionState, ...]:
    same = [index for index, s in enumerate(stretches) if s.subscription == seen.subscription]
    is_open = bool(same) and not stretches[same[-1]].ended
    match seen.kind:
        case Observed.SUBSCRIBE if not is_open:
            own = "no-own" not in seen.detail.split()
            return (*stretches, SubscriptionState(seen.subscription, seen.filter, own))
        case Observed.UNSUBSCRIBE if is_open:
            last = same[-1]
            return (*stretches[:last], stretches[last]._replace(ended=True), *stretches[last + 1 :])
        case Observed.UNSUBSCRIBE_ACK if same and stretches[same[0]].ended:
            return (*stretches[: same[0]], *stretches[same[0] + 1 :])
        case _:
            return stretches


@lru_cache(maxsize=PARSED_MAX)
def _parsed(text: str) -> Filter:
    return parse_internal(text)
