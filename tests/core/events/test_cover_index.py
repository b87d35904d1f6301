"""The cover index answers what a scan with the algebra answers, after every history of changes."""

from __future__ import annotations

from random import Random

import pytest

from pleach.core.events.algebra import covers, overlaps
from pleach.core.events.constraint import ANY, Conjunction, Constraint, Pattern, PatternShape, TypeConstraint
from pleach.core.events.cover_index import CoverIndex
from pleach.core.events.filter import Filter
from pleach.core.events.index import column, grid
from pleach.core.events.ranges import NOTHING, above, below, point
from support.events.random_filters import random_conjunction, random_filter
from support.thorough import FACTOR

TRUE = Filter([Conjunction({})])
FALSE = Filter([])


def number(**ranges) -> Filter:
    return Filter([Conjunction({name: Constraint(TypeConstraint.NUMBER, value) for name, value in ranges.items()})])


def text(constraint: Constraint) -> Filter:
    return Filter([Conjunction({"x": constraint})])


@pytest.fixture(params=["limits as they are", "small limits"])
def limits(request, monkeypatch):
    if request.param == "small limits":
        monkeypatch.setattr(grid, "GRID_ENTRIES_MAX", 8)
        monkeypatch.setattr(grid, "GRID_SLOTS_MIN", 4)
        monkeypatch.setattr(column, "BUCKETS_MAX", 3)


def check(index: CoverIndex, members: dict[Filter, None], probe: Filter) -> int:
    """Compare all answers with a scan; returns how many members answered, so that callers know it meant something."""
    others = [member for member in members if member != probe]
    covering = [member for member in others if covers(member, probe)]
    assert index.covering(probe) == covering
    assert (index.any_covering(probe) in covering) if covering else index.any_covering(probe) is None
    covered = [member for member in others if covers(probe, member)]
    assert index.covered(probe) == covered
    overlapping = [member for member in others if overlaps(member, probe)]
    assert index.overlapping(probe) == overlapping
    assert (index.any_overlapping(probe) in overlapping) if overlapping else index.any_overlapping(probe) is None
    assert len(index) == len(members)
    return len(covering) + len(covered)


def one_conjunction(random: Random) -> Filter:
    return Filter([random_conjunction(random)])


@pytest.mark.parametrize("draw", [one_conjunction, random_filter])
@pytest.mark.parametrize("seed", range(2 * FACTOR))
def test_equals_a_scan_through_churn(limits, draw, seed):
    random = Random(seed)
    index, members = CoverIndex(), {}
    answers = 0
    for _ in range(120):
        for _ in range(random.randrange(4)):
            changed = draw(random)
            if random.random() < 0.75 or not members:
                index.add(changed)
                members.setdefault(changed)
            else:
                changed = random.choice(list(members))
                index.remove(changed)
                del members[changed]
        probe = draw(random) if random.random() < 0.7 or not members else random.choice(list(members))
        answers += check(index, members, probe)
    assert answers > 200


def test_the_filter_itself_is_never_an_answer():
    wanted = number(x=point(1))
    index = CoverIndex()
    index.add(wanted)
    assert wanted in index
    assert index.covering(wanted) == index.covered(wanted) == index.overlapping(wanted) == []
    assert index.any_covering(wanted) is None


def test_answers_come_in_the_order_of_insertion():
    bounds = [5, 1, 4, 2, 3]
    members = [number(x=above(bound, inclusive=True)) for bound in bounds]
    index = CoverIndex()
    for member in members:
        index.add(member)
    index.remove(members[0])
    index.add(members[0])
    assert index.covering(number(x=point(9))) == [*members[1:], members[0]]


def test_adding_twice_is_adding_once_and_removing_a_stranger_changes_nothing():
    index = CoverIndex()
    index.add(TRUE)
    index.add(TRUE)
    index.remove(number(x=point(1)))
    assert len(index) == 1
    index.remove(TRUE)
    assert len(index) == 0


def test_everything_covers_what_matches_nothing():
    void = number(x=NOTHING)
    index = CoverIndex()
    for member in (FALSE, void, number(y=point(1))):
        index.add(member)
    assert index.covered(number(z=point(1))) == [FALSE, void]
    assert index.covering(void) == [FALSE, number(y=point(1))]
    assert index.overlapping(void) == []
    index.remove(FALSE)
    assert index.covered(TRUE) == [void, number(y=point(1))]


def test_several_conjunctions_cover_together_what_none_covers_alone():
    halves = Filter(
        [
            *number(x=below(5, inclusive=False)).conjunctions,
            *number(x=above(5, inclusive=True)).conjunctions,
        ]
    )
    middle = number(x=above(4, inclusive=True))
    assert covers(halves, middle)
    points = [number(x=point(value)) for value in (3, 4, 5, 6)]  # so that buckets are fine
    index = CoverIndex([*points, halves])
    assert index.covering(middle) == [halves]
    index = CoverIndex([*points, middle])
    assert index.covered(halves) == [*points, middle]


def test_patterns_may_confine_what_ranges_leave_open():
    """'b' is in the range x <= 'b' and does not end on 'a'."""
    ends_on_a = (Pattern(PatternShape.SUFFIX, "a"),)
    patterned = text(Constraint(TypeConstraint.STRING, below("b", inclusive=True), ends_on_a))
    plain = text(Constraint(TypeConstraint.STRING, below("b", inclusive=False)))
    assert covers(plain, patterned)
    assert CoverIndex([patterned]).covered(plain) == [patterned]
    assert CoverIndex([plain]).covering(patterned) == [plain]


def test_any_covers_every_kind_but_not_absence():
    anything = Filter([Conjunction({"x": ANY})])
    index = CoverIndex()
    index.add(anything)
    assert index.covering(number(x=point(1))) == [anything]
    assert index.covering(TRUE) == []
    index.add(number(x=point(1)))
    assert index.covered(anything) == [number(x=point(1))]


def test_many_members_of_one_shape():
    """Hundreds of intervals over one attribute: buckets are coarse, answers exact."""
    index = CoverIndex()
    members = [number(x=above(bound, inclusive=bound % 2 == 0)) for bound in range(600)]
    for member in members:
        index.add(member)
    probe = number(x=point(300))
    assert index.covering(probe) == members[:301]  # x >= 300 holds the point, x > 301 and beyond do not
    assert index.covered(number(x=above(590, inclusive=True))) == members[591:]


def test_members_given_at_once_are_as_good_as_added():
    random = Random(3)
    members = dict.fromkeys(random_filter(random) for _ in range(150))
    index = CoverIndex(members)
    for probe in [random_filter(random) for _ in range(30)]:
        check(index, members, probe)
    for member in list(members)[:140]:
        index.remove(member)
        del members[member]
    check(index, members, random_filter(random))
