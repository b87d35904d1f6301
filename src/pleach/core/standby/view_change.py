"""The proposer's side of the choice of a view's successor (single-decree Paxos)."""

from __future__ import annotations

from dataclasses import dataclass, field

from pleach.core.standby.views import AcceptedView, Ballot, Machine, View


@dataclass
class ViewChange:
    """A proposal of one ballot. `wanted`: what to propose where nothing may have been chosen yet."""

    ballot: Ballot
    wanted: View
    promises: dict[Machine, AcceptedView | None] = field(default_factory=dict)
    proposed: View | None = None  # None: still preparing
    accepted: dict[Machine, None] = field(default_factory=dict)
    refused: dict[Machine, None] = field(default_factory=dict)

    def choose(self) -> View:
        """What must be proposed: the accepted view of the highest ballot, else the wanted one."""
        known = [each for each in self.promises.values() if each is not None]
        self.proposed = max(known, key=lambda each: each.ballot).view if known else self.wanted
        return self.proposed
