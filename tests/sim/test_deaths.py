"""Brokers that die for good in a scenario: what is refused, and what comes after."""

import pytest

from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.healing.stand_in import StandIn
from pleach.core.routing.clients import ClientTable
from pleach.core.routing.router import Router, RoutingConfig
from pleach.errors import HealingError, ScenarioError
from pleach.scenario.load import parse_scenario
from pleach.sim.healing import successor_of
from pleach.sim.run import run_scenario
from pleach.trace import RecordKind, judge

BASE = """
name = "a death"
routing = "covering"
ordering = "causal"
links = [["a", "x"], ["x", "b"], ["b", "d"]]
duration = 12.0
{heal}

[[clients]]
id = "p"
broker = "a"
publish = {{ every = 0.02, from = 0.2, until = 10.0, attributes = {{ topic = {{ choice = ["t", "u"] }} }} }}

[[clients]]
id = "q"
broker = "d"
subscribe = ["topic = 't'"]

[[clients]]
id = "r"
broker = "x"
subscribe = ["topic = 'u'"]
publish = {{ every = 0.05, from = 0.2, until = 10.0, attributes = {{ topic = "t" }} }}
{steps}
"""
HEAL = "[heal]\nafter = 0.5\ngrace = 2.0\n"
DEATH = '[[steps]]\nat = 2.0\ndo = "crash"\nbroker = "x"\nfor_good = true\n'


def scenario(steps=DEATH, heal=HEAL, **changes):
    text = BASE.format(heal=heal, steps=steps)
    for old, new in changes.items():
        text = text.replace(f'{old} = "causal"', f'{old} = "{new}"')
    return parse_scenario(text, "death.toml")


def details(result, node):
    return [r.detail for r in result.records if r.node == node and r.kind == RecordKind.STATE and not r.event]


def test_a_stand_in_gathers_merges_and_serves():
    result = run_scenario(scenario(), 1)
    assert result.quiet
    said = [detail.partition(": ")[2].partition(":")[0] for detail in details(result, "x") if "standin" in detail]
    assert said == ["gathering", "merging", "serving", "idle"]
    assert "stand-in at a, life 1" in details(result, "x")


def test_all_clients_go_on_with_it():
    verdict = judge(run_scenario(scenario(), 1).records)
    late = [r for r in run_scenario(scenario(), 1).records if r.kind == RecordKind.DELIVER and r.at > 2.6]
    assert {(r.client, r.event.partition("/")[0]) for r in late} == {("q", "p"), ("q", "r"), ("r", "p")}
    assert verdict.count("duplicate") == verdict.count("fifo") == verdict.count("causal") == 0


def test_the_former_broker_is_fenced():
    back = '[[steps]]\nat = 5.0\ndo = "restart"\nbroker = "x"\n'
    result = run_scenario(scenario(DEATH + back), 1)
    assert [refusal.reason for refusal in result.refusals] == [
        "broker x is fenced: its stand-in has a newer epoch; join as a new broker"
    ]


def test_a_stand_in_is_taken_out_of_the_tree_once_it_is_settled():
    removal = '[[steps]]\nat = 6.0\ndo = "remove_broker"\nbroker = "x"\n'
    brokers = {}
    result = run_scenario(scenario(DEATH + removal), 1, watch=brokers.update)
    assert result.quiet
    assert result.refusals == ()
    neighbours = {name: broker.router.neighbours for name, broker in brokers.items()}
    assert neighbours == {"a": ["b"], "b": ["d", "a"], "d": ["b"]}
    verdict = judge(result.records)
    assert verdict.count("duplicate") == verdict.count("fifo") == verdict.count("causal") == 0
    assert max(r.at for r in result.records if r.kind == RecordKind.DELIVER and r.client == "r") > 9.9


def test_while_it_serves_others_wait_with_reconfigurations():
    swap = '[[steps]]\nat = 3.0\ndo = "swap"\nbrokers = ["a", "x", "b"]\n'
    result = run_scenario(scenario(DEATH + swap), 1)
    ended = [r.at for r in result.records if r.detail == "operation 1: done"]
    settled = [r.at for r in result.records if r.detail == "standin: idle"]
    assert result.refusals == ()
    assert 3.0 < settled[0] < ended[0]


def test_an_operation_that_was_asked_of_the_dead_is_refused():
    swap = '[[steps]]\nat = 1.999\ndo = "swap"\nbrokers = ["x", "b", "d"]\n'
    result = run_scenario(scenario(swap + DEATH), 1)
    assert [refusal.reason for refusal in result.refusals] == ["broker x has died"]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: scenario(heal=""), "a broker that dies for good needs a stand-in"),
        (lambda: scenario(ordering="none"), "cannot tell what was delivered"),
    ],
)
def test_deaths_that_nobody_could_heal_are_refused(made, why):
    with pytest.raises(ScenarioError, match=why):
        made()


def test_a_machine_without_order_is_refused_too():
    router = Router(RoutingConfig())
    layers = BrokerContext("x", "", router, ClientTable(router), lambda: "")
    with pytest.raises(HealingError, match="rising order"):
        StandIn(layers, ordering="none", grace=1.0)


def test_the_next_by_name_is_the_host():
    assert successor_of("b", ["a", "c", "d"]) == "c"
    assert successor_of("z", ["a", "c"]) == "a"
