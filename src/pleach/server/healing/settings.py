"""[heal] of a broker's settings: when a dead neighbour gets a stand-in; and [stand_in]: that this broker is one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pleach.core.messages import Node

GRACE_SECONDS = 30.0
SECONDS_MIN, SECONDS_MAX = 0.1, 86_400.0


class HealSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same for all brokers of a network."""

    after: float  # seconds of silence after which a neighbour counts as dead for good
    grace: float = GRACE_SECONDS  # seconds for which a stand-in keeps what clients of the dead one wanted


class StandInSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Written by the guardian that starts a stand-in; not for operators."""

    epoch: int  # above any that the dead broker had
    towards_root: Node = ""  # the neighbour of the dead broker that is nearer to the root, if it had one
    beyond: dict[Node, list[str]] = {}  # per neighbour, where those answer who would know of a stand-in for it


def heal_complaints(settings: HealSettings, ordering: str, others: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """(key, reason, remedy) of what is wrong with the settings; `others`: tables that are there beside it."""
    for key, seconds in (("after", settings.after), ("grace", settings.grace)):
        if not SECONDS_MIN <= seconds <= SECONDS_MAX:
            yield f"heal.{key}", f"{seconds:g} seconds", f"{SECONDS_MIN:g} to {SECONDS_MAX:g}"
    if ordering == "none":
        yield "heal", "a network without order cannot heal", 'set ordering to "fifo" or "causal"'
    for other in others:
        yield "heal", f"[heal] and [{other}] do not know of each other", "leave one of them out"
