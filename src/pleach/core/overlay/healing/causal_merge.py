"""Merge of several journals into one history, in an order in which the dead broker may have received it.

Rule 1: events that a witness sent keep their order.
Rule 2: an event that a witness received before it sent another one precedes that one; marked events precede all.
Rule 3: events of one publisher are in rising order, whoever sent them.
Rule 4: an event that two witnesses sent, while the tree was changing, counts at its first place.

Each rule follows the real order: a witness received an event from the dead broker, to which it had been sent before. So
there is always a next event. If there are several, the names of the witnesses decide: everyone who merges the same
journals gets the same history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from pleach.core.events.event import Event, EventId
from pleach.core.messages import Got, JournalEntry, Node, Sent
from pleach.errors import HealingError


class Account(NamedTuple):
    """The journal of one witness."""

    marks: Sequence[EventId]
    entries: Sequence[JournalEntry]


Pending: TypeAlias = dict[str, dict[Node, deque[EventId]]]  # by publisher and witness, rising


def merged(accounts: Mapping[Node, Account]) -> list[tuple[Node, Event]]:
    """The unconfirmed events, each with its witness; raises HealingError for contradictory journals."""
    pending = _pending(accounts)
    left = {witness: deque(accounts[witness].entries) for witness in sorted(accounts)}
    unopened = {witness: list(accounts[witness].marks) for witness in left}
    history: dict[EventId, tuple[Node, Event]] = {}
    while left:
        before = _size(left, unopened)
        for witness in list(left):
            _advance(witness, left[witness], unopened, pending, history)
            if not left[witness]:
                del left[witness]
        if left and _size(left, unopened) == before:
            raise HealingError(f"the journals of {', '.join(left)} contradict each other")
    return list(history.values())


def _size(left: Mapping[Node, deque[JournalEntry]], unopened: Mapping[Node, list[EventId]]) -> int:
    return sum(map(len, left.values())) + sum(map(len, unopened.values()))


def _pending(accounts: Mapping[Node, Account]) -> Pending:
    pending: Pending = {}
    for witness, account in accounts.items():
        for entry in account.entries:
            if isinstance(entry, Sent):
                event = entry.event.id
                pending.setdefault(event.publisher, {}).setdefault(witness, deque()).append(event)
    return pending


def _advance(
    witness: Node,
    entries: deque[JournalEntry],
    unopened: dict[Node, list[EventId]],
    pending: Pending,
    history: dict[EventId, tuple[Node, Event]],
) -> None:
    """Read one journal as far as possible now."""
    unopened[witness] = [mark for mark in unopened[witness] if _awaits(mark, witness, pending)]
    if unopened[witness]:
        return
    while entries:
        match entries[0]:
            case Got(event) if _awaits(event, witness, pending):
                return
            case Sent(event):
                if _awaits_earlier(event.id, witness, pending):
                    return
                pending[event.id.publisher][witness].popleft()
                history.setdefault(event.id, (witness, event))
        entries.popleft()


def _awaits(event: EventId, witness: Node, pending: Pending) -> bool:
    """Whether this event, or an earlier one of its publisher, is still unread in another journal."""
    others = pending.get(event.publisher, {})
    return any(waiting and waiting[0] <= event for other, waiting in others.items() if other != witness)


def _awaits_earlier(event: EventId, witness: Node, pending: Pending) -> bool:
    """Whether an earlier event of its publisher is still unread in another journal."""
    others = pending.get(event.publisher, {})
    return any(waiting and waiting[0] < event for other, waiting in others.items() if other != witness)
