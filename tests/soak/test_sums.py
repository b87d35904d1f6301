"""Running sums of a soak: what they tell is compared with what was published."""

import pytest

from pleach.core.events.event import EventId
from pleach.soak.sums import SumAudit


def of(sequence):
    return EventId("p", 0, sequence)


def heard(*sums, published=0, failed=()):
    """What is wrong with (count, sequence) after each, and at the end."""
    audit = SumAudit("k", published=published)
    for sequence in failed:
        audit.failed_to_publish(sequence)
    found = [audit.heard(count, of(sequence)) for count, sequence in sums]
    return [reason for reason in (*found, audit.missing()) if reason]


def test_each_event_once_and_in_order_is_right():
    assert heard((1, 1), (2, 2), (3, 3), published=3) == []


def test_what_could_not_be_published_is_not_summed():
    assert heard((1, 1), (2, 4), published=5, failed=(2, 3, 5)) == []


@pytest.mark.parametrize(
    ("sums", "reason"),
    [
        (((1, 1), (2, 3)), "1 events were not summed, the first of them 2"),
        (((1, 1), (2, 1)), "event p/0/1 was summed again"),
        (((1, 2), (2, 1)), "event p/0/1 was summed again, or out of order"),
        (((1, 1), (1, 2)), "sum 1 came, and 2 was next"),
        (((1, 1), (3, 2)), "sum 3 came, and 2 was next"),
    ],
)
def test_what_is_wrong_is_told(sums, reason):
    assert reason in heard(*sums)[0]


def test_that_a_publication_failed_may_be_known_only_later():
    audit = SumAudit("k")
    assert [audit.heard(1, of(1)), audit.heard(2, of(3))] == ["", ""]
    assert "the first of them 2" in audit.missing()
    audit.failed_to_publish(2)
    assert audit.missing() == ""


def test_what_had_failed_and_is_summed_is_told():
    (reason,) = heard((1, 1), (2, 2), published=2, failed=(2,))
    assert "event p/0/2 was summed, and its publication had failed" in reason


def test_what_is_missing_at_the_end_is_told():
    assert heard((1, 1), published=4) == ["component k: 3 events were not summed, the first of them 2"]
