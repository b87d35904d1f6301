"""Who should be in a view (composition.py), and how far copies have come (leadership.py)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.standby.composition import COPIES_MIN, Availability, Candidate, composed, missing
from pleach.core.standby.leadership import NOT_CAUGHT_UP, Leadership
from pleach.core.standby.positions import Position
from pleach.core.standby.views import View

VIEW = View("b", 1, ("p", "s"), ("w",), dict.fromkeys("psw", ""))


def available(live, whole="p", candidates="swxy", copies=2, stalled=""):
    return Availability(live, whole, [Candidate(each, "") for each in candidates], copies, stalled)


@pytest.mark.parametrize(
    ("known", "learners", "copies", "witnesses"),
    [
        pytest.param(available("psw", "ps"), "", "ps", "w", id="all is well"),
        pytest.param(available("pw"), "", "ps", "w", id="the standby is silent, and nobody has its data"),
        pytest.param(available("pw", "pw"), "w", "pw", "s", id="the witness has it, and nobody else is there to vote"),
        pytest.param(available("pwx", "pw"), "w", "pw", "x", id="the witness has it, and another one can vote"),
        pytest.param(available("pwx", "px"), "x", "px", "w", id="another machine has it"),
        pytest.param(available("psx", "ps"), "", "ps", "x", id="the witness is silent"),
        pytest.param(available("ps", "ps"), "", "ps", "w", id="the witness is silent, and nobody else is there"),
        pytest.param(available("psw", "ps", stalled="s"), "", "ps", "w", id="the standby is stalled"),
        pytest.param(available("psw", "pw", stalled="s"), "w", "pw", "s", id="stalled, and the witness has its data"),
        pytest.param(available("pswx", "ps", candidates="xy"), "", "ps", "x", id="neither is a candidate any more"),
        pytest.param(available("pswx", "psx", candidates="xy"), "x", "px", "w", id="the same, and another has all"),
        pytest.param(available("psw", "ps", candidates=""), "", "ps", "w", id="candidates are not known"),
        pytest.param(available("pswxy", "psw", copies=3), "w", "psw", "xy", id="three copies are wanted"),
    ],
)
def test_the_view_that_should_follow(known, learners, copies, witnesses):
    wanted = composed(VIEW, known, learners)
    assert (wanted.copies, wanted.witnesses) == (tuple(copies), tuple(witnesses))
    assert wanted.number == 2
    assert VIEW.is_like(wanted) == (copies == "ps" and witnesses == "w")


def test_of_three_copies_a_silent_one_goes_at_once():
    view = View("b", 1, ("p", "s", "t"), ("v", "w"))
    wanted = composed(view, available("psvw", "ps", "stvw", copies=3), "")
    assert wanted.copies == ("p", "s")
    assert wanted.witnesses == ("t", "v", "w")


def test_a_view_of_one_copy_waits_for_a_second_one():
    alone = View("b", 1, ("p",), (), {"p": ""})
    assert alone.is_like(composed(alone, available("pxy", "p"), "x"))
    assert composed(alone, available("pxy", "px"), "x").members == ("p", "x", "y")


@pytest.mark.parametrize(
    ("known", "learners", "filled"),
    [
        pytest.param(available("psw", "ps"), "", "", id="enough copies"),
        pytest.param(available("pwxy"), "", "w", id="the best candidate that answers"),
        pytest.param(available("pwxy"), "x", "x", id="who is being filled goes on"),
        pytest.param(available("pwxy", stalled="x"), "x", "w", id="unless it is stalled"),
        pytest.param(available("px", stalled="x"), "x", "x", id="and nobody else answers"),
        pytest.param(available("psw", "ps", stalled="s"), "", "w", id="beside a standby that is stalled"),
        pytest.param(available("psw", "ps", candidates="wx"), "", "w", id="for a standby that is unfit"),
        pytest.param(available("pwxy", copies=3), "", "wx", id="two for three copies"),
    ],
)
def test_who_is_filled(known, learners, filled):
    assert missing(VIEW, known, learners) == [*filled]


machines = st.sampled_from([*"pswtxyz"])


@given(
    st.lists(machines, min_size=1, max_size=5, unique=True),
    st.integers(1, 3),
    st.sets(machines),
    st.sets(machines),
    st.lists(machines, unique=True),
    st.lists(machines, max_size=2, unique=True),
    st.integers(2, 3),
    st.sets(machines),
)
def test_whoever_is_there_the_view_may_follow_and_its_copies_have_everything(
    members, split, live, whole, candidates, learners, copies, stalled
):
    view = View("b", 1, tuple(members[:split]), tuple(members[split:]), dict.fromkeys(members, ""))
    primary = view.primary
    known = available({*live, primary}, {*whole, primary}, candidates, copies, stalled - {primary})
    learners = [each for each in learners if each not in view.copies and each in candidates]
    wanted = composed(view, known, learners)
    assert wanted.may_follow(view)
    assert wanted.primary == primary
    assert {*wanted.copies} <= {*view.copies} | ({*whole} & {*learners} & {*live}) | {primary}
    assert len(wanted.copies) >= min(COPIES_MIN, len(view.copies))
    later = composed(wanted, known, learners)  # copies that are no candidates any more come last
    assert later.is_like(composed(later, known, learners))


# Leadership ------------------------------------------------------------------------------------------------------


def test_only_positions_of_this_history_count():
    leadership = Leadership.begin(Position(1, 4), run=2)
    reached = {Position(1, 4): 4, Position(2, 7): 7, Position(1, 3): -1, Position(1, 5): -1, Position(3, 4): -1}
    for position, number in reached.items():
        leadership.acknowledged["s"] = position
        assert leadership.reached("s") == number
    assert leadership.reached("t") == NOT_CAUGHT_UP


def test_whole_is_who_has_all_that_was_confirmed_and_all_of_the_base_is():
    leadership = Leadership.begin(Position(1, 4), run=2)
    leadership.acknowledged |= {"s": Position(2, 6), "t": Position(1, 4)}
    assert leadership.is_whole("s")
    assert leadership.is_whole("t")
    leadership.wrote(Position(1, 4), Position(2, 5))
    leadership.wrote(Position(2, 5), Position(2, 6))
    assert leadership.reached_by_all(["s"]) == 6
    assert leadership.reached_by_all(["s", "t"]) == 4
    leadership.confirmed = 5
    assert not leadership.is_whole("t")
    leadership.view_installed()
    assert not leadership.is_whole("s")


BEFORE = View("b", 3, ("p", "s"), ("w",), dict.fromkeys("psw", ""))


@pytest.mark.parametrize(
    ("view", "may"),
    [
        (View("b", 4, ("p", "x"), ("w",)), True),
        (View("b", 4, ("s", "p"), ("w",)), True),
        (View("b", 5, ("p", "x"), ("w",)), False),  # one was left out
        (View("b", 3, ("p", "x"), ("w",)), False),
        (View("c", 4, ("p", "s"), ("w",)), False),
        (View("b", 4, ("p", "p"), ("w",)), False),  # a machine twice
        (View("b", 4, ("x", "p"), ("w",)), False),  # a stranger as the primary
        (View("b", 4, ("s", "x"), ("w",)), False),  # a promotion changes nothing else
        (View("b", 4, ("s", "p"), ("x",)), False),
    ],
)
def test_a_view_follows_on_the_one_before_it_only(view, may):
    assert view.may_follow(BEFORE) is may
