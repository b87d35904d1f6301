"""How brokers go about it that improve their tree among themselves: [improve] of settings and scenarios."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pleach.core.messages.council import RADIUS_MAX
from pleach.core.optimise.improvement import DEGREE_MAX, SAVING_MIN

RADIUS_MIN = 2  # hops: who is nearer is a neighbour
EVERY_SECONDS_MIN, EVERY_SECONDS_MAX = 0.2, 3_600.0
WINDOW_ROUNDS_MIN = 2.0
DEGREE_MIN, DEGREE_LIMIT = 2, 1_000
ACTIONS_LIMIT = 1_000


class CouncilSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same for all brokers of a network."""

    every: float = 2.0  # seconds between bulletins, where something is going on; up to eight times that at rest
    window: float = 20.0  # seconds of traffic that a decision goes by, at most
    radius: int = RADIUS_MAX  # hops that a bulletin goes, and so how far a broker looks
    saving_min: float = SAVING_MIN  # share of what the events of a cycle cost that an exchange must save
    degree_max: int = DEGREE_MAX  # neighbours that no exchange exceeds; a broker that has more keeps them
    actions_per_minute_max: int = 6  # exchanges that a broker takes part in before it refuses more
    dry_run: bool = False  # decide, say so, and leave the tree as it is


def council_complaints(conduct: CouncilSettings) -> Iterator[tuple[str, str, str]]:
    """(key, reason, remedy) of what is wrong although its type is right."""
    every, least = conduct.every, WINDOW_ROUNDS_MIN * conduct.every
    if not EVERY_SECONDS_MIN <= every <= EVERY_SECONDS_MAX:
        yield "every", f"{every:g} seconds", f"{EVERY_SECONDS_MIN:g} to {EVERY_SECONDS_MAX:g}"
    if not least <= conduct.window <= EVERY_SECONDS_MAX:
        yield "window", f"{conduct.window:g} seconds", f"{least:g} (twice `every`) to {EVERY_SECONDS_MAX:g}"
    if not RADIUS_MIN <= conduct.radius <= RADIUS_MAX:
        yield "radius", f"{conduct.radius} hops", f"{RADIUS_MIN} to {RADIUS_MAX}"
    if not 0.0 <= conduct.saving_min < 1.0:
        yield "saving_min", f"{conduct.saving_min:g} is no share", "0 or more, and less than 1"
    if not DEGREE_MIN <= conduct.degree_max <= DEGREE_LIMIT:
        yield "degree_max", f"{conduct.degree_max} neighbours", f"{DEGREE_MIN} to {DEGREE_LIMIT:,}"
    if not 1 <= conduct.actions_per_minute_max <= ACTIONS_LIMIT:
        yield "actions_per_minute_max", f"{conduct.actions_per_minute_max} exchanges", f"1 to {ACTIONS_LIMIT:,}"
