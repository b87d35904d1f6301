"""Relayed renewals (S1 §3.3.2): which renewals of clients a broker forwards to a neighbour.

For comparison with S1: except for simple routing this loses live subscriptions unless the brokers' clocks agree
(decision 12). By default each broker renews its own entries at its neighbours (core/stabilise).

`full` is the reduction of all entries, `fresh` the reduction of those that were renewed since the last tick. Entries
that newly appear in `fresh` are sent again. Variant 1 forwards all of them: a covered filter is forwarded while its
cover is not yet renewed, and withdrawn once it is. Variant 2 forwards only those that `full` has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from pleach.core.effects import Send
from pleach.core.messages import Install, Layer, Node, Withdraw
from pleach.core.routing.entries import Change, Entry
from pleach.core.routing.exports import Export
from pleach.core.routing.stages import Stage

UNANSWERED = 0  # the number of an install without an answer


class Relaying(StrEnum):
    """Which renewals a broker forwards."""

    NEVER = "never"  # no leases, or each broker renews its own entries
    ALWAYS = "always"  # simple routing
    FRESH = "fresh"  # those not covered by an entry renewed before: variant 1
    UNHIDDEN = "unhidden"  # … and not covered by any other entry: variant 2


class RenewalRelay:
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
        """Called before `full` loses the entry."""
        if self._relaying is Relaying.ALWAYS:
            return []
        return self._changed(neighbour, Change(removed=(entry,)), full)

    def tick(self, neighbour: Node, full: Mapping[Entry, None]) -> list[Send]:
        """Clear `fresh`, and withdraw entries that were only forwarded because of it."""
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
    """The sends without repeated installs and withdrawals."""
    kept: dict[tuple[Node, type, str, object], Send] = {}
    for send in sends:
        match send.message:
            case Install(_, _, owner, wanted) | Withdraw(_, owner, wanted):
                kept.setdefault((send.to, type(send.message), owner, wanted), send)
    return list(kept.values())
