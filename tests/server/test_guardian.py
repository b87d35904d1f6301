"""Who starts a stand-in, and who does not."""

import msgspec
import pytest

from pleach.server.healing.guardian import Opinion, why_not

AFTER = 10.0
SILENT = Opinion("b", linked=True, up=False, silent_seconds=11.0, epoch=7, guards=True, on_leave=False)


def said(name, **changes):
    return msgspec.structs.replace(SILENT, name=name, **changes)


def refusal(*others, own=SILENT, hears=True, ordered=False):
    return why_not("x", own, {each.name: each for each in others}, AFTER, hears_others=hears, is_ordered=ordered)


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ([said("c", up=True)], "c has heard of x lately"),
        ([said("c", silent_seconds=9.0)], "c has heard of x lately"),
        ([said("c", epoch=8)], "c knows a newer x"),
        ([said("c", linked=False)], "c says that it is no neighbour of x"),
        ([said("c", on_leave=True)], "x has said goodbye to c, and comes back"),
        ([said("a")], "a sees to it"),
    ],
)
def test_whoever_knows_better_has_the_last_word(others, reason):
    assert refusal(*others) == reason


def test_the_first_by_name_of_those_who_answer_and_guard_starts_it():
    assert refusal(said("c"), said("d")) == ""
    assert refusal(said("a", guards=False), said("c")) == ""


def test_whoever_hears_nobody_may_be_cut_off_and_starts_none():
    assert "may be cut off" in refusal(hears=False)
    assert refusal(hears=True) == ""  # a leaf, of which nobody else could know


def test_an_operator_decides_unless_somebody_hears_it():
    assert refusal(own=said("b", silent_seconds=0.1, on_leave=True), hears=False, ordered=True) == ""
    assert refusal(said("a"), ordered=True) == ""
    assert refusal(said("c", up=True), ordered=True) == "c has heard of x lately"
