"""Every interleaving of up to six payloads with one or two cuts, crashes or rebirths (`every_order.py`)."""

from __future__ import annotations

import pytest

from support.links.every_order import Search
from support.thorough import FACTOR

CUTS = ("cut", "crash a", "crash b")
REBIRTHS = ("cut", "reborn a", "reborn b")
MIXED = ("cut", "crash a", "reborn b")  # a has a disk, b has none
CASES = [
    ((3, 3), CUTS, 2),
    ((4, 2), CUTS, 2),
    ((5, 1), CUTS, 2),
    ((6, 0), CUTS, 2),
    ((2, 1), REBIRTHS, 2),
    ((1, 1), REBIRTHS, 3),
    ((2, 2), MIXED, 2),
]
LONGER = [((3, 3), CUTS, 4), ((3, 3), MIXED, 2), ((2, 2), REBIRTHS, 3)]


@pytest.mark.parametrize(("payloads", "faults", "faults_max"), CASES + (LONGER if FACTOR > 1 else []))
def test_whatever_the_order_all_that_is_owed_comes_once_and_no_connection_is_ended(payloads, faults, faults_max):
    search = Search(payloads, faults, faults_max)
    states = search.run()
    assert not search.problems, search.problems[0]
    assert states > 1_000
    assert search.ends > faults_max  # with each number of faults that is left
