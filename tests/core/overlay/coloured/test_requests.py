"""S1 §4.5.3 and §4.5.5: reconfigurations that the root carries, one by one and several at once."""

from __future__ import annotations

import pytest

from pleach.core.messages import (
    Attach,
    Carried,
    Carry,
    ColourStage,
    ParentChange,
    RequestAdd,
    RequestExchange,
    RequestRemove,
    RequestSwap,
)
from pleach.core.overlay.coloured.client_handover import TURNS_MAX, ClientHandover
from pleach.core.overlay.coloured.requests import ROUNDS_MAX, RequestTurn, TreeRequests
from pleach.sim.run import ScenarioRun
from support.overlay.coloured.coloured_networks import flaws_of_tree
from support.overlay.coloured.small_networks import client, directed, noted, parents, violations

#        a
#      b   c
#     d e   f
LINKS = [("a", "b"), ("a", "c"), ("b", "d"), ("b", "e"), ("c", "f")]
CLIENTS = client("p", "d", more='publish = { every = 0.02, from = 1.0, attributes = { t = "x" } }') + client(
    "s", "f", more="subscribe = [\"t = 'x'\"]"
)


def swap(at, a, b, c):
    return f'at = {at}\ndo = "swap"\nbrokers = ["{a}", "{b}", "{c}"]'


def exchange(at, removed, added):
    return f'at = {at}\ndo = "exchange"\nremove = {list(removed)}\nadd = {list(added)}'


def add(at, broker, to):
    return f'at = {at}\ndo = "add_broker"\nbroker = "{broker}"\nto = "{to}"'


def remove(at, broker):
    return f'at = {at}\ndo = "remove_broker"\nbroker = "{broker}"'


def carried_out(*steps, ordering="causal", duration=12.0):
    scenario = directed(LINKS, clients=CLIENTS, steps=steps, ordering=ordering, duration=duration, stabilise="height=5")
    run = ScenarioRun(scenario, 1)
    result = run.finish()
    assert not violations(run)
    assert not flaws_of_tree(run)
    assert not noted(run, "coloured: seeking")
    return parents(run), [(refusal.step, refusal.reason) for refusal in result.refusals]


def test_a_second_removal_is_refused_and_the_first_is_carried_out():
    """Else the answer to the first one fits no removal, and the clients are never told where to go."""
    tree, refused = carried_out(remove(4.2, "f"), add(4.25, "f", "a"), remove(4.3, "f"))
    assert "f" not in tree
    assert [reason for _, reason in refused] == ["broker f is still there", "f leaves already, by operation 1"]


TREE = {"a": None, "b": "a", "c": "a", "d": "b", "e": "b", "f": "c"}


def test_a_change_is_in_effect_with_the_second_recolouring():
    run = ScenarioRun(directed(LINKS, steps=[swap(4.5, "d", "b", "a")]), 1)
    run.advance(5.5)
    assert run.brokers["d"].planes.of(ColourStage.NEW).parent == "a"
    assert run.brokers["d"].router.parent == "b"
    run.advance(6.5)
    assert run.brokers["d"].router.parent == "a"
    assert any(r.detail == "operation 1: done" and 6.0 < r.at < 6.2 for r in run.recorder.records)


@pytest.mark.parametrize("ordering", ["none", "fifo", "causal"])
def test_requests_that_do_not_touch_each_other_are_carried_together(ordering):
    tree, refusals = carried_out(swap(4.2, "d", "b", "a"), exchange(4.3, "cf", "fe"), ordering=ordering)
    assert tree == {**TREE, "d": "a", "f": "e"}
    assert not refusals


def test_requests_that_build_on_each_other_are_too():
    """None but the first would fit the tree as it is; each fits what those before it leave."""
    steps = [swap(4.2, "d", "b", "a"), swap(4.3, "d", "a", "c"), add(4.4, "g", "d"), exchange(4.5, "cf", "fg")]
    tree, refusals = carried_out(*steps)
    assert tree == {**TREE, "d": "c", "g": "d", "f": "g"}
    assert not refusals


def test_of_requests_that_contradict_each_other_the_first_is_carried_out():
    tree, refusals = carried_out(exchange(4.2, "cf", "fe"), exchange(4.3, "cf", "fb"), remove(4.4, "e"))
    assert tree == {"a": None, "b": "a", "c": "a", "d": "b", "f": "b"}, "what was on e hangs on b"
    assert refusals == [("exchange", "there is no link c–f; name one that the tree has")]


def test_who_is_to_leave_waits_until_the_tree_stays():
    """It gets no recolouring after that, and must not hold anything by then: this one is serialised."""
    tree, refusals = carried_out(exchange(4.2, "cf", "fe"), remove(5.2, "c"))
    assert not refusals
    assert "c" not in tree


def test_a_broker_in_the_middle_leaves_in_one_step():
    tree, refusals = carried_out(exchange(4.2, "bd", "da"), remove(7.2, "b"))
    assert not refusals
    assert tree == {"a": None, "c": "a", "d": "a", "e": "a", "f": "c"}


@pytest.mark.parametrize("ordering", ["none", "fifo", "causal"])
@pytest.mark.parametrize("slow", ["p-d", "p-b", "s-f", "s-c", "b-d", "c-f"])
def test_clients_of_who_leaves_go_to_its_parent(ordering, slow):
    """Publisher and subscriber both lose their broker; whichever link is slow, nothing is overtaken."""
    scenario = directed(
        LINKS,
        clients=CLIENTS,
        steps=[remove(4.2, "d"), remove(4.3, "f")],
        ordering=ordering,
        latency=f'"{slow}" = 0.09',
        default=(0.001, 0.001),
        period=1.8,
        duration=20.0,
    )
    run = ScenarioRun(scenario, 1)
    result = run.finish()
    assert not result.refusals
    assert not violations(run)
    assert parents(run) == {"a": None, "b": "a", "c": "a", "e": "b"}
    assert (run.clients["p"].broker, run.clients["s"].broker) == ("b", "c")
    published = [r for r in result.records if r.kind == "publish" and r.at > 6.0]
    assert sum(r.kind == "deliver" and r.at > 6.0 for r in result.records) >= len(published)


def test_nobody_waits_for_a_farewell_for_ever():
    guests = ClientHandover()
    assert guests.announce("c")
    assert not guests.announce("c")
    assert guests.keeps("c", Attach())
    assert [guests.turn() for _ in range(TURNS_MAX)] == [[], ["c"]]
    assert guests.arrived("c") == [Attach()]
    assert not guests.keeps("c", Attach())


def test_a_broker_that_left_stays_outside():
    tree, refusals = carried_out(remove(4.2, "e"), duration=16.0)
    assert not refusals
    assert "e" not in tree


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (remove(4.2, "a"), "a is in the root group"),
        (exchange(4.2, "df", "be"), "there is no link d–f"),
        (exchange(4.2, "bd", "ac"), "does not lie between"),
        (swap(4.2, "d", "b", "f"), "there is no link b–f"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(step, says):
    tree, refusals = carried_out(step)
    assert tree == TREE
    ((_, reason),) = refusals
    assert says in reason


def test_a_tree_that_would_be_too_high_is_refused():
    scenario = directed(LINKS, stabilise="height = 2", steps=[exchange(4.2, "bd", "fd")])
    run = ScenarioRun(scenario, 1)
    assert "3 links high; `height` is 2" in run.finish().refusals[0].reason


def test_the_network_goes_on_until_a_late_request_is_carried_out():
    tree, refusals = carried_out(swap(11.9, "d", "b", "a"))
    assert tree["d"] == "a"
    assert not refusals


# The root's books -----------------------------------------------------------------------------------------------


def asked(*requests):
    books = TreeRequests("r", ("r",), 5)
    for request in requests:
        assert books.ask(Carry("asker", request)) == []
    return books


CENSUS = {"r": "", "a": "r", "b": "a"}


def test_nothing_asked_for_nothing_moved():
    assert asked().turn(CENSUS) == RequestTurn(is_changed=False, moves=[], answers=[])


def test_a_request_is_answered_when_it_is_in_effect():
    books = asked(RequestSwap("1", "b", "a", "r"))
    assert books.turn(CENSUS) == RequestTurn(is_changed=False, moves=[ParentChange("b", "r")], answers=[])
    assert books.turn(CENSUS) == RequestTurn(is_changed=True, moves=[], answers=[("asker", Carried("1", ""))])
    assert books.turn({**CENSUS, "b": "r"}) == RequestTurn(is_changed=False, moves=[], answers=[])


def test_the_next_request_meets_the_tree_that_is_on_its_way():
    books = asked(RequestSwap("1", "b", "a", "r"))
    books.turn(CENSUS)
    books.ask(Carry("asker", RequestExchange("2", ["a", "r", "b", "b"], 1, "")))
    assert books.turn(CENSUS).moves == [ParentChange("b", "a")]


def test_who_leaves_is_told_after_it_has_passed_on_what_it_had():
    books = asked(RequestRemove("1", "b"))
    assert books.turn(CENSUS).moves == [ParentChange("b", "")]
    rest = {"r": "", "a": "r"}
    assert books.turn(CENSUS).answers == []
    assert books.turn(rest).answers == [("asker", Carried("1", ""))]


@pytest.mark.parametrize("census", [None, {"r": "", "a": "r", "b": "gone"}])
def test_while_the_tree_is_not_known_requests_wait_but_not_for_ever(census):
    books = asked(RequestSwap("1", "b", "a", "r"))
    for _ in range(ROUNDS_MAX - 1):
        assert books.turn(census) == RequestTurn(is_changed=False, moves=[], answers=[])
    ((_, told),) = books.turn(census).answers
    assert "the tree is not complete" in told.refusal
    assert not books.state.pending


def test_a_root_that_steps_down_tells_whoever_waits():
    books = asked(RequestSwap("1", "b", "a", "r"))
    books.turn(CENSUS)
    books.ask(Carry("asker", RequestAdd("2", "a")))
    assert [(who, told.operation) for who, told in books.dismiss()] == [("asker", "2"), ("asker", "1")]
    assert books.turn(CENSUS) == RequestTurn(is_changed=False, moves=[], answers=[])
