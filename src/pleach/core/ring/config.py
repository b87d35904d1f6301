"""Settings of a ring, the same at all hosts, and timeouts."""

from __future__ import annotations

import msgspec

from pleach.core.ring.keys import Circle, circle
from pleach.core.ring.reference_tree import BINARY, reference_tree
from pleach.errors import RingError

SUCCESSORS_MAX = 64


class RingConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`bits` and `degree` must be the same at all hosts. Times are in seconds.

    `successors`: a host survives the simultaneous failure of this many minus one successors.
    """

    bits: int = 32
    degree: int = BINARY
    successors: int = 8
    stabilise_every: float = 1.0
    check_tree_every: float = 2.0
    survey_every: float = 30.0  # even without a reported change
    answer_within: float = 0.5  # from one host
    find_within: float = 1.5  # of a look-up over several hops

    def __post_init__(self) -> None:
        reference_tree(circle(self.bits), self.degree)
        if not 1 <= self.successors <= SUCCESSORS_MAX:
            raise RingError(f"{self.successors} successors; a host keeps 1 to {SUCCESSORS_MAX}")
        for name in ("stabilise_every", "check_tree_every", "survey_every", "answer_within", "find_within"):
            if not 0 < getattr(self, name) < float("inf"):
                raise RingError(f"{name} = {getattr(self, name)}; it is a number of seconds above 0")

    @property
    def circle(self) -> Circle:
        return Circle(self.bits)


def phase_of(name: str, every: float) -> float:
    """The first delay of a recurring timer; timers of different hosts do not coincide."""
    whole = Circle(32)
    return every * (whole.key_of(name) + 1) / whole.size
