"""Which exchange a broker asks for that has decided on one: what `core/overlay/choice.py` recommends, or nothing."""

import pytest

from pleach.core.messages import RequestExchange, RequestSwap
from pleach.core.messages.council import RADIUS_MAX
from pleach.core.optimise.improvement import ImproveVerdict
from pleach.core.optimise.motions import MotionJudgement, request_for
from pleach.core.overlay.choice import AT_ONCE, BY_SWAPS, CAUSAL_BROKERS_MAX, Circumstances, recommended

WHERE = [
    Circumstances("none"),
    Circumstances("fifo"),
    Circumstances("causal"),
    Circumstances("causal", is_hierarchical=True),
]
CAUSAL = Circumstances("causal")


def decided(brokers, place):
    """For a link between the ends of a way of so many, instead of that behind `place`."""
    return MotionJudgement(ImproveVerdict.IMPROVE, tuple("abcdefgh"[:brokers]), place)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("brokers", range(4, 9))
def test_what_is_recommended_for_the_cycle_is_asked_for_and_nothing_else(brokers, where):
    for place in range(brokers - 1):
        request = request_for(decided(brokers, place), "o", where)
        if recommended(brokers, where).protocol == BY_SWAPS:
            assert request is None
        else:
            way = list("abcdefgh"[:brokers])[::-1]
            assert request == RequestExchange("o", way, brokers - 2 - place, AT_ONCE, is_patient=False)


@pytest.mark.parametrize("where", WHERE)
def test_one_swap_that_begins_at_who_decided(where):
    assert request_for(decided(3, 1), "o", where) == RequestSwap("o", "c", "b", "a", is_patient=False)


@pytest.mark.parametrize("where", WHERE)
def test_one_swap_that_would_begin_elsewhere_is_done_at_once_or_not_at_all(where):
    asked = request_for(decided(3, 0), "o", where)
    at_once = RequestExchange("o", ["c", "b", "a"], 1, AT_ONCE, is_patient=False)
    assert asked == (None if where.is_hierarchical else at_once)


def test_nobody_looks_farther_than_links_are_exchanged_at_once():
    """So a council finds nothing that it could not ask for."""
    assert RADIUS_MAX + 1 <= CAUSAL_BROKERS_MAX
    assert request_for(decided(RADIUS_MAX + 1, 0), "o", CAUSAL) is not None
