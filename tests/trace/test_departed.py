"""What was lost with brokers that never returned, told from what was lost by us."""

import pytest

from pleach.trace.departed import DIED, GIVEN_UP, HELD, set_apart
from pleach.trace.records import Record, RecordKind
from pleach.trace.verdict import Rule, Violation

EVENT = "p/0/1"


def record(kind, node, detail, peer="", event=EVENT):
    return Record("run", 1.0, node, 1, kind, event=event, peer=peer, detail=detail)


def died(x="x", y="y"):
    return record(RecordKind.FAULT, x, DIED, y)


def lost(client="c", rule=Rule.LOST, event=EVENT):
    return Violation(rule, client, event, "why", 0, 1.0)


def is_behind(x, y, client):
    """c is behind y, d behind z."""
    return x == "x" and (y, client) in {("y", "c"), ("z", "d")}


def parted(records, violation):
    departed = set_apart(records, [violation], is_behind)
    return next(name for name in departed._fields if getattr(departed, name))


HELD_FOR_X = record(RecordKind.STATE, "n", HELD, "x")
GIVEN_UP_AT_X = record(RecordKind.STATE, "x", f"{GIVEN_UP}: it would come after answers to it")


@pytest.mark.parametrize(
    ("records", "violation", "part"),
    [
        pytest.param([died()], lost(), "with_brokers", id="its copy died, and nobody else had it"),
        pytest.param([], lost(), "rest", id="no copy died"),
        pytest.param([died(y="z")], lost(), "rest", id="the copy that died was for others"),
        pytest.param([died()], lost(event="p/0/2"), "rest", id="a copy of another event died"),
        pytest.param([died()], lost(rule=Rule.DUPLICATE), "rest", id="deaths excuse no duplicates"),
        pytest.param([died(), HELD_FOR_X], lost(), "rest", id="a neighbour still had it"),
        pytest.param([died(), HELD_FOR_X, GIVEN_UP_AT_X], lost(), "for_order", id="it was given up for order"),
        pytest.param([GIVEN_UP_AT_X], lost(), "rest", id="given up, though no copy died"),
    ],
)
def test_losses_are_parted(records, violation, part):
    assert parted(records, violation) == part
