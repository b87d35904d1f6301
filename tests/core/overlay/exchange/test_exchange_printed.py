"""What S1 prints, on the networks on which the corrected protocol holds: each of its errors shows."""

from __future__ import annotations

import pytest

from pleach.core.overlay.registry import MISPRINTS, PRINTED
from pleach.scenario.model import Ordering
from pleach.trace import Rule
from support.overlay.exchange.exchange_networks import FLAT, exchanged, network
from support.thorough import FACTOR

SEEDS = 12 * FACTOR
UNENDED = "the run did not end quiet"
LOCKED = "still locked"

SHOWS = {  # what is found in at least one run
    PRINTED: {UNENDED},
    f"{PRINTED}-begin": {UNENDED},
    f"{PRINTED}-sender": {Rule.LOST},
    f"{PRINTED}-unlock": {LOCKED},
}


def found(seed, protocol):
    result = exchanged(network(seed, FLAT[seed % len(FLAT)], protocol, Ordering.CAUSAL), seed)
    flaws = {kind for kind in (UNENDED, LOCKED) if any(kind in flaw for flaw in result.flaws)}
    return flaws | set(result.broken)


@pytest.mark.parametrize("protocol", MISPRINTS)
def test_each_error_shows_in_seeded_runs_too(protocol):
    shown = set().union(*(found(seed, protocol) for seed in range(SEEDS)))
    assert SHOWS[protocol] <= shown
