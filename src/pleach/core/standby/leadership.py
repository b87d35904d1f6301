"""What a primary knows while it leads: how far each copy has come, and up to where commits are confirmed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pleach.core.standby.positions import Position
from pleach.core.standby.views import Machine

NOT_CAUGHT_UP = -1


@dataclass
class Leadership:
    """`base`: where the store was when this primary opened it; commits since have the run `run`."""

    base: Position
    run: int
    written: int  # the number of the last commit on the primary's own disk
    confirmed: int  # at every copy of a view
    acknowledged: dict[Machine, Position] = field(default_factory=dict)  # by others, in the present view
    following: dict[Machine, Position | None] = field(default_factory=dict)  # who get records, brought up from where
    learners: list[Machine] = field(default_factory=list)  # who are filled to become copies
    is_serving: bool = False

    @classmethod
    def begin(cls, base: Position, run: int) -> Leadership:
        return cls(base, run, base.number, base.number)

    def wrote(self, before: Position, position: Position) -> None:
        """A commit is on the own disk, after the one `before`.

        The store draws a new run where it could not write a record that others may have: those are elsewhere then.
        """
        if position.run not in (self.run, before.run):
            self.base, self.run = before, position.run
        self.written = position.number

    def reached(self, machine: Machine) -> int:
        """The last commit that a machine has for certain; its content may be of another history."""
        position = self.acknowledged.get(machine)
        if position is None or (position != self.base and position.run != self.run):
            return NOT_CAUGHT_UP
        return position.number

    def reached_by_all(self, standbys: Iterable[Machine]) -> int:
        return min((self.written, *map(self.reached, standbys)))

    def is_whole(self, machine: Machine) -> bool:
        """Whether a machine has all that was confirmed."""
        return self.reached(machine) >= self.confirmed

    def view_installed(self) -> None:
        """Acknowledgements count in the view in which they are given."""
        self.acknowledged.clear()
