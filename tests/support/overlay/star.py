"""A star around a broker that dies: random causal histories, and what is left of them, to merge journals of.

Everything that is wanted is known from the start, so that what each neighbour must get can be told exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from pleach.core.events.event import Event, EventId
from pleach.core.messages import Got, Sent
from pleach.core.overlay.healing.causal_merge import Account
from pleach.core.overlay.healing.journal import Journal, covers, marks_of

Merge = Callable[[Mapping[str, Account]], list[tuple[str, Event]]]


@dataclass
class Side:
    """A neighbour of the dead broker, with all that lies behind it."""

    journal: Journal = field(default_factory=Journal)
    to_hub: deque[EventId] = field(default_factory=deque)
    from_hub: deque[EventId] = field(default_factory=deque)
    confirmations: deque[int] = field(default_factory=deque)
    taken: int = 0
    got: list[EventId] = field(default_factory=list)
    known: frozenset[EventId] = frozenset()  # the causal past of what is published here


class Star:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        names = [f"n{i}" for i in range(self._random.randint(2, 4))]
        self.sides = {name: Side() for name in names}
        self.wanted: dict[EventId, list[str]] = {}
        self.past: dict[EventId, frozenset[EventId]] = {}
        self.died: set[tuple[EventId, str]] = set()  # copies that were lost with the hub
        self._counts: dict[str, int] = {}

    def live(self, steps: int) -> None:
        weights = [self._random.choice((1, 2, 5)) for _ in range(4)]
        actions = (self._publish, self._take_in, self._receive, self._confirm)
        for _ in range(steps):
            self._random.choices(actions, weights)[0](self._random.choice(list(self.sides)))

    def _publish(self, name: str) -> None:
        side = self.sides[name]
        publisher = f"{name}/{self._random.choice('pq')}"
        self._counts[publisher] = sequence = self._counts.get(publisher, 0) + 1
        event = EventId(publisher, 0, sequence)
        self.wanted[event] = [other for other in self.sides if other != name and self._random.random() < 0.6]
        self.past[event] = side.known
        side.known |= {event}
        side.journal.sent(Event(event, {}))
        side.to_hub.append(event)

    def _take_in(self, name: str) -> None:
        side = self.sides[name]
        if side.to_hub:
            event = side.to_hub.popleft()
            for other in self.wanted[event]:
                self.sides[other].from_hub.append(event)
            side.taken += 1
            side.confirmations.append(side.taken)

    def _receive(self, name: str) -> None:
        side = self.sides[name]
        if side.from_hub:
            self._get(side, side.from_hub.popleft())

    def _get(self, side: Side, event: EventId) -> None:
        side.journal.got(event)
        side.got.append(event)
        side.known |= {event, *self.past[event]}

    def _confirm(self, name: str) -> None:
        side = self.sides[name]
        if side.confirmations:
            side.journal.confirmed(side.confirmations.popleft())

    def die(self) -> None:
        """The hub is gone, and all that it had; a part of what it had sent still arrives."""
        for name, side in self.sides.items():
            for _ in range(self._random.randint(0, len(side.from_hub))):
                self._receive(name)
            self.died |= {(event, name) for event in side.from_hub}

    def heal(self, merge: Merge) -> None:
        accounts = {name: Account(*side.journal.hand_over()) for name, side in self.sides.items()}
        final = {name: _final(account) for name, account in accounts.items()}
        self.held = {e.event.id for account in accounts.values() for e in account.entries if isinstance(e, Sent)}
        for witness, event in merge(accounts):
            for name in self.wanted[event.id]:
                assert name != witness
                if not covers(final[name], event.id):
                    self.sides[name].got.append(event.id)

    def flaws(self) -> list[str]:
        found = []
        for name, side in self.sides.items():
            found += self._disorder(name, side.got)
            for event, wanted in self.wanted.items():
                is_excused = event not in self.held and (event, name) in self.died
                if name in wanted and event not in side.got and not is_excused:
                    found.append(f"lost: {event} at {name}")
        return found

    def _disorder(self, name: str, got: list[EventId]) -> list[str]:
        found = []
        known: set[EventId] = set()
        highest: dict[str, EventId] = {}
        for event in got:
            if highest.get(event.publisher, event) > event:
                found.append(f"fifo: {event} at {name}")
            elif event in known:
                found.append(f"{'duplicate' if event in highest.values() else 'causal'}: {event} at {name}")
            highest[event.publisher] = event
            known |= {event, *self.past[event]}
        return found


def _final(account: Account) -> dict[str, EventId]:
    return marks_of([*account.marks, *(entry.event for entry in account.entries if isinstance(entry, Got))])
