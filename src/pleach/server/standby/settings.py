"""[standby] of a broker's settings: where copies of its data directory are, and when one of them takes its place."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pleach.core.standby.member import StandbyConfig

AFTER_SECONDS = 1.0
SECONDS_MIN, SECONDS_MAX = 0.1, 3_600.0
COPIES = (2, 3)


class StandbySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mostly the same for all brokers of a network."""

    after: float = AFTER_SECONDS  # seconds of silence after which a broker counts as dead, and a copy takes its place
    copies: int = 2  # the broker's own among them: as many but one may be lost at once
    at: tuple[str, ...] = ()  # HOST:PORT of brokers or `pleach standby`, for copies; empty: the broker chooses

    @property
    def config(self) -> StandbyConfig:
        return StandbyConfig(self.after, self.copies)


def standby_complaints(settings: StandbySettings, data_dir: str) -> Iterator[tuple[str, str, str]]:
    """(key, reason, remedy) of what is wrong with the settings."""
    if not data_dir:
        remedy = "give data_dir (--data-dir), or standby = false (--without standby)"
        yield "standby", "a broker in memory only has nothing to copy", remedy
    if not SECONDS_MIN <= settings.after <= SECONDS_MAX:
        yield "standby.after", f"{settings.after:g} seconds", f"{SECONDS_MIN:g} to {SECONDS_MAX:g}"
    if settings.copies not in COPIES:
        yield "standby.copies", f"{settings.copies} copies", f"one of {', '.join(map(str, COPIES))}"
