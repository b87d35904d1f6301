"""Reconfigurations one after the other: settled means settled, and what is drawn leaves a tree."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.overlay.plans import Topology
from pleach.errors import LivenessError
from pleach.lab import rounds as module
from pleach.lab.rounds import Publisher, Rounds, exchange_on_cycle, hops_from, undisturbed
from pleach.lab.waxman import random_tree
from pleach.scenario.model import PerLink, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import Swap
from pleach.scenario.values import Span

CHAIN = Scenario(
    name="chain",
    routing=Routing.IDENTITY,
    root="a",
    links=(("a", "b"), ("b", "c"), ("c", "d")),
    brokers=("a", "b", "c", "d"),
    duration=1.0,
    latency=PerLink(Span(0.01, 0.01)),
    clients=(ScenarioClient(id="p", broker="a"), ScenarioClient(id="s", broker="d", subscribe=("x = 1",))),
)


def test_when_it_is_settled_everyone_knows_everything_and_nothing_is_under_way():
    rounds = Rounds(undisturbed(CHAIN, 1))
    rounds.settle()
    tables = [broker.router.remote_entries() for broker in rounds.run.brokers.values()]
    assert tables == [1, 1, 1, 0]
    assert rounds.run.sim.drain()


def test_a_swap_is_over_before_the_next_one_is_drawn():
    rounds = Rounds(undisturbed(CHAIN, 1))
    rounds.settle()
    rounds.carry_out(Swap(at=0.0, brokers=("a", "b", "c")))
    assert rounds.topology == Topology.of([("a", "c"), ("b", "c"), ("c", "d")])
    rounds.carry_out(Swap(at=0.0, brokers=("a", "c", "d")))
    assert rounds.topology == Topology.of([("a", "d"), ("b", "c"), ("c", "d")])
    rounds.finish()


def test_events_are_published_until_the_end_and_not_after_it():
    run = undisturbed(CHAIN, 1)
    rounds = Rounds(run)
    rounds.settle()
    rounds.wait(0.05)  # the client learns that its subscription is confirmed
    before = run.sim.hops
    rounds.publish([Publisher("p", partial(float, "0.1"), lambda: {"x": 1})])
    rounds.wait(1.05)
    rounds.finish()
    assert run.sim.hops == before + 10 * 6  # published, confirmed, three links, delivered


def test_the_load_does_not_keep_a_network_from_being_settled():
    rounds = Rounds(undisturbed(CHAIN, 1))
    rounds.settle()
    rounds.publish([Publisher("p", partial(float, "0.001"), lambda: {"x": 1})])
    before = rounds.now
    rounds.settle()
    assert rounds.now - before <= 0.02


def test_what_never_settles_is_an_error(monkeypatch):
    monkeypatch.setattr(module, "SETTLE_SECONDS_MAX", 0.015)
    with pytest.raises(LivenessError, match="stuck"):
        Rounds(undisturbed(CHAIN, 1)).settle()


@given(st.integers(3, 30), st.integers(3, 12), st.integers(0, 10_000))
def test_an_exchange_closes_a_cycle_of_the_wanted_length_and_leaves_a_tree(count, length, seed):
    stream = Random(seed)
    tree = Topology.of(random_tree(stream, [f"b{i}" for i in range(count)]))
    if max(max(hops_from(tree, broker).values()) for broker in tree.brokers) < length - 1:
        with pytest.raises(AssertionError, match="hops apart"):
            exchange_on_cycle(stream, tree, length)
        return
    exchange = exchange_on_cycle(stream, tree, length)
    path = tree.path(*exchange.add)
    assert len(path) == length
    assert set(exchange.remove) <= set(path)
    kept = [link for link in tree.links if set(link) != set(exchange.remove)]
    assert len(Topology.of([*kept, exchange.add])) == count  # raises if it is no tree
