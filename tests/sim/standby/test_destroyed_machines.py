"""Machines that are destroyed, crash or are cut off: brokers come back elsewhere with all that they had."""

import pytest

from pleach.errors import ScenarioError
from pleach.scenario.load import load_scenario, parse_scenario
from pleach.sim.run import ScenarioRun, run_scenario
from pleach.trace import RecordKind, judge

CHAIN = """
name = "chain"
routing = "covering"
links = [["a", "b"], ["b", "c"], ["c", "d"]]
duration = 6.0

[standby]
after = 0.5

[[clients]]
id = "p"
broker = "a"
publish = { every = 0.05, attributes = { x = { uniform = [0, 100] } } }

[[clients]]
id = "q"
broker = "b"
subscribe = ["x > 10"]
publish = { every = 0.07, attributes = { x = { uniform = [0, 100] } } }

[[clients]]
id = "s"
broker = "d"
subscribe = ["x > 50"]
"""


def story(*steps, more=""):
    return parse_scenario(CHAIN + "".join(f"\n[[steps]]\n{step}\n" for step in steps) + more)


def clean(scenario, seeds=range(3)):
    results = [run_scenario(scenario, seed) for seed in seeds]
    for result in results:
        verdict = judge(result.records)
        assert result.quiet
        assert verdict.clean, verdict.violations
        assert not result.refusals
    return results


def notes(result, node):
    return [r.detail for r in result.records if r.kind is RecordKind.STATE and r.node == node]


def places(result, broker):
    return [note.removeprefix("serves at ") for note in notes(result, broker) if note.startswith("serves at ")]


@pytest.mark.parametrize("broker", "abcd")
def test_a_broker_comes_back_elsewhere(broker):
    for result in clean(story(f'at = 2.0\ndo = "destroy"\nbroker = "{broker}"')):
        assert len(places(result, broker)) == 2
        assert places(result, broker)[1] != broker


def test_the_example_loses_two_machines():
    for result in clean(load_scenario("examples/destroyed-machine.toml")):
        assert len(places(result, "middle")) == 3


def test_a_short_crash_leaves_the_broker_where_it_is():
    steps = ('at = 2.0\ndo = "crash"\nbroker = "b"', 'at = 2.2\ndo = "restart"\nbroker = "b"')
    for result in clean(story(*steps)):
        assert set(places(result, "b")) == {"b"}


def test_after_a_long_crash_the_broker_runs_elsewhere_and_its_machine_holds_copies():
    steps = ('at = 1.0\ndo = "crash"\nbroker = "b"', 'at = 3.0\ndo = "restart"\nbroker = "b"')
    for seed in range(3):
        run = ScenarioRun(story(*steps), seed)
        result = run.finish()
        assert judge(result.records).clean
        assert places(result, "b")[-1] != "b"
        assert run.standbys.hosts["b"].is_up
        assert "b" not in run.standbys.hosts["b"].running


def test_a_broker_that_is_cut_off_serves_nobody_and_yields():
    for result in clean(story('at = 1.0\ndo = "partition"\nsides = [["b"]]\nseconds = 3.0')):
        assert places(result, "b")[-1] != "b"


def test_a_network_cut_in_halves_is_one_again():
    clean(story('at = 1.0\ndo = "partition"\nsides = [["a", "b"], ["c", "d"]]\nseconds = 3.0'))


@pytest.mark.parametrize("sides", ['[["b"]]', '[["a", "c", "d"], ["b"]]'])
def test_a_broker_that_is_cut_off_in_one_direction(sides):
    clean(story(f'at = 1.0\ndo = "partition"\nsides = {sides}\nseconds = 3.0\none_way = true'))


def test_a_link_that_is_cut_for_long_moves_nobody():
    steps = ('at = 1.0\ndo = "cut"\nlink = ["b", "c"]', 'at = 4.0\ndo = "heal"\nlink = ["b", "c"]')
    for result in clean(story(*steps)):
        assert set(places(result, "b")) == {"b"}
        assert set(places(result, "c")) == {"c"}


def test_a_broker_that_has_left_is_forgotten_and_its_machine_goes():
    run = ScenarioRun(story('at = 1.0\ndo = "remove_broker"\nbroker = "d"'), 1)
    result = run.finish()
    assert judge(result.records).clean
    assert run.standbys.brokers["d"].is_dissolved
    assert not any("d" in host.disk.registers for host in run.standbys.hosts.values())


@pytest.mark.parametrize("after", [0.0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5])
def test_a_broker_that_leaves_while_its_machine_is_lost_runs_nowhere_in_the_end(after):
    """Whatever its copies have heard by then: who promotes it finds that it has left, and lets it go."""
    scenario = story('at = 2.0\ndo = "remove_broker"\nbroker = "d"')
    for seed in range(3):
        run = ScenarioRun(scenario, seed)
        run.advance(2.0 + after)
        run.outages.destroy(run.standbys.hosts["d"])
        result = run.finish()
        assert judge(result.records).clean
        assert not result.refusals
        running = {broker for host in run.standbys.hosts.values() if host.is_up for broker in host.running}
        assert running == {"a", "b", "c"}, seed


def test_a_broker_that_joins_has_a_standby_before_it_is_linked():
    run = ScenarioRun(story('at = 1.0\ndo = "add_broker"\nbroker = "n"\nto = "b"'), 1)
    result = run.finish()
    told = notes(result, "n")
    assert judge(result.records).clean
    assert told.index("serves at n") > next(i for i, note in enumerate(told) if "standby" in note)
    assert run.brokers["n"].router.neighbours


def test_destruction_needs_standbys():
    with pytest.raises(ScenarioError, match=r"add \[standby\]"):
        parse_scenario(
            CHAIN.replace("[standby]\nafter = 0.5", "") + '\n[[steps]]\nat = 1.0\ndo = "destroy"\nbroker = "a"\n'
        )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("after = 0.5", "after = 0.01"), "8 times that"),
        (("after = 0.5", "copies = 3"), "majority of 5 machines"),
        (("after = 0.5", 'machines = ["p"]'), "a broker or a client"),
        (("after = 0.5", "copies = 4"), "from 2 to 3"),
    ],
)
def test_settings_that_cannot_work_are_refused(change, reason):
    with pytest.raises(ScenarioError, match=reason):
        parse_scenario(CHAIN.replace(*change))
