"""What a broker notes of the events that pass it."""

from random import Random

import pytest

from pleach.core.effects import Send
from pleach.core.events.event import Event, EventId
from pleach.core.messages import Deliver, Forward, Mark, Marked, Publish, PublishRefused
from pleach.core.optimise.ledger import LOCAL
from pleach.core.optimise.sightings import hash_of, level_of
from pleach.core.optimise.traffic_log import CACHE_EVENTS, LAG_SECONDS, TrafficLog

WINDOW = 20.0
NOW = 10.0


def event(number, publisher="p"):
    return Event(EventId(publisher, 0, number), {})


def keys(*numbers):
    return [hash_of(event(number).id) for number in numbers]


@pytest.mark.parametrize(
    ("sender", "message", "sends", "touches"),
    [
        ("me", Publish(event(1)), [Send("x", Forward(event(1)))], True),
        ("x", Forward(event(1)), [Send("me", Deliver(event(1)))], True),
        ("x", Forward(event(1)), [Send("y", Forward(event(1)))], False),
        ("x", Forward(event(1)), [Send("y", Forward(event(1))), Send("z", Forward(event(1)))], True),
        ("x", Forward(event(1)), [Send("y", Forward(event(1))), Send("me", Deliver(event(1)))], True),
        ("x", Marked("op", Mark.FLOOD, "x", Forward(event(1))), [Send("y", Forward(event(1)))], False),
        ("x", Forward(event(1)), [], True),  # whoever took it, it was for somebody here
    ],
)
def test_an_event_touches_a_broker_that_it_does_not_only_pass(sender, message, sends, touches):
    book = TrafficLog(WINDOW, 0.0)
    book.saw(sender, message, sends, NOW - 2 * LAG_SECONDS)
    assert book.touching(frozenset("xy"), WINDOW, 0, NOW) == (keys(1) if touches else [])


def test_what_is_refused_is_not_noted():
    book = TrafficLog(WINDOW, 0.0)
    book.saw("me", Publish(event(1)), [Send("me", PublishRefused(event(1).id, "full"))], NOW)
    assert len(book) == 0


def test_an_event_that_is_held_for_a_while_is_one_event():
    book = TrafficLog(WINDOW, 0.0)
    book.saw("x", Forward(event(1)), [], 1.0)
    book.saw("", None, [Send("y", Forward(event(1)))], 1.5)
    assert book.touching(frozenset("xy"), WINDOW, 0, NOW) == []
    assert book.touching(frozenset("x"), WINDOW, 0, NOW) == keys(1)


def test_only_events_of_the_window_count_and_none_that_may_be_under_way():
    book = TrafficLog(WINDOW, 0.0)
    for number, at in enumerate((0.0, 6.0, 9.5)):
        book.note([event(number).id], LOCAL, at)
    assert book.touching(frozenset(), 5.0, 0, NOW) == keys(1)
    assert book.touching(frozenset(), WINDOW, 0, NOW) == keys(0, 1)


def test_a_full_ledger_keeps_the_events_that_all_full_ledgers_keep():
    book = TrafficLog(WINDOW, 0.0, events_max=64)
    book.note([event(n).id for n in range(1_000)], "x", 5.0)
    assert len(book) <= 64
    expected = keys(*(n for n in range(1_000) if level_of(event(n).id) >= book.level))
    assert sorted(book.touching(frozenset(), WINDOW, 0, NOW)) == sorted(expected)
    assert book.touching(frozenset(), WINDOW, book.level + 1, NOW) != []


def test_where_there_is_room_again_it_begins_anew_with_more():
    book = TrafficLog(WINDOW, 0.0, events_max=64)
    book.note([event(n).id for n in range(1_000)], "x", 5.0)
    level = book.level
    book.relax(6.0)
    assert book.level == level
    book.relax(5.0 + 2 * WINDOW)
    assert book.level == level - 1
    assert book.age(5.0 + 2 * WINDOW) == 0.0


def test_a_change_of_the_tree_ends_the_ledger_and_not_the_cache():
    book = TrafficLog(WINDOW, 0.0)
    book.note([event(1).id], LOCAL, 5.0)
    book.begin_anew(6.0)
    assert book.touching(frozenset(), WINDOW, 0, NOW) == []
    assert book.age(NOW) == NOW - 6.0
    assert book.cache.common(book.summary()) == 1


def test_the_cache_has_the_latest_events_of_clients_and_no_others():
    book, draw = TrafficLog(WINDOW, 0.0), Random(1)
    local = [n for n in range(900) if draw.random() < 0.9]
    for number in range(900):
        book.note([event(number).id], LOCAL if number in local else "x", 5.0)
    assert len(book.cache) == min(CACHE_EVENTS, len(local))
