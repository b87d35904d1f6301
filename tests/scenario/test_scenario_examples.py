"""Every example loads, and so does the one that the reference page shows."""

# ruff: noqa: E501 (the example is quoted word for word)
from __future__ import annotations

from pathlib import Path

import pytest

from pleach.scenario import load_scenario, parse_scenario
from pleach.scenario.model import Ordering, PublishLoad, Reply, Routing
from pleach.scenario.steps import PublishStep, Swap, UnsubscribeStep
from pleach.scenario.values import Span, Uniform

ROOT = Path(__file__).parents[2]
EXAMPLES = [*sorted((ROOT / "examples").glob("*.toml")), ROOT / "src" / "pleach" / "scenario" / "demo.toml"]
NAMES = {"swap-under-load", "churn", "chain-of-three", "advertisements", "crash-restart", "lossy", "demo"}

# Word for word the example of the design.
DESIGN = """
name = "swap under load"
routing = "covering"              # flooding simple identity covering merging; hierarchical = true; advertisements = true
ordering = "causal"
exchange = "swaplink"             # which protocol carries out reconfigurations; published variants have their own names
links = [["x","a"],["a","b"],["b","c"],["c","z"]]
duration = 20.0

[latency]                         # seconds: a number, or [low, high] uniform
default = [0.001, 0.005]
"a-b" = [0.008, 0.040]

[[clients]]
id = "p1"
broker = "x"
publish = { every = 0.01, from = 0.0, until = 10.0, attributes = { topic = "t1", price = { uniform = [0, 100] } } }
reply = { to = "topic = 'q'", with = { topic = "r" }, probability = 0.5, delay = [0.0, 0.01] }
subscribe = ["topic = 't1' AND price > 50"]

[[steps]]
at = 2.0
do = "swap"
brokers = ["a", "b", "c"]
"""


def test_the_named_examples_are_there():
    assert {file.stem for file in EXAMPLES} >= NAMES


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_example_loads(file):
    scenario = load_scenario(file)
    assert scenario.clients
    assert scenario.links


def test_the_design_example_says_what_it_says():
    scenario = parse_scenario(DESIGN)
    assert scenario.name == "swap under load"
    assert (scenario.routing, scenario.ordering, scenario.exchange) == (
        Routing.COVERING,
        Ordering.CAUSAL,
        "swaplink",
    )
    assert scenario.links == (("x", "a"), ("a", "b"), ("b", "c"), ("c", "z"))
    assert scenario.brokers == ("x", "a", "b", "c", "z")
    assert scenario.root == "x"
    assert scenario.latency.of("b", "a") == Span(0.008, 0.040)
    assert scenario.latency.of("b", "c") == Span(0.001, 0.005)
    (client,) = scenario.clients
    price = Uniform(0, 100)
    assert client.publish == (
        PublishLoad(every=Span(0.01, 0.01), start=0.0, until=10.0, attributes={"price": price, "topic": "t1"}),
    )
    assert client.reply == (Reply(to="topic = 'q'", attributes={"topic": "r"}, probability=0.5, delay=Span(0.0, 0.01)),)
    assert client.subscribe == ("topic = 't1' AND price > 50",)
    assert scenario.steps == (Swap(at=2.0, brokers=("a", "b", "c")),)


def test_chain_of_three_is_small_enough_to_explore():
    scenario = load_scenario(next(file for file in EXAMPLES if file.stem == "chain-of-three"))
    assert scenario.brokers == ("a", "b", "c")
    assert not any(client.publish or client.reply for client in scenario.clients)
    assert [type(step) for step in scenario.steps] == [PublishStep, UnsubscribeStep, PublishStep]


def test_demo_has_the_size_that_its_comments_promise():
    scenario = load_scenario(next(file for file in EXAMPLES if file.stem == "demo"))
    assert (len(scenario.brokers), len(scenario.clients)) == (9, 30)
    topics = [text for client in scenario.clients for text in client.subscribe]
    assert len(topics) == len(set(topics))
