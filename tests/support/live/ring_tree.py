"""What the tree of a ring must be, by who sees everything; and waiting until brokers have come to it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence

from pleach.core.overlay.plans import Topology
from pleach.core.ring.keys import Circle
from pleach.core.ring.reference_tree import parents_of, reference_tree
from pleach.errors import SurveyError, TopologyError
from pleach.operate.survey import survey

CIRCLE = Circle(32)
# Flags of brokers whose tree is that of the ring.
RING_ONLY = ("--without=stabilise", "--without=standby", "--without=improve", "--without=relay")


def ring_tree(names: Iterable[str]) -> Topology:
    by_key = {CIRCLE.key_of(name): name for name in names}
    parents = parents_of(reference_tree(CIRCLE), by_key)
    return Topology.of([(by_key[child], by_key[parent]) for child, parent in parents.items()], by_key.values())


def root_of(names: Iterable[str]) -> str:
    by_key = {CIRCLE.key_of(name): name for name in names}
    (root,) = by_key.keys() - parents_of(reference_tree(CIRCLE), by_key).keys()
    return by_key[root]


async def until_followed(admins: Sequence[str], names: Iterable[str], seconds_max: float) -> float:
    """Until the brokers' links are those of the ring's tree, and all are up; returns how long it took."""
    wanted, started = ring_tree(names), time.monotonic()
    found = None
    while time.monotonic() - started < seconds_max:
        found = await survey(list(admins))
        with contextlib.suppress(SurveyError, TopologyError):
            if found.topology() == wanted and all(status.ready for status in found.found.values()):
                return time.monotonic() - started
        await asyncio.sleep(0.1)
    raise AssertionError(f"{wanted} is not there within {seconds_max} s: {found}")
