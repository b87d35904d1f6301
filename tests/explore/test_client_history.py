"""Which pasts are told apart, and which are one."""

import pytest

from pleach.core.effects import Observe, Observed
from pleach.core.events.event import Event, EventId
from pleach.explore.client_history import ClientHistories

E1, E2 = (Event(EventId("p", 0, n), {"price": 50 + n}) for n in (1, 2))
PUBLISH_1, PUBLISH_2 = (("p", Observe(Observed.PUBLISH, event=event)) for event in (E1, E2))
ACK_1 = ("p", Observe(Observed.PUBLISH_ACK, event_id=str(E1.id)))
FAIL_1 = ("p", Observe(Observed.PUBLISH_FAIL, event_id=str(E1.id)))
DELIVER_1, DELIVER_2 = (("s", Observe(Observed.DELIVER, event=event)) for event in (E1, E2))
SUBSCRIBE = ("s", Observe(Observed.SUBSCRIBE, subscription="s1", filter="price > 50"))
NARROW = ("s", Observe(Observed.SUBSCRIBE, subscription="s1", filter="price > 51"))
ACK = ("s", Observe(Observed.SUBSCRIBE_ACK, subscription="s1"))
UNSUBSCRIBE = ("s", Observe(Observed.UNSUBSCRIBE, subscription="s1"))
UNSUBSCRIBED = ("s", Observe(Observed.UNSUBSCRIBE_ACK, subscription="s1"))
ADVERTISE = ("p", Observe(Observed.ADVERTISE, subscription="x", filter="price > 50"))


def past(pasts, *seen):
    number = pasts.none
    for client, observed in seen:
        number = pasts.after(number, client, [observed])
    return number


def are_one(first, second):
    pasts = ClientHistories(["p", "s"])
    return past(pasts, *first) == past(pasts, *second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([SUBSCRIBE, PUBLISH_1], [PUBLISH_1, SUBSCRIBE]),
        ([PUBLISH_1, ACK_1, PUBLISH_2], [PUBLISH_1, PUBLISH_2, ACK_1]),
        ([NARROW, ACK, PUBLISH_1], [NARROW, PUBLISH_1, ACK]),
        ([PUBLISH_1, DELIVER_1, ACK_1], [PUBLISH_1, ACK_1, DELIVER_1]),
        ([SUBSCRIBE, PUBLISH_1, ACK, DELIVER_1], [SUBSCRIBE, PUBLISH_1, DELIVER_1, ACK]),
        ([ADVERTISE, PUBLISH_1], [PUBLISH_1, ADVERTISE]),
        ([SUBSCRIBE, UNSUBSCRIBE, PUBLISH_1, ACK], [SUBSCRIBE, UNSUBSCRIBE, ACK, PUBLISH_1]),
    ],
    ids=["unacknowledged", "answers", "no match", "got or acknowledged first", "late", "advertisement", "ended"],
)
def test_what_no_rule_asks_for_is_one(first, second):
    assert are_one(first, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([SUBSCRIBE, ACK, PUBLISH_1], [SUBSCRIBE, PUBLISH_1, ACK]),
        ([SUBSCRIBE, ACK, PUBLISH_1, UNSUBSCRIBE], [SUBSCRIBE, ACK, UNSUBSCRIBE, PUBLISH_1]),
        ([PUBLISH_1, ACK_1], [PUBLISH_1]),
        ([PUBLISH_1, ACK_1], [PUBLISH_1, FAIL_1]),
        ([PUBLISH_1, DELIVER_1, FAIL_1], [PUBLISH_1, FAIL_1, DELIVER_1]),
        ([DELIVER_1, DELIVER_2], [DELIVER_2, DELIVER_1]),
        ([DELIVER_1], [DELIVER_1, DELIVER_1]),
        ([SUBSCRIBE, DELIVER_1], [DELIVER_1, SUBSCRIBE]),
        ([SUBSCRIBE, UNSUBSCRIBE, DELIVER_1, UNSUBSCRIBED], [SUBSCRIBE, UNSUBSCRIBE, UNSUBSCRIBED, DELIVER_1]),
        ([SUBSCRIBE], [SUBSCRIBE, ACK]),
    ],
    ids=["owed", "ended", "answer", "failed", "after failure", "order", "twice", "wanted", "over", "acknowledged"],
)
def test_what_a_rule_asks_for_is_told_apart(first, second):
    assert not are_one(first, second)


def test_an_acknowledgement_is_for_the_oldest_request_that_has_none():
    """The first stretch is over before its acknowledgement comes: the second one is not acknowledged by it."""
    again = [SUBSCRIBE, UNSUBSCRIBE, SUBSCRIBE]
    assert are_one([*again, ACK, PUBLISH_1], [*again, PUBLISH_1, ACK])
    assert not are_one([*again, ACK, ACK, PUBLISH_1], [*again, ACK, PUBLISH_1, ACK])


def test_a_client_that_wants_no_own_events_is_owed_none():
    mine = ("p", Observe(Observed.SUBSCRIBE, subscription="s1", filter="price > 50", detail="no-own"))
    ack = ("p", Observe(Observed.SUBSCRIBE_ACK, subscription="s1"))
    assert are_one([mine, ack, PUBLISH_1], [mine, PUBLISH_1, ack])
