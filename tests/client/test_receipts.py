"""Which deliveries are consumed: a position is a payload, and how many messages of the one behind it."""

from pleach.client.subscription import Receipts
from pleach.core.events.event import Event, EventId


def hear(receipts, sequence, count):
    """A payload with so many deliveries; those that are new."""
    events = [Event(EventId("p", 0, 10 * sequence + n), {}) for n in range(count)]
    return [receipts.arrived(event, 1) for event in events if receipts.is_new(sequence)]


def test_the_position_is_within_a_payload():
    receipts = Receipts()
    a, b = hear(receipts, 1, 2)
    c, d = hear(receipts, 2, 2)
    assert receipts.position == (0, 0)
    receipts.consumed(a)
    assert receipts.position == (0, 1)
    receipts.consumed(c)  # out of turn
    assert receipts.position == (0, 1)
    receipts.consumed(b)
    assert receipts.position == (1, 1)
    receipts.consumed(d)
    assert receipts.position == (2, 0)


def test_what_a_former_process_consumed_of_a_payload_is_not_new():
    receipts = Receipts(received=4, skip=2)
    assert receipts.position == (4, 2)  # nothing has come yet, and nothing is forgotten
    (last,) = hear(receipts, 5, 3)
    assert receipts.position == (4, 2)
    receipts.consumed(last)
    assert receipts.position == (5, 0)
    assert len(hear(receipts, 6, 3)) == 3


def test_of_a_broker_that_was_reborn_everything_is_new():
    receipts = Receipts(received=4, skip=2)
    receipts.restart(0)
    assert receipts.position == (0, 0)
    assert len(hear(receipts, 1, 3)) == 3


def test_messages_that_are_no_deliveries_count_as_places():
    receipts = Receipts()
    assert receipts.is_new(1)
    assert receipts.position == (1, 0)
    assert receipts.is_new(2)
    (a,) = hear(receipts, 2, 1)
    assert receipts.position == (1, 1)
    receipts.consumed(a)
    assert receipts.position == (2, 0)
