"""Trees as the root knows them: what requests make of them, and which do not fit."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.messages import ParentChange, RequestAdd, RequestExchange, RequestRemove, RequestSwap
from pleach.core.overlay.coloured.trees import (
    NOBODY,
    exchanged,
    height,
    is_tree,
    moved,
    moves_between,
    requested,
    upwards,
    without,
)
from pleach.errors import TopologyError

#      r
#    a   b
#   c d   e
TREE = {"r": NOBODY, "a": "r", "b": "r", "c": "a", "d": "a", "e": "b"}


def links(tree):
    return {frozenset(pair) for pair in tree.items() if NOBODY not in pair}


@pytest.mark.parametrize(
    ("request_", "changed"),
    [
        (RequestSwap("1", "c", "a", "r"), {"c": "r"}),  # the end at a goes up
        (RequestSwap("1", "c", "a", "d"), {"c": "d"}),  # … and sideways
        (RequestSwap("1", "r", "a", "c"), {"c": "r", "a": "c"}),  # … and what hung on it turns round
        (RequestExchange("1", ["e", "r", "a", "d"], 1, ""), {"d": "e", "a": "d"}),
        (RequestExchange("1", ["b", "r", "a", "a"], 1, ""), {"a": "b"}),
        (RequestAdd("1", "e"), {"new": "e"}),
        (RequestRemove("1", "c"), {"c": None}),
        (RequestRemove("1", "a"), {"a": None, "c": "r", "d": "r"}),
    ],
)
def test_what_a_request_makes_of_a_tree(request_, changed):
    after = requested(TREE, "new", request_)
    expected = {name: parent for name, parent in {**TREE, **changed}.items() if parent is not None}
    assert after == expected
    assert is_tree(after, "r")


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (RequestSwap("1", "c", "a", "e"), "no link a–e"),
        (RequestSwap("1", "c", "b", "r"), "no link c–b"),
        (RequestSwap("1", "c", "a", "c"), "three brokers in a row"),
        (RequestExchange("1", ["c", "r", "a", "d"], 1, ""), "does not lie between"),
        (RequestExchange("1", ["c", "r", "a", "nobody"], 1, ""), "does not lie between"),
        (RequestExchange("1", ["c"], 0, ""), "no link after"),
        (RequestAdd("1", "nobody"), "not in the tree"),
        (RequestRemove("1", "nobody"), "not in the tree"),
        (RequestRemove("1", "r"), "is the root"),
    ],
)
def test_what_does_not_fit_is_refused(request_, says):
    with pytest.raises(TopologyError, match=says):
        requested(TREE, "new", request_)


def test_who_is_there_cannot_be_added():
    with pytest.raises(TopologyError, match="already"):
        requested(TREE, "c", RequestAdd("1", "e"))


def test_height_and_ways():
    assert height(TREE) == 2
    assert height({"r": NOBODY}) == 0
    assert upwards(TREE, "d") == ["d", "a", "r"]


@pytest.mark.parametrize("broken", [{"a": "c"}, {"b": "gone"}, {"e": NOBODY}, {"r": "e"}])
def test_what_is_no_tree_is_seen(broken):
    assert is_tree(TREE, "r")
    assert not is_tree({**TREE, **broken}, "r")
    assert height({**TREE, **broken}) >= 0, "even a cycle has an end"


@st.composite
def trees(draw):
    count = draw(st.integers(2, 9))
    tree = {"n0": NOBODY}
    for i in range(1, count):
        tree[f"n{i}"] = f"n{draw(st.integers(0, i - 1))}"
    return tree


@given(trees(), st.integers())
def test_an_exchange_leaves_a_tree_with_one_link_exchanged(tree, seed):
    stream = Random(seed)
    gone = stream.choice(sorted(map(sorted, links(tree))))
    below = next(end for end in gone if tree[end] in gone)
    inner = [name for name in tree if below in upwards(tree, name)]
    new = (stream.choice(inner), stream.choice([name for name in tree if name not in inner]))
    after = exchanged(tree, tuple(gone), new)
    assert is_tree(after, "n0")
    assert links(after) == links(tree) - {frozenset(gone)} | {frozenset(new)}


@given(trees(), trees())
def test_moves_lead_from_any_tree_to_any_other(before, after):
    moves = moves_between(before, after)
    assert moved(before, moves) == after
    assert {move.broker for move in moves if move.is_new} == {*after} - {*before}


def test_who_leaves_gets_no_parent():
    assert moves_between(TREE, without(TREE, "c")) == [ParentChange("c", NOBODY)]
