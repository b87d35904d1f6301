"""[relay] of a broker's settings: whether it passes on connections of others, and asks others to pass on its own."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

SECONDS_MIN, SECONDS_MAX = 0.1, 3_600.0
TUNNELS_MAX = 10_000


class RelaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Mostly the same for all brokers of a network."""

    down_seconds: float = 1.0  # seconds without a neighbour after which others are asked to pass its connection on
    replace_seconds: float = 30.0  # after which a relayed link becomes one of the relay; 0: never
    tunnels: int = 64  # that this broker passes on at once for others; 0: none
    idle_seconds: float = 60.0  # seconds after which one is ended that carries nothing; a few heartbeats at least


def relay_complaints(settings: RelaySettings) -> Iterator[tuple[str, str, str]]:
    """(key, reason, remedy) of what is wrong with the settings."""
    for key in ("down_seconds", "idle_seconds"):
        value = getattr(settings, key)
        if not SECONDS_MIN <= value <= SECONDS_MAX:
            yield f"relay.{key}", f"{value:g} seconds", f"{SECONDS_MIN:g} to {SECONDS_MAX:g}"
    if not 0.0 <= settings.replace_seconds <= SECONDS_MAX:
        yield "relay.replace_seconds", f"{settings.replace_seconds:g} seconds", f"0 to {SECONDS_MAX:g}"
    if not 0 <= settings.tunnels <= TUNNELS_MAX:
        yield "relay.tunnels", f"{settings.tunnels} tunnels", f"0 to {TUNNELS_MAX:,}"
