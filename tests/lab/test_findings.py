"""Findings follow from conditions that have names; one that says no without saying of what cannot be made."""

import pytest

from pleach.errors import ExperimentError
from pleach.lab.findings import NEGATIVE, Condition, Finding, Status, aimed, judged

YES, NO, UNTOLD = Condition("all is well", True), Condition("it grows", False), Condition("it rests", None)


@pytest.mark.parametrize("status", sorted(NEGATIVE))
def test_a_no_without_a_reason_cannot_be_built(status):
    with pytest.raises(ExperimentError, match="has to name the condition"):
        Finding(status, "Something is off.")


@pytest.mark.parametrize("status", sorted({*Status} - NEGATIVE))
def test_anything_else_can(status):
    assert Finding(status, "So it is.").measured == "So it is."


@pytest.mark.parametrize(
    ("core", "besides", "status"),
    [
        ([], [], Status.REPRODUCED),
        ([YES], [YES], Status.REPRODUCED),
        ([YES], [YES, NO], Status.DIFFERS),
        ([NO, UNTOLD], [YES], Status.REFUTED),
        ([NO], [NO], Status.REFUTED),
        ([UNTOLD], [NO], Status.OPEN),
        ([YES], [UNTOLD], Status.OPEN),
        ([YES], [UNTOLD, NO], Status.DIFFERS),
    ],
)
def test_the_status_follows_from_the_conditions(core, besides, status):
    assert judged("So it is.", core=core, besides=besides).status is status


@pytest.mark.parametrize(
    ("wanted", "status"), [([YES], Status.MET), ([YES, UNTOLD], Status.OPEN), ([UNTOLD, NO], Status.NOT_MET)]
)
def test_goals_are_met_or_not(wanted, status):
    assert aimed("So it is.", *wanted).status is status


def test_the_sentence_names_what_fails_and_nothing_else():
    other = Condition("it is flat", False)
    assert judged("9 ms.", besides=[NO, YES, other]).measured == "9 ms. Differs in: it grows; it is flat."
    assert judged("9 ms.", core=[NO], besides=[other]).measured == "9 ms. Not so: it grows."
    assert judged("9 ms.", core=[UNTOLD, UNTOLD]).measured == "9 ms. Cannot be told: it rests."
    assert aimed("9 ms.", NO).measured == "9 ms. Not met: it grows."
