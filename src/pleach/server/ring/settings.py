"""[ring] of a broker's settings."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pleach.core.ring.config import RingConfig
from pleach.core.ring.reference_tree import BINARY
from pleach.errors import RingError

SECONDS_MIN, SECONDS_MAX = 0.05, 3_600.0


class RingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`found`, or `join`: one of them."""

    found: bool = False  # be the first of a ring
    join: tuple[str, ...] = ()  # members to join through, where they listen for brokers; one is enough
    join_seconds: float = 15.0  # how long a broker that is in no tree yet waits for them to answer
    leave: bool = True  # on SIGTERM, for good; else it only stops. By the profile: where it has no data directory
    leave_seconds: float = 60.0  # how long leaving may take; then it stops as it is
    weave: bool = True  # as the root, make the tree of brokers follow the ring. By the profile: without [improve]
    bits: int = 32  # of a key; the same for all brokers of a network
    degree: int = BINARY  # neighbours that the ring gives a broker at most (above 3: mostly); the same for all brokers
    successors: int = 8  # that each member knows; of these all but one may fail at once
    stabilise_every: float = 1.0  # seconds between rounds: how soon the ring sees who came and who is gone
    check_tree_every: float = 2.0  # seconds between questions to neighbours in the ring's tree

    @property
    def config(self) -> RingConfig:
        """Raises RingError."""
        return RingConfig(
            bits=self.bits,
            degree=self.degree,
            successors=self.successors,
            stabilise_every=self.stabilise_every,
            check_tree_every=self.check_tree_every,
        )

    @property
    def terms(self) -> dict[str, str]:
        """What members must agree on."""
        return {"ring.bits": str(self.bits), "ring.degree": str(self.degree)}


def ring_complaints(settings: RingSettings) -> Iterator[tuple[str, str, str]]:
    """(key, reason, remedy) of what is wrong with the settings, but for the addresses in `join`."""
    if settings.found and settings.join:
        yield "ring.join", "a broker founds a ring, or joins one", "leave out found (--ring), or join (--join)"
    if not settings.found and not settings.join:
        yield "ring.join", "there is nobody to join", "a member's HOST:PORT (--join), or found = true (--ring)"
    for key in ("join_seconds", "leave_seconds", "stabilise_every", "check_tree_every"):
        if not SECONDS_MIN <= getattr(settings, key) <= SECONDS_MAX:
            yield f"ring.{key}", f"{getattr(settings, key):g} seconds", f"{SECONDS_MIN:g} to {SECONDS_MAX:g}"
    try:
        _ = settings.config
    except RingError as error:
        yield "ring", str(error), "the same bits and degree as the other members have"
