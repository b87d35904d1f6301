"""Renewals that travel from the client to the last broker, as S1 §3.3.2 has it: which of them go on to a neighbour.

Kept for the comparison: but for simple routing this loses live subscriptions unless the brokers' clocks agree (decision
12); by default each broker renews by itself what it has told (stabilise/).

Beside what a neighbour should know (`full`: the reduction of all entries) stands the reduction of those entries alone
that were renewed since the last tick (`fresh`). What newly appears in `fresh` is told again. In the first variant that
is all there is to it: a covered filter goes on while its cover is not yet renewed, and is taken back once that is. In
the second one only what `full` has goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from pleach.core.effects import Send
from pleach.core.messages import Install, Layer, Node, Withdraw
from pleach.core.routing.entries import Change, Entry
from pleach.core.routing.exports import Export
from pleach.core.routing.stages import Stage

UNANSWERED = 0  # the number of an install that nobody waits for


class Relaying(StrEnum):
    """Which renewals a broker passes on."""

    NEVER = "never"  # there are no leases, or each broker renews for itself
    ALWAYS = "always"  # all of them: simple routing
    FRESH = "fresh"  # those that nothing hides that was renewed before them: the first variant
    UNHIDDEN = "unhidden"  # … and that nothing else hides either: the second


class RenewalRelay:
    """`fresh` for each neighbour."""

    def __init__(self, layer: Layer, relaying: Relaying, make_stages: Callable[[], Sequence[Stage]]) -> None:
        self._layer = layer
        self._relaying = relaying
        self._make_stages = make_stages
        self._fresh: dict[Node, Export] = {}

    def begin(self, neighbour: Node, fresh: Iterable[Entry] = ()) -> None:
        self._fresh[neighbour] = Export(self._make_stages())
        self._fresh[neighbour].apply(Change(added=tuple(fresh)))

    def renewed(self, neighbour: Node, entry: Entry, full: Export, *, is_first: bool) -> list[Send]:
        """`is_first`: since the last tick."""
        if self._relaying is Relaying.ALWAYS:
            return [self._again(neighbour, entry)]
        return self._changed(neighbour, Change(added=(entry,)), full) if is_first else []

    def removed(self, neighbour: Node, entry: Entry, full: Export) -> list[Send]:
        """To be called while `full` has still what follows from the entry."""
        if self._relaying is Relaying.ALWAYS:
            return []
        return self._changed(neighbour, Change(removed=(entry,)), full)

    def tick(self, neighbour: Node, full: Mapping[Entry, None]) -> list[Send]:
        """Nothing is fresh any more. What had only been told for that is taken back."""
        former = self._fresh[neighbour].told
        self.begin(neighbour)
        if self._relaying is not Relaying.FRESH:
            return []
        return [self._withdrawal(neighbour, entry) for entry in sorted(former) if entry not in full]

    def _changed(self, neighbour: Node, change: Change, full: Export) -> list[Send]:
        added, removed = self._fresh[neighbour].apply(change)
        if self._relaying is Relaying.UNHIDDEN:
            return [self._again(neighbour, entry) for entry in sorted(added) if entry in full.told]
        return [
            *(self._again(neighbour, entry) for entry in sorted(added)),
            *(self._withdrawal(neighbour, entry) for entry in sorted(removed) if entry not in full.told),
        ]

    def _again(self, neighbour: Node, entry: Entry) -> Send:
        return Send(neighbour, Install(self._layer, UNANSWERED, entry.owner, entry.filter))

    def _withdrawal(self, neighbour: Node, entry: Entry) -> Send:
        return Send(neighbour, Withdraw(self._layer, entry.owner, entry.filter))


def once(sends: Iterable[Send]) -> list[Send]:
    """Without installs and withdrawals of what was told or taken back just before."""
    kept: dict[tuple[Node, type, str, object], Send] = {}
    for send in sends:
        match send.message:
            case Install(_, _, owner, wanted) | Withdraw(_, owner, wanted):
                kept.setdefault((send.to, type(send.message), owner, wanted), send)
    return list(kept.values())
