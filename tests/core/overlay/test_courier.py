"""The remote_requests: requests that begin at another broker than the one that is asked."""

from __future__ import annotations

from functools import partial

from pleach.core.broker import Broker
from pleach.core.effects import CancelTimer, Concluded, Send, SetTimer
from pleach.core.messages import OPERATOR, Lock, RequestSwap, Seek, Sought
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.remote_requests import SEARCH, SEARCH_SECONDS, TAKEN_MAX, RemoteRequests
from pleach.core.overlay.swaplink.machine import SwapLink
from pleach.core.routing.clients import ClientTable
from pleach.core.routing.router import Router, RoutingConfig

SWAP = RequestSwap("op-1", "far", "b", "c")
TIMER = SEARCH + "op-1"
DEADLINE, IN_TIME = SetTimer(TIMER, SEARCH_SECONDS), CancelTimer(TIMER)


def remote_requests(name: str, *neighbours: str) -> tuple[RemoteRequests, BrokerContext]:
    router = Router(RoutingConfig())
    for neighbour in neighbours:
        router.connect(neighbour)
    layers = BrokerContext(name, "", router, ClientTable(router), lambda: "")
    return RemoteRequests(layers), layers


def test_it_is_sought_everywhere_but_where_the_question_came_from():
    asked, _ = remote_requests("x", "a", "b", "c")
    assert asked.seek("a", SWAP).effects == [Send("b", Seek(SWAP)), Send("c", Seek(SWAP)), DEADLINE]


def test_a_neighbour_is_asked_alone():
    asked, _ = remote_requests("x", "a", "b", "far")
    assert asked.seek("a", SWAP).effects == [Send("far", Seek(SWAP)), DEADLINE]


def test_whoever_is_sought_takes_the_request_and_says_so():
    sought, _ = remote_requests("far", "x")
    handled = sought.handle("x", Seek(SWAP), now=0.0)
    assert (handled.request, handled.effects) == (SWAP, [Send("x", Sought("op-1", is_found=True))])


def test_not_found_is_said_when_everyone_has_said_so():
    asked, _ = remote_requests("x", "a", "b", "c")
    asked.seek("a", SWAP)
    assert not asked.handle("b", Sought("op-1", is_found=False), now=0.0).effects
    assert asked.handle("c", Sought("op-1", is_found=False), now=0.0).effects == [
        IN_TIME,
        Send("a", Sought("op-1", is_found=False)),
    ]


def test_the_operator_hears_that_there_is_no_such_broker():
    asked, _ = remote_requests("x", "b")
    asked.seek(OPERATOR, SWAP)
    _, concluded = asked.handle("b", Sought("op-1", is_found=False), now=0.0).effects
    assert isinstance(concluded, Concluded)
    assert "there is no broker far" in concluded.refusal


def test_an_answer_over_a_link_that_is_gone_is_not_sent():
    asked, layers = remote_requests("x", "a", "b")
    asked.seek("a", SWAP)
    layers.router.neighbours.remove("a")
    assert asked.handle("b", Sought("op-1", is_found=True), now=0.0).effects == [IN_TIME]


def test_an_answer_that_went_with_its_link_is_not_waited_for_for_ever():
    asked, layers = remote_requests("x", "b", "c")
    idle = asked.capture()
    asked.seek(OPERATOR, SWAP)
    assert not asked.handle("b", Sought("op-1", is_found=False), now=0.0).effects
    layers.router.neighbours.remove("c")
    again = RemoteRequests(layers)
    again.restore(asked.capture())
    assert again.resume() == [DEADLINE]
    (concluded,) = again.handle_timer(TIMER, now=10.0).effects
    assert "far was not found within 10 s" in concluded.refusal
    assert again.capture() == idle
    assert not again.handle_timer(TIMER, now=20.0).effects


def test_who_passes_a_question_on_forgets_it_in_time():
    asked, _ = remote_requests("x", "a", "b")
    idle = asked.capture()
    asked.seek("a", SWAP)
    assert not asked.handle_timer(TIMER, now=10.0).effects
    assert asked.capture() == idle


def test_a_question_that_came_over_a_link_that_is_gone_is_still_a_request():
    sought, _ = remote_requests("far", "b")
    handled = sought.handle("x", Seek(SWAP), now=0.0)
    assert (handled.request, list(handled.effects)) == (SWAP, [])


def test_what_comes_by_two_ways_is_taken_once_and_answered_twice():
    sought, _ = remote_requests("far", "x", "y")
    sought.handle("x", Seek(SWAP), now=0.0)
    restarted, _ = remote_requests("far", "x", "y")
    restarted.restore(sought.capture())
    for each in (sought, restarted):
        handled = each.handle("y", Seek(SWAP), now=0.1)
        assert (handled.request, handled.effects) == (None, [Send("y", Sought("op-1", is_found=True))])


def test_what_was_taken_long_ago_is_forgotten():
    sought, _ = remote_requests("far", "x")
    for number in range(TAKEN_MAX + 1):
        sought.handle("x", Seek(RequestSwap(f"n-{number}", "far", "b", "c")), now=0.0)
    assert not sought.handle("x", Seek(RequestSwap("n-1", "far", "b", "c")), now=0.0).request
    assert sought.handle("x", Seek(RequestSwap("n-0", "far", "b", "c")), now=0.0).request


def test_a_swap_that_is_sought_by_two_ways_is_not_refused_after_it_has_begun():
    """A second request would be put off, tried again once the swap is done, and refused: a and b are linked no more."""
    makers = [partial(SwapLink, ordering="fifo")]
    a = Broker("a", RoutingConfig(), neighbours=["b", "y"], machines=makers)
    seek = Seek(RequestSwap("op-1", "a", "b", "c"))
    assert any(isinstance(each, Send) and isinstance(each.message, Lock) for each in a.handle("b", seek, now=0.0))
    assert a.handle("y", seek, now=0.1) == [Send("y", Sought("op-1", is_found=True))]


def test_one_that_has_lost_its_memory_is_not_waited_for():
    asked, _ = remote_requests("x", "b", "c")
    asked.seek(OPERATOR, SWAP)
    assert not asked.peer_reset("b").effects
    _, concluded = asked.peer_reset("c").effects  # the timer is cancelled
    assert "there is no broker far" in concluded.refusal
    assert not asked.peer_reset("c").effects
