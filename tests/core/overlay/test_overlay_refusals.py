"""Requests that cannot be met are refused with the reason, and nothing changes: neighbours, tables, what is delivered.

Also: whom one asks for a swap does not matter.
"""

from __future__ import annotations

import pytest

from pleach.core.effects import Concluded
from pleach.core.messages import OPERATOR, Layer, RequestAdd, RequestRemove, RequestSwap
from pleach.scenario.model import Routing, Scenario
from pleach.scenario.steps import AddBroker, RemoveBroker, Swap
from pleach.sim.run import ScenarioRun
from pleach.trace import judge
from support.overlay.faults_at_messages import Journey, links_of
from support.overlay.judgement import violations
from support.overlay.small_networks import BEGINS_AT, BROKERS, links_after, station

NAME = "wish"


def tables(brokers):
    """All that brokers know of each other, as far as messages under way cannot change it."""
    return {
        (name, layer, neighbour): (
            broker.router.told(layer, neighbour),
            frozenset(broker.router.received_from(layer, neighbour)),
        )
        for name, broker in brokers.items()
        for layer in Layer
        for neighbour in broker.router.neighbours
    }


def asked(broker, request, scenario=None):
    """Ask in the middle of the load; returns the run, and how the request ended: None if it did not."""
    run = ScenarioRun(scenario or station(), 1)
    ends = []
    listen = run.sim.on_concluded

    def on_concluded(at, node, end):
        ends.append(end)
        listen(at, node, end)

    def ask():
        run.sim.perform(broker, run.brokers[broker].handle(OPERATOR, request, now=run.sim.now))

    run.sim.on_concluded = on_concluded
    run.sim.at(BEGINS_AT, ask)
    result = run.finish()
    assert result.quiet
    assert not violations(judge(result.records))
    assert len(ends) == 1
    return run, ends[0]


def check_refused(broker, request, words, scenario=None):
    untouched = ScenarioRun(scenario or station(), 1)
    untouched.finish()
    run, end = asked(broker, request, scenario)
    assert end.operation == NAME
    assert words in end.refusal
    assert links_of(run.brokers) == links_of(untouched.brokers)
    assert tables(run.brokers) == tables(untouched.brokers)
    assert all(broker.seam.is_idle for broker in run.brokers.values())


# Swaps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("brokers", "words"),
    [
        (("b", "a", "b"), "three different brokers"),  # a broker cannot be linked to itself
        (("b", "b", "c"), "three different brokers"),
        (("b", "c", "c"), "three different brokers"),
        (("b", "z", "c"), "not linked"),  # no link to replace
        (("b", "x", "a"), "not linked"),  # would add a link within one part, and leave none to the other
        (("b", "c", "a"), "linked"),  # a is on b's side: the link is there, z and c would be cut off
        (("b", "c", "x"), "not linked"),  # … and x is, too
        (("b", "c", "stray"), "not linked"),  # a broker that is there, and in no tree
        (("b", "stray", "c"), "not linked"),
        (("stray", "b", "c"), "no broker stray"),
        (("b", "nobody", "c"), "not linked"),
        (("b", "c", "nobody"), "not linked"),
    ],
    ids=lambda part: "-".join(part) if isinstance(part, tuple) else "",
)
def test_a_swap_that_is_none(brokers, words):
    """Asked is b: the a of the swap."""
    check_refused("b", RequestSwap(NAME, *brokers), words, station(brokers=(*BROKERS, "stray")))


@pytest.mark.parametrize("asked_broker", "xabcz")
def test_any_broker_can_be_asked(asked_broker):
    """S0 §IV-A: "reserving a start message to show the triggering of the procedure from other nodes"."""
    run, end = asked(asked_broker, RequestSwap(NAME, "a", "b", "c"))
    assert end == Concluded(NAME)
    assert links_of(run.brokers) == links_after(Swap(at=BEGINS_AT, brokers=("a", "b", "c")))


# Joining and leaving ----------------------------------------------------------------------------------------


def test_a_broker_of_the_tree_cannot_join_it():
    check_refused("c", RequestAdd(NAME, "a"), "in a tree already")


def test_a_broker_cannot_join_itself():
    check_refused("stray", RequestAdd(NAME, "stray"), "its own neighbour", station(brokers=(*BROKERS, "stray")))


@pytest.mark.parametrize("broker", ["a", "b", "c"])
def test_a_broker_with_several_neighbours_cannot_leave(broker):
    """S0 §IV-C: "the primitive requires b to have a single neighbor". By composition any broker can."""
    check_refused(broker, RequestRemove(NAME, broker), "2 neighbours")


ALONE = Scenario(name="alone", routing=Routing.COVERING, root="a", brokers=("a",), duration=0.5)


def test_the_last_broker_cannot_leave():
    check_refused("a", RequestRemove(NAME, "a"), "last", ALONE)


def test_of_two_brokers_that_leave_at_once_one_stays():
    two = Scenario(
        name="two",
        routing=Routing.COVERING,
        root="a",
        links=(("a", "b"),),
        brokers=("a", "b"),
        duration=0.5,
        steps=tuple(RemoveBroker(at=0.1, broker=broker) for broker in "ab"),
    )
    run = ScenarioRun(two, 1)
    result = run.finish()
    assert result.quiet
    assert len(run.brokers) == 1
    assert [refusal.step for refusal in result.refusals] == ["remove_broker"]


# Steps of a scenario ------------------------------------------------------------------------------------------


def test_a_step_that_names_a_broker_that_never_joined_is_refused():
    """A file cannot know that the broker will not get in; the run goes on."""
    steps = (
        RemoveBroker(at=BEGINS_AT, broker="z"),
        AddBroker(at=BEGINS_AT + 0.1, broker="n", to="z"),
        Swap(at=BEGINS_AT + 0.2, brokers=("n", "c", "b")),
        RemoveBroker(at=BEGINS_AT + 0.3, broker="n"),
    )
    journey = Journey(station(*steps))
    assert not journey.finish()
    assert [reason.partition(":")[0] for reason in journey.watched.refused] == ["add_broker", "swap", "remove_broker"]


@pytest.mark.parametrize("offset", [0.0005 * i for i in range(20)])
def test_joining_a_broker_that_is_about_to_leave(offset):
    """It joins in time, and the other leaves by a plan, or not at all; or the other is gone, and it is told so."""
    leaves = RemoveBroker(at=BEGINS_AT + 0.005, broker="z")
    journey = Journey(station(leaves, AddBroker(at=BEGINS_AT + offset, broker="n", to="z")))
    assert not journey.finish()
    assert len(journey.watched.refused) <= 1


@pytest.mark.parametrize("offset", [0.0005 * i for i in range(20)])
def test_brokers_that_join_one_another_all_at_once(offset):
    """One that is turned away takes nobody on: there would be a second tree."""
    steps = [AddBroker(at=BEGINS_AT, broker="n", to="z"), AddBroker(at=BEGINS_AT, broker="o", to="n")]
    steps += [AddBroker(at=BEGINS_AT + offset, broker="p", to="o")]
    journey = Journey(station(*steps))
    assert not journey.finish()
    assert journey.watched.refused
