"""When an exchange is worth it."""

import pytest

from pleach.core.optimise.cost import Costs
from pleach.core.optimise.ledger import Stretch
from pleach.core.optimise.settling import best_saving, worthwhile

PATH = ["a", "b", "c"]
COSTS = Costs({"a": 1.0, "b": 10.0, "c": 1.0}, {("a", "b"): 1.0, ("b", "c"): 1.0, ("a", "c"): 2.0})
PAST_B = frozenset({0, 2})  # from a to c: over b they cost 1 + 10 + 1 more, directly 2
TO_B = frozenset({1, 2})  # from c to b: 1 now, and over a 2 + 1 + 1


def test_what_passes_a_dear_broker_saves_it():
    saving = best_saving(PATH, [Stretch(PAST_B, 100.0)], COSTS)
    assert saving.exchange.add == ("a", "c")
    assert saving.exchange.gain == 100 * 10
    assert saving.chance == pytest.approx(10 * 10)


def test_what_others_lose_by_it_counts():
    """Without b–c those from c reach b over a; without a–b nothing changes for them."""
    saving = best_saving(PATH, [Stretch(PAST_B, 100.0), Stretch(TO_B, 1000.0)], COSTS)
    assert saving.exchange[:2] == (("a", "b"), ("a", "c"))
    assert saving.exchange.gain == 1000


def test_an_exchange_must_pay_for_itself():
    """Four times along the path: 4 · 14 = 56."""
    few = [Stretch(PAST_B, 5.0)]
    assert best_saving(PATH, few, COSTS).exchange.gain == 50
    assert worthwhile(PATH, few, COSTS) is None
    assert worthwhile(PATH, [Stretch(PAST_B, 12.0)], COSTS) is not None
    assert worthwhile(PATH, few, COSTS, one_in=16) is None  # five events are chance, whatever they stand for


def test_an_exchange_must_be_no_chance():
    """900 events gain 10, and others lose nearly as much: of 100 gained, chance alone would take 300 or so."""

    balanced = [Stretch(PAST_B, 910.0), Stretch(TO_B, 3_000.0), Stretch(frozenset({0, 1}), 3_000.0)]
    saving = best_saving(PATH, balanced, COSTS)
    assert 0 < saving.exchange.gain < 3 * saving.chance
    assert worthwhile(PATH, balanced, COSTS) is None


def test_much_traffic_is_reason_enough():
    assert worthwhile(PATH, [Stretch(PAST_B, 100.0)], COSTS) == ((("a", "b"), ("a", "c"), 1000.0))


def test_nothing_is_exchanged_for_no_traffic():
    assert worthwhile(PATH, [], COSTS) is None
