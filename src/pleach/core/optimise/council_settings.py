"""Settings of brokers that improve their tree among themselves: [improve] of settings and scenarios."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pleach.core.messages.council import RADIUS_MAX
from pleach.core.optimise.improvement import DEGREE_MAX, SAVING_MIN

RADIUS_MIN = 2  # hops; nearer brokers are neighbours
EVERY_SECONDS_MIN, EVERY_SECONDS_MAX = 0.2, 3_600.0
WINDOW_ROUNDS_MIN = 2.0
DEGREE_MIN, DEGREE_LIMIT = 2, 1_000
ACTIONS_LIMIT = 1_000


class CouncilSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same at all brokers of a network."""

    every: float = 2.0  # seconds between bulletins; up to eight times that at rest
    window: float = 20.0  # seconds of traffic that a decision considers, at most
    radius: int = RADIUS_MAX  # hops of a bulletin
    saving_min: float = SAVING_MIN  # share of the cost of a cycle that an exchange must save
    degree_max: int = DEGREE_MAX  # neighbours that no exchange exceeds; a broker with more keeps them
    actions_per_minute_max: int = 6  # exchanges that a broker takes part in
    dry_run: bool = False  # decide and report, but do not change the tree


def council_complaints(settings: CouncilSettings) -> Iterator[tuple[str, str, str]]:
    """(key, reason, remedy) of values out of range."""
    every, least = settings.every, WINDOW_ROUNDS_MIN * settings.every
    if not EVERY_SECONDS_MIN <= every <= EVERY_SECONDS_MAX:
        yield "every", f"{every:g} seconds", f"{EVERY_SECONDS_MIN:g} to {EVERY_SECONDS_MAX:g}"
    if not least <= settings.window <= EVERY_SECONDS_MAX:
        yield "window", f"{settings.window:g} seconds", f"{least:g} (twice `every`) to {EVERY_SECONDS_MAX:g}"
    if not RADIUS_MIN <= settings.radius <= RADIUS_MAX:
        yield "radius", f"{settings.radius} hops", f"{RADIUS_MIN} to {RADIUS_MAX}"
    if not 0.0 <= settings.saving_min < 1.0:
        yield "saving_min", f"{settings.saving_min:g} is no share", "0 or more, and less than 1"
    if not DEGREE_MIN <= settings.degree_max <= DEGREE_LIMIT:
        yield "degree_max", f"{settings.degree_max} neighbours", f"{DEGREE_MIN} to {DEGREE_LIMIT:,}"
    if not 1 <= settings.actions_per_minute_max <= ACTIONS_LIMIT:
        yield "actions_per_minute_max", f"{settings.actions_per_minute_max} exchanges", f"1 to {ACTIONS_LIMIT:,}"
