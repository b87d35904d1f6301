"""What was lost with brokers that never returned, told from what was lost by us."""

import pytest

from pleach.trace.broker_losses import DIED, GIVEN_UP, HELD, linked_when_died, without_departed
from pleach.trace.records import Record, RecordKind
from pleach.trace.verdict import Counts, Ordering, Rule, Verdict, VerdictOutcome, Violation

EVENT = "p/0/1"
TREE = (("x", "y"), ("y", "w"), ("c", "w"), ("x", "z"), ("d", "z"), ("l", "x"))  # c is two hops behind y, l at x


def record(kind, node, detail, peer="", event=EVENT):
    return Record("run", 1.0, node, 1, kind, event=event, peer=peer, detail=detail)


LINKS = [record(RecordKind.STATE, a, linked_when_died("x"), b, event="") for a, b in TREE]
HELD_FOR_X = record(RecordKind.STATE, "n", HELD, "x")
GIVEN_UP_AT_X = record(RecordKind.STATE, "x", f"{GIVEN_UP}: it would come after answers to it")


def died(x="x", y="y"):
    return record(RecordKind.FAULT, x, DIED, y)


def lost(client="c", rule=Rule.LOST, event=EVENT):
    return Violation(rule, client, event, "why", 0, 1.0)


def judged(records, violation):
    return without_departed([*LINKS, *records], Verdict("run", Ordering.CAUSAL, violations=(violation,)))


@pytest.mark.parametrize(
    ("records", "violation", "reason"),
    [
        pytest.param([died()], lost(), "it sat solely on broker x, which never returned", id="nobody else had it"),
        pytest.param(
            [died(), HELD_FOR_X, died()],
            lost(),
            "it sat solely on broker x, which never returned",
            id="its stand-in died",
        ),
        pytest.param([died(y="l")], lost("l"), "it sat solely on broker x, which never returned", id="x's own client"),
        pytest.param(
            [died(), HELD_FOR_X, GIVEN_UP_AT_X], lost(), "given up for the sake of order when broker x died", id="order"
        ),
    ],
)
def test_losses_with_a_broker_are_set_apart(records, violation, reason):
    verdict = judged(records, violation)
    assert [each.reason for each in verdict.departed] == [reason]
    assert verdict.outcome is VerdictOutcome.CLEAN
    assert verdict.counts == Counts(departed=1)


@pytest.mark.parametrize(
    ("records", "violation"),
    [
        pytest.param([], lost(), id="no copy died"),
        pytest.param([died(y="z")], lost(), id="the copy that died was for others"),
        pytest.param([died(y="l")], lost(), id="the copy that died was for a client"),
        pytest.param([died()], lost(event="p/0/2"), id="a copy of another event died"),
        pytest.param([died(), HELD_FOR_X, died(y="z")], lost(), id="held, and a later copy died for others"),
        pytest.param([died()], lost(rule=Rule.DUPLICATE), id="deaths excuse no duplicates"),
        pytest.param([died()], lost(rule=Rule.CAUSAL), id="nor disorder"),
        pytest.param([died(), HELD_FOR_X], lost(), id="a neighbour still had it"),
        pytest.param([GIVEN_UP_AT_X], lost(), id="given up, though no copy died"),
    ],
)
def test_all_other_violations_stay(records, violation):
    verdict = judged(records, violation)
    assert verdict.violations == (violation,)
    assert verdict.departed == ()
    assert verdict.outcome is VerdictOutcome.VIOLATED
