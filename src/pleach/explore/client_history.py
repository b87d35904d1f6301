"""What clients have observed, as far as the oracle can tell two histories apart.

Two paths to the same configuration may be merged only if every continuation of them gets the same verdict. The oracle
(trace/oracle.py) reads a total order, but needs little of it:

- the subscriptions, publications and deliveries of each client in that client's own order (rules duplicate, spurious,
  FIFO; and causal, since the past of an event is its publisher's own order up to it): `sequence`;
- the subscriptions to which an event is owed when it is published: matching, acknowledged before, not ended (rule
  lost). This is the only place where the orders of different clients meet; it is stored with the publication in
  `sequence`;
- for that, the subscriptions that are acknowledged now: `subscriptions`;
- whether an event was acknowledged or failed at all: `answered`. The time matters only for a delivery after the
  failure, which is stored with the delivery.

Drains are not part of a history. The oracle asks whether a drain lay between an event and an unsubscription; every
quiet state is judged with a drain at its end, so the verdict of such a drain is known at that state.

`ClientHistories` numbers the histories that occur, so that a state holds one small number for all of this.
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
    """The history of one client."""

    sequence: tuple[tuple[object, ...], ...] = ()
    subscriptions: tuple[SubscriptionState, ...] = ()
    answered: frozenset[tuple[str, bool]] = frozenset()  # events of this client, and whether they failed


History = tuple[ClientHistory, ...]  # one per client


class ClientHistories:
    def __init__(self, clients: Iterable[Node]) -> None:
        self._clients = tuple(clients)
        self._interner: Interner[History] = Interner()
        self._after_moves: dict[tuple[int, int, int, int], int] = {}  # by history, move, state of the node, input
        self.none = self._interner.number(tuple(ClientHistory() for _ in self._clients))

    def after_move(self, number: int, move: tuple[int, int, int], node: Node, seen: Iterable[Observe]) -> int:
        """`after`, with an answer per history and move; the oracle does not read what brokers report."""
        if node not in self._clients:
            return number
        key = (number, *move)
        later = self._after_moves.get(key)
        if later is None:
            later = self._after_moves[key] = self.after(number, node, seen)
        return later

    def after(self, number: int, client: Node, seen: Iterable[Observe]) -> int:
        """The number of the history that follows `number` once the client has observed this."""
        history = self._interner.value(number)
        index = self._clients.index(client)
        for observed in seen:
            own = self._extended(history, history[index], observed)
            history = (*history[:index], own, *history[index + 1 :])
        return self._interner.number(history)

    def _extended(self, history: History, own: ClientHistory, seen: Observe) -> ClientHistory:
        match seen.kind:
            case Observed.PUBLISH | Observed.DELIVER:
                return own._replace(sequence=(*own.sequence, self._token(history, seen)))
            case Observed.PUBLISH_ACK | Observed.PUBLISH_FAIL:
                answer = (seen.event_id, seen.kind is Observed.PUBLISH_FAIL)
                return own._replace(answered=own.answered | {answer})
            case Observed.SUBSCRIBE_ACK:
                return own._replace(subscriptions=_acknowledged(own.subscriptions, seen.subscription))
            case Observed.SUBSCRIBE | Observed.UNSUBSCRIBE | Observed.UNSUBSCRIBE_ACK:
                token = (seen.kind, seen.subscription, seen.filter)
                return own._replace(sequence=(*own.sequence, token), subscriptions=_changed(own.subscriptions, seen))
            case Observed.ADVERTISE | Observed.UNADVERTISE | Observed.STATE | Observed.MOVE:
                return own  # the oracle does not read it

    def _token(self, history: History, seen: Observe) -> tuple[object, ...]:
        event = seen.event
        assert event is not None, seen
        common = (seen.kind, str(event.id), attributes_text(event.attributes))
        if seen.kind is Observed.DELIVER:
            return (*common, any((str(event.id), True) in own.answered for own in history))
        owed = (
            (client, each.subscription)
            for client, own in zip(self._clients, history, strict=True)
            for each in own.subscriptions
            if each.is_owed(client, event)
        )
        return (*common, *owed)


def _acknowledged(subscriptions: tuple[SubscriptionState, ...], subscription: str) -> tuple[SubscriptionState, ...]:
    """Acknowledgements come in the order of the requests: this one is for the oldest that has none."""
    for index, each in enumerate(subscriptions):
        if each.subscription == subscription and not each.acknowledged:
            return (*subscriptions[:index], each._replace(acknowledged=True), *subscriptions[index + 1 :])
    return subscriptions


def _changed(subscriptions: tuple[SubscriptionState, ...], seen: Observe) -> tuple[SubscriptionState, ...]:
    same = [index for index, s in enumerate(subscriptions) if s.subscription == seen.subscription]
    is_open = bool(same) and not subscriptions[same[-1]].ended
    match seen.kind:
        case Observed.SUBSCRIBE if not is_open:
            own = "no-own" not in seen.detail.split()
            return (*subscriptions, SubscriptionState(seen.subscription, seen.filter, own))
        case Observed.UNSUBSCRIBE if is_open:
            last = same[-1]
            return (*subscriptions[:last], subscriptions[last]._replace(ended=True), *subscriptions[last + 1 :])
        case Observed.UNSUBSCRIBE_ACK if same and subscriptions[same[0]].ended:
            return (*subscriptions[: same[0]], *subscriptions[same[0] + 1 :])
        case _:
            return subscriptions


@lru_cache(maxsize=PARSED_MAX)
def _parsed(text: str) -> Filter:
    return parse_internal(text)
