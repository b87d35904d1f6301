"""The courier: requests that begin at another broker than the one that is asked."""

from __future__ import annotations

from pleach.effects import Concluded, Send
from pleach.messages import OPERATOR, RequestSwap, Seek, Sought
from pleach.overlay.courier import Courier
from pleach.overlay.layers import Layers
from pleach.routing.router import Router, RoutingConfig
from pleach.routing.sessions import Sessions

SWAP = RequestSwap("op-1", "far", "b", "c")


def courier(name: str, *neighbours: str) -> tuple[Courier, Layers]:
    router = Router(RoutingConfig())
    for neighbour in neighbours:
        router.connect(neighbour)
    layers = Layers(name, "", router, Sessions(router), lambda: "")
    return Courier(layers), layers


def test_it_is_sought_everywhere_but_where_the_question_came_from():
    asked, _ = courier("x", "a", "b", "c")
    assert asked.seek("a", SWAP).effects == [Send("b", Seek(SWAP)), Send("c", Seek(SWAP))]


def test_a_neighbour_is_asked_alone():
    asked, _ = courier("x", "a", "b", "far")
    assert asked.seek("a", SWAP).effects == [Send("far", Seek(SWAP))]


def test_whoever_is_sought_takes_the_request_and_says_so():
    sought, _ = courier("far", "x")
    handled = sought.handle("x", Seek(SWAP), now=0.0)
    assert (handled.request, handled.effects) == (SWAP, [Send("x", Sought("op-1", is_found=True))])


def test_not_found_is_said_when_everyone_has_said_so():
    asked, _ = courier("x", "a", "b", "c")
    asked.seek("a", SWAP)
    assert not asked.handle("b", Sought("op-1", is_found=False), now=0.0).effects
    assert asked.handle("c", Sought("op-1", is_found=False), now=0.0).effects == [
        Send("a", Sought("op-1", is_found=False))
    ]


def test_the_operator_hears_that_there_is_no_such_broker():
    asked, _ = courier("x", "b")
    asked.seek(OPERATOR, SWAP)
    (concluded,) = asked.handle("b", Sought("op-1", is_found=False), now=0.0).effects
    assert isinstance(concluded, Concluded)
    assert "there is no broker far" in concluded.refusal


def test_an_answer_over_a_link_that_is_gone_is_not_sent():
    asked, layers = courier("x", "a", "b")
    asked.seek("a", SWAP)
    layers.router.neighbours.remove("a")
    assert not asked.handle("b", Sought("op-1", is_found=True), now=0.0).effects


def test_a_question_that_came_over_a_link_that_is_gone_is_still_a_request():
    sought, _ = courier("far", "b")
    handled = sought.handle("x", Seek(SWAP), now=0.0)
    assert (handled.request, list(handled.effects)) == (SWAP, [])


def test_one_that_has_lost_its_memory_is_not_waited_for():
    asked, _ = courier("x", "b", "c")
    asked.seek(OPERATOR, SWAP)
    assert not asked.reborn("b").effects
    (concluded,) = asked.reborn("c").effects
    assert "there is no broker far" in concluded.refusal
    assert not asked.reborn("c").effects
