"""What a file may say, in all its spellings, and what comes out of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events.language import parse_filter
from pleach.scenario import load_scenario, parse_scenario, scenario_digest
from pleach.scenario.clients import derived_advertisements, initial_advertisements, subscription_names
from pleach.scenario.model import Ordering, PerLink, PublishLoad, Reply, Routing, Scenario, ScenarioClient
from pleach.scenario.read import READERS
from pleach.scenario.steps import STEP_KINDS, Crash, Drain, Restart, Slow
from pleach.scenario.values import Choice, Sequence, Span, Uniform

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))

TREE = """
name = "n"
routing = "simple"
links = [["a", "b"], ["b", "c"]]
duration = 10
"""


def client(text: str) -> ScenarioClient:
    return parse_scenario(f'{TREE}[[clients]]\nid = "p"\nbroker = "a"\n{text}').clients[0]


def test_defaults():
    scenario = parse_scenario(TREE)
    assert scenario == Scenario(
        name="n",
        routing=Routing.SIMPLE,
        hierarchical=False,
        root="a",
        advertisements=False,
        merge_bound=0.0,
        ordering=Ordering.CAUSAL,
        exchange="swaplink",
        links=(("a", "b"), ("b", "c")),
        brokers=("a", "b", "c"),
        duration=10.0,
    )
    assert scenario.latency.of("a", "b") == Span(0.001, 0.005)
    assert scenario.loss.of("a", "b") == 0.0


def test_a_single_broker_needs_no_links():
    scenario = parse_scenario('name = "n"\nrouting = "flooding"\nbrokers = ["only"]\nduration = 1\n')
    assert (scenario.brokers, scenario.links, scenario.root) == (("only",), (), "only")


def test_listed_brokers_come_first():
    assert parse_scenario(TREE + 'brokers = ["c", "a"]\n').brokers == ("c", "a", "b")


def test_every_field_has_a_reader():
    by_hand = {"latency", "loss"}  # their keys need the nodes
    for kind in (Scenario, ScenarioClient, PublishLoad, Reply, *STEP_KINDS.values()):
        for field in msgspec.structs.fields(kind):
            assert field.type in READERS or field.name in by_hand, (kind, field.name)


def test_one_table_or_a_list_of_them():
    one = "{ every = 1, attributes = {} }"
    assert client(f"publish = {one}").publish == client(f"publish = [{one}]").publish
    assert len(client(f"publish = [{one}, {one}]").publish) == 2
    assert len(client("[[clients.publish]]\nevery = 1\nattributes = {}\n" * 3).publish) == 3
    reply = "{ to = 'x = 1', with = {} }"
    assert client(f"reply = {reply}").reply == client(f"reply = [{reply}]").reply == (Reply(to="x = 1", attributes={}),)


def test_a_load_in_full():
    times = "every = [1, 2], from = 1, until = 9, count = 5"
    text = f"publish = {{ {times}, payload_bytes = 10, attributes = {{ a = true }} }}"
    expected = PublishLoad(
        every=Span(1.0, 2.0), start=1.0, until=9.0, count=5, attributes={"a": True}, payload_bytes=10
    )
    assert client(text).publish == (expected,)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("7.5", 7.5),
        ("true", True),
        ("'t'", "t"),
        ("{ uniform = [0, 10] }", Uniform(0, 10)),
        ("{ uniform = [0, 10.0] }", Uniform(0, 10.0)),
        ("{ choice = ['x', 2, false] }", Choice(("x", 2, False))),
        ("{ sequence = true }", Sequence()),
    ],
)
def test_attributes(text, value):
    (load,) = client(f"publish = {{ every = 1, attributes = {{ x = {text} }} }}").publish
    assert load.attributes == {"x": value}
    assert type(load.attributes["x"]) is type(value)


def test_integer_ends_stay_integers():
    (load,) = client("publish = { every = 1, attributes = { x = { uniform = [0, 10] } } }").publish
    assert type(load.attributes["x"].low) is int


def test_attributes_are_drawn_in_one_order_however_the_file_orders_them():
    texts = [
        "publish = { every = 1, attributes = { a = 1, b = 2 } }",
        "publish = { every = 1, attributes = { b = 2, a = 1 } }",
    ]
    first, second = (parse_scenario(f'{TREE}[[clients]]\nid = "p"\nbroker = "a"\n{text}') for text in texts)
    assert scenario_digest(first) == scenario_digest(second)
    assert list(second.clients[0].publish[0].attributes) == ["a", "b"]


def test_steps_are_in_the_order_in_which_they_happen():
    steps = '[[steps]]\nat = 5\ndo = "restart"\nbroker = "a"\n[[steps]]\nat = 2\ndo = "crash"\nbroker = "a"\n'
    drains = '[[steps]]\nat = 2\ndo = "drain"\n'
    assert parse_scenario(TREE + steps + drains).steps == (
        Crash(at=2.0, broker="a"),
        Drain(at=2.0),
        Restart(at=5.0, broker="a"),
    )


def test_a_slow_client_link():
    who = '[[clients]]\nid = "p"\nbroker = "a"\n'
    step = '[[steps]]\nat = 1\ndo = "slow"\nlink = ["p", "a"]\nlatency = 0.5\n'
    assert parse_scenario(TREE + who + step).steps == (Slow(at=1.0, link=("p", "a"), latency=Span(0.5, 0.5)),)


# Per link ---------------------------------------------------------------------------------------------------

DASHED = """
name = "n"
routing = "simple"
links = [["a-b", "c"], ["c", "a"]]
duration = 10
[[clients]]
id = "p-1"
broker = "a-b"
"""


def test_keys_of_links_in_either_direction_with_dashes_and_clients():
    latency = parse_scenario(DASHED + '[latency]\n"c-a-b" = 1\n"a-c" = 2\n"p-1-a-b" = [3, 4]\ndefault = 5\n').latency
    assert latency.of("a-b", "c") == latency.of("c", "a-b") == Span(1.0, 1.0)
    assert latency.of("c", "a") == Span(2.0, 2.0)
    assert latency.of("a-b", "p-1") == Span(3.0, 4.0)
    assert latency.of("c", "p-1") == Span(5.0, 5.0)


def test_links_that_a_step_may_bring_can_have_a_latency_too():
    swap = '[[steps]]\nat = 1\ndo = "swap"\nbrokers = ["a", "b", "c"]\n'
    assert parse_scenario(f'{TREE}[latency]\n"a-c" = 1\n{swap}').latency.of("c", "a") == Span(1.0, 1.0)
    added = '[[steps]]\nat = 1\ndo = "add_broker"\nbroker = "d"\nto = "a"\n'
    assert parse_scenario(f'{TREE}[latency]\n"a-d" = 1\n{added}').latency.of("d", "a") == Span(1.0, 1.0)


def test_loss():
    loss = parse_scenario(f'{TREE}[loss]\ndefault = 0.1\n"a-b" = 0.5\n').loss
    assert (loss.of("b", "a"), loss.of("b", "c")) == (0.5, 0.1)


# What is derived --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "meaning"),
    [
        ("{ t = 'x', n = 1, f = true }", "f = TRUE AND n = 1 AND t = 'x'"),
        ("{ n = { uniform = [0, 10] } }", "n BETWEEN 0 AND 10"),
        ("{ n = { uniform = [5, 5] } }", "n = 5"),
        ("{ t = { choice = ['x', \"it's\"] } }", "t IN ('x', 'it''s')"),
        ("{ f = { choice = [true, false] } }", "f IN (TRUE, FALSE)"),
        ("{ m = { choice = ['x', 1] } }", "EXISTS m"),
        ("{ n = { sequence = true } }", "n >= 1"),
        ("{ 'odd name' = 1, and = 2 }", '"odd name" = 1 AND "and" = 2'),
        ("{}", "TRUE"),
    ],
)
def test_derived_advertisements(attributes, meaning):
    (text,) = derived_advertisements(client(f"publish = {{ every = 1, attributes = {attributes} }}"))
    assert parse_filter(text) == parse_filter(meaning)


def test_advertisements_of_loads_and_replies_once_each():
    text = """publish = [{ every = 1, attributes = { a = 1 } }, { every = 2, attributes = { a = 1 } }]
    reply = { to = "x = 1", with = { b = 2 } }"""
    assert derived_advertisements(client(text)) == ("a = 1", "b = 2")
    assert derived_advertisements(client("")) == ()


def test_what_a_client_advertises_at_the_start():
    load = "publish = { every = 1, attributes = { a = 1 } }\n"
    step = "[[steps]]\nat = 1\ndo = 'publish'\nclient = 'p'\nattributes = { b = 2 }\n"
    who = f"{TREE}[[clients]]\nid = 'p'\nbroker = 'a'\n{load}"
    without = parse_scenario(who + step)
    derived = parse_scenario(f"advertisements = true\n{who}{step}")
    explicit = parse_scenario(f"advertisements = true\n{who}advertise = ['EXISTS a']\n{step}")
    assert initial_advertisements(without, without.clients[0]) == ()
    assert initial_advertisements(derived, derived.clients[0]) == ("a = 1", "b = 2")
    assert initial_advertisements(explicit, explicit.clients[0]) == ("EXISTS a",)


@given(st.data())
def test_whatever_is_published_was_advertised(data):
    values = st.text(max_size=5) | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e9, 1e9) | st.booleans()
    attributes = data.draw(st.dictionaries(st.text(min_size=1, max_size=5), values, max_size=4))
    load = PublishLoad(every=Span(1, 1), attributes=attributes)
    (text,) = derived_advertisements(ScenarioClient(id="p", broker="a", publish=(load,)))
    assert parse_filter(text).matches(attributes)


def test_subscription_names_count_by_meaning():
    step = '[[steps]]\nat = 1\ndo = "subscribe"\nclient = "p"\nfilter = "{}"\n'
    clients = '[[clients]]\nid = "p"\nbroker = "a"\nsubscribe = ["x > 1", "y > 1"]\n'
    scenario = parse_scenario(TREE + clients + step.format("x  >  1") + step.format("z > 1"))
    assert subscription_names(scenario, scenario.client("p")) == {
        parse_filter("x > 1"): "s1",
        parse_filter("y > 1"): "s2",
        parse_filter("z > 1"): "s3",
    }


# Travelling -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_a_scenario_survives_json(file):
    scenario = load_scenario(file)
    back = msgspec.json.decode(msgspec.json.encode(scenario), type=Scenario)
    assert back == scenario
    assert scenario_digest(back) == scenario_digest(scenario)


def test_digests_tell_scenarios_apart_and_are_the_same_in_every_process():
    scenarios = [load_scenario(file) for file in EXAMPLES]
    digests = [scenario_digest(scenario) for scenario in scenarios]
    assert len(set(digests)) == len(digests)
    program = "import sys; from pleach.scenario import *; print(scenario_digest(load_scenario(sys.argv[1])))"
    elsewhere = subprocess.run([sys.executable, "-c", program, EXAMPLES[0]], capture_output=True, text=True, check=True)
    assert elsewhere.stdout.strip() == digests[0]
    assert scenario_digest(msgspec.structs.replace(scenarios[0], duration=99.0)) != digests[0]


LINKS = st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.integers())


@given(st.lists(LINKS, max_size=6).map(tuple))
def test_the_table_of_a_value_per_link_says_what_a_search_finds(links):
    """Also where a link is there twice, in whatever direction: the first one counts."""
    per_link = PerLink(-1, links)
    table = per_link.by_link()
    for x in "abc":
        for y in "abc":
            assert table.get((x, y), per_link.default) == per_link.of(x, y)
