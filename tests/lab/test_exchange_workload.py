"""The workload of the exchange experiments: one network, clients and timeline for every protocol of a seed."""

from __future__ import annotations

from itertools import pairwise

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from pleach.core.overlay.plans import Topology
from pleach.core.overlay.registry import EXCHANGES
from pleach.lab.exchanges.workload import (
    EXCHANGE_AT,
    LATENCY_RATIO,
    ExchangeWorkload,
    cycle_of,
    exchange_of,
    workload_scenario,
)
from pleach.lab.s2.path import DEGREE_MAX, Dispatchers, dispatchers_scenario
from pleach.scenario.model import Ordering
from pleach.scenario.steps import Drain, Exchange

WORKLOADS = st.builds(ExchangeWorkload, cycle=st.integers(3, 12), is_lively=st.booleans())
SEEDS = st.integers(0, 10_000)


def linked_after(scenario):
    exchange = exchange_of(scenario)
    kept = [link for link in scenario.links if set(link) != set(exchange.remove)]
    return Topology.of([*kept, exchange.add], scenario.brokers)


@settings(max_examples=25, deadline=None)
@given(WORKLOADS, SEEDS)
def test_only_protocol_and_order_differ(workload, seed):
    first = workload_scenario(workload, seed, "strawman", Ordering.NONE)
    for exchange in EXCHANGES:
        other = workload_scenario(workload, seed, exchange, Ordering.CAUSAL)
        assert msgspec.structs.replace(other, exchange="strawman", ordering=Ordering.NONE) == first


@settings(max_examples=50, deadline=None)
@given(WORKLOADS, SEEDS)
def test_the_cycle_has_its_length_and_a_tree_is_left(workload, seed):
    scenario = workload_scenario(workload, seed, "path", Ordering.CAUSAL)
    cycle = cycle_of(scenario)
    assert len(cycle) == workload.cycle
    assert len(linked_after(scenario)) == workload.brokers
    assert any(set(exchange_of(scenario).remove) == {x, y} for x, y in pairwise(cycle))


def test_latencies_differ_by_25_times():
    scenario = workload_scenario(ExchangeWorkload(6), 1, "path", Ordering.CAUSAL)
    seconds = [span.low for a, b, span in scenario.latency.links if {a, b} <= set(scenario.brokers)]
    assert max(seconds) / min(seconds) == LATENCY_RATIO
    assert len(set(seconds)) > len(seconds) / 4


def test_listeners_share_their_filters_with_nobody():
    scenario = workload_scenario(ExchangeWorkload(6), 1, "path", Ordering.CAUSAL)
    wanted = [client.subscribe[0] for client in scenario.clients if client.id.startswith("listener")]
    assert len(set(wanted)) == len(wanted)
    others = [text for client in scenario.clients if not client.id.startswith("listener") for text in client.subscribe]
    assert not {*wanted} & {*others}


def test_who_sees_an_event_and_its_answer_is_somebody_else():
    """Else causal order could not break."""
    scenario = workload_scenario(ExchangeWorkload(6), 1, "path", Ordering.CAUSAL)
    for topic in range(4):
        assert f"re = {topic}" in scenario.client(f"observer{topic}").subscribe
        assert f"of = {topic}" in scenario.client(f"observer{topic}").subscribe
        assert scenario.client(f"answering{topic}").reply


def test_clients_change_their_minds_during_a_lively_exchange_only():
    lively, steady = (
        workload_scenario(ExchangeWorkload(6, is_lively=x), 1, "path", Ordering.CAUSAL) for x in (True, False)
    )
    assert sum(EXCHANGE_AT - 0.1 < step.at < EXCHANGE_AT + 0.5 for step in lively.steps) > 10
    assert {type(step) for step in steady.steps} == {Exchange, Drain}


@settings(max_examples=20, deadline=None)
@given(st.integers(5, 60), st.sampled_from((0.2, 0.8)), SEEDS)
def test_dispatchers_form_a_tree_before_and_after(count, density, seed):
    scenario = dispatchers_scenario(Dispatchers(count, density, 1.0), seed, "path")
    before = Topology.of(scenario.links, scenario.brokers)
    assert len(linked_after(scenario)) == count
    assert max(len(before.neighbours(broker)) for broker in before.brokers) <= DEGREE_MAX
    assert sum(bool(client.subscribe) for client in scenario.clients) == round(count * density)
    assert all(client.publish for client in scenario.clients)
