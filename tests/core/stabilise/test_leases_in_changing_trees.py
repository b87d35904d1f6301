"""Leases while the tree changes: nothing is lost, doubled or out of order, and nothing runs out that is still wanted.

The networks are those of tests/core/overlay: swaps, exchanges, brokers that come, go, and crash for up to a second.
"""

from __future__ import annotations

import msgspec
import pytest

from pleach.scenario.model import Stabilise, Stabiliser
from support.overlay.changing_trees import SETTINGS, under, upheaval
from support.overlay.judgement import Watched, violations
from support.thorough import FACTOR

LEASES = Stabilise(kind=Stabiliser.LEASES, refresh=0.5, period=3.0)  # an absence of 2.5 s is none


@pytest.mark.parametrize("seed", range(8 * FACTOR))
def test_leases_and_reconfigurations_do_not_disturb_each_other(seed):
    scenario = under(upheaval(seed), SETTINGS[7 * seed % len(SETTINGS)], "swaplink")
    watched = Watched(msgspec.structs.replace(scenario, stabilise=LEASES), seed)
    verdict = watched.finish()
    assert not [*watched.flaws, *violations(verdict)]
    assert not [record for record in watched.run.recorder.records if "ran out" in record.detail]
    assert watched.drains
