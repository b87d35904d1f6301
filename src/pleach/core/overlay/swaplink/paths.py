"""ChangePath (S0 §IV-A, figures 3 and 4): traffic from x to y moves from an old path to a new one.

Rule 1: the last message that x sends on the old path is close(old).
Rule 2: y holds what arrives on the new path until close(old) has come.
Rule 3: where the new path is a detour over z, z marks what it relays for x, so that y can tell it from z's own traffic,
        until z has heard that close(old) has come. (To a straight link nothing else comes; there the mark is `flood`.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pleach.core.messages import Mark
from pleach.core.overlay.swaplink.transitions import A, B, C, SwapRole


@dataclass(frozen=True)
class ChangePath:
    old: tuple[SwapRole, ...]
    new: tuple[SwapRole, ...]

    @property
    def mark(self) -> Mark:
        """What x or z marks with what goes on the new path."""
        return Mark.RELAY if len(self.new) > 2 else Mark.FLOOD

    def ends_at(self, receiver: SwapRole, sender: SwapRole | None, mark: Mark) -> bool:
        """Whether a message that has come to `receiver` has come on the new path (rule 2)."""
        return self.new[-2:] == (sender, receiver) and self.mark is mark

    def is_relayed_by(self, relay: SwapRole, source: SwapRole | None, to: SwapRole | None) -> bool:
        """Whether `relay` is the z of this change, and passes on what x sends to y (rule 3)."""
        return self.new == (source, relay, to)


CBA: Final = ChangePath(old=(C, B, A), new=(C, A))  # closed by lockAck: 3, 4
ABC: Final = ChangePath(old=(A, B, C), new=(A, C))  # closed by swap: 5, 6
AB: Final = ChangePath(old=(A, B), new=(A, C, B))  # opened by 8; closed by 9, and at c by 10
BA: Final = ChangePath(old=(B, A), new=(B, C, A))  # opened by 10; closed by 11, and at c by 12
CHANGE_PATHS: Final = (CBA, ABC, AB, BA)
