"""S1 §5.5.4: broadcasts and requests between agents, with real caches and Bloom filters."""

from itertools import pairwise

import pytest

from support.optimise.agent import Agent, Agreed, Broadcast, Outgoing, Request, Tuning, place_of
from support.optimise.heuristics import HEURISTICS

LINE = ["a", "b", "c", "d", "e"]
EVERY = 250.0
TUNING = Tuning(radius=3, cache_size=64)


def costs_one(_other):
    return 1.0


@pytest.fixture
def agents():
    """a – b – c – d – e, every link costs 1, b and c cost 9 to pass. What a and d consume nobody else does."""
    made = {name: Agent(name, 9.0, costs_one, HEURISTICS["ci"], TUNING) for name in LINE}
    for one, other in pairwise(LINE):
        made[one].neighbours.add(other)
        made[other].neighbours.add(one)
    for i in range(40):
        made["a"].cache.consumed(f"p/0/{i}")
        made["d"].cache.consumed(f"p/0/{i}")
    return made


def spread(agents, outgoing, now):
    """Deliver all broadcasts; what is left are requests."""
    waiting, requests, seen = list(outgoing), [], []
    while waiting:
        to, message = waiting.pop(0)
        if isinstance(message, Request):
            requests.append(Outgoing(to, message))
            continue
        seen.append((to, message))
        waiting += agents[to].handle(message, now)
    return requests, seen


def everyone_broadcasts(agents, now):
    return {name: spread(agents, agents[name].broadcast(), now) for name in LINE}


def follow(agents, outgoing, now):
    actions = [outgoing]
    while actions and isinstance(actions[0], Outgoing):
        to, message = actions[0]
        actions = agents[to].handle(message, now)
    return actions


def test_a_broadcast_travels_its_radius_and_tells_what_the_way_costs(agents):
    _, seen = spread(agents, agents["a"].broadcast(), 0.0)
    assert [(to, message.path) for to, message in seen] == [("b", ("a",)), ("c", ("a", "b")), ("d", ("a", "b", "c"))]
    assert seen[-1][1].processing == (9.0, 9.0, 9.0)
    assert seen[-1][1].communication == (1.0, 1.0)


def test_brokers_with_traffic_of_their_own_agree_on_a_direct_link(agents):
    everyone_broadcasts(agents, 0.0)
    requests = everyone_broadcasts(agents, EVERY)["d"][0]
    (request,) = [each for each in requests if each.message.path == ("a", "b", "c", "d")]
    (agreed,) = follow(agents, request, EVERY)
    assert isinstance(agreed, Agreed)
    assert agreed.exchange.add == ("a", "d")
    assert agreed.exchange.gain == pytest.approx(2 * 40 * (1 + 9 + 1 + 9 + 1 - 1))  # from a's view, and from d's
    assert agreed.path[place_of(agreed) : place_of(agreed) + 2] in (("a", "b"), ("b", "c"), ("c", "d"))


def test_in_the_beginning_nothing_is_known_and_nothing_is_asked(agents):
    """a hears d before it has heard c: it cannot tell what c has in common with them."""
    requests, _ = spread(agents, agents["d"].broadcast(), 0.0)
    assert requests == []


def test_what_was_heard_long_ago_is_forgotten(agents):
    everyone_broadcasts(agents, 0.0)
    requests, _ = spread(agents, agents["d"].broadcast(), 10 * EVERY)
    assert requests == []


def test_a_request_over_a_link_that_is_gone_is_dropped(agents):
    everyone_broadcasts(agents, 0.0)
    requests = everyone_broadcasts(agents, EVERY)["d"][0]
    agents["b"].neighbours.remove("c")
    (request,) = [each for each in requests if each.message.path == ("a", "b", "c", "d")]
    assert follow(agents, request, EVERY) == []


def test_neighbours_do_not_ask_for_what_they_have(agents):
    everyone_broadcasts(agents, 0.0)
    found = everyone_broadcasts(agents, EVERY)
    assert all(len(each.message.path) > 2 for requests, _ in found.values() for each in requests)


def test_a_broadcast_goes_to_no_one_who_had_it(agents):
    message = Broadcast(agents["a"].cache.summary(), ("a",), (9.0,), ())
    assert [each.to for each in agents["b"].handle(message, 0.0)] == ["c"]
