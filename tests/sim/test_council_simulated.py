"""Brokers that improve their tree among themselves, message by message, with events flowing: judged by the oracle.

Six brokers in three zones, in a chain that leaves its zone with every link; nearly all events stay in theirs.
"""

from itertools import combinations

import msgspec
import pytest

from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.overlay.plans import Topology
from pleach.errors import ScenarioError
from pleach.scenario import parse_scenario
from pleach.scenario.initial_tree import initial_tree, read_initial_tree, tree_after
from pleach.scenario.model import PerLink
from pleach.scenario.values import Span
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind, explain, judge
from support.optimise.zoned_scenario import CHAIN, FAR, NEAR, forwarded, scenario
from support.thorough import FACTOR

SEEDS = range(2 * FACTOR)
CONDUCT = CouncilSettings(every=0.5, window=4.0, actions_per_minute_max=100)


def improving(seed=0, conduct=CONDUCT, duration=14.0):
    ground = scenario(name=f"council-{seed}")
    near, far = Span(NEAR / 1_000, NEAR / 1_000), Span(FAR / 1_000, FAR / 1_000)
    everywhere = tuple((a, b, near if a[0] == b[0] else far) for a, b in combinations(CHAIN, 2))
    latency = PerLink(ground.latency.default, everywhere)
    return msgspec.structs.replace(ground, latency=latency, improve=conduct, duration=duration)


def run(made, seed=0):
    going = ScenarioRun(made, seed)
    done = going.finish()
    verdict = judge(done.records)
    assert done.quiet
    assert verdict.clean, explain(verdict, done.records)
    return going, done


def decisions(done):
    return [each for each in done.records if each.kind == RecordKind.STATE and each.detail.startswith("improve ")]


def tree_of(going):
    return Topology.of(
        (name, to) for name, broker in going.brokers.items() for to in broker.router.neighbours if name < to
    )


def milliseconds(done, since, until):
    crossed = forwarded(done.records, since=since, until=until)
    return sum(count * (NEAR if a[0] == b[0] else FAR) for (a, b), count in crossed.items())


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tree_suits_its_traffic_after_a_while_and_nothing_is_lost(seed):
    going, done = run(improving(seed), seed)
    assert decisions(done)
    tree = tree_of(going)
    assert {("a1", "a2"), ("b1", "b2"), ("c1", "c2")} <= {*tree.links}
    notes = [(each.node, each.detail) for each in done.records if each.kind == RecordKind.STATE]
    assert {*tree_after(read_initial_tree(initial_tree(going.scenario)), notes).links} == {*tree.links}
    assert milliseconds(done, 13.0, 14.0) < 0.5 * milliseconds(done, 0.5, 1.5)


def test_a_dry_run_says_what_it_would_do_and_leaves_the_tree_as_it_is():
    going, done = run(improving(conduct=msgspec.structs.replace(CONDUCT, dry_run=True), duration=4.0))
    assert decisions(done)
    assert {each.detail.split(":")[0] for each in decisions(done)} == {"improve dry-run"}
    assert {*tree_of(going).links} == {tuple(sorted(ends)) for ends in going.scenario.links}


def test_the_same_seed_takes_the_same_course():
    one, other = (run(improving(duration=4.0))[1].records for _ in range(2))
    assert one == other


def test_brokers_that_crash_and_come_back_take_part_again():
    crash = 'at = 2.0\ndo = "crash"\nbroker = "c1"', 'at = 3.0\ndo = "restart"\nbroker = "c1"'
    text = "\n".join(f"[[steps]]\n{step}" for step in crash)
    steps = parse_scenario(f'name = "x"\nrouting = "simple"\nlinks = [["c1", "x"]]\nduration = 8.0\n{text}').steps
    made = msgspec.structs.replace(improving(), steps=steps)
    _, done = run(made)
    assert [each for each in decisions(done) if each.at > 3.0]
    assert milliseconds(done, 13.0, 14.0) < milliseconds(done, 0.5, 1.5)


HEAD = 'name = "x"\nrouting = "covering"\nlinks = [["a", "b"]]\nduration = 1.0\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[improve]\nevery = 0.0", "`improve.every`: 0 seconds"),
        ("[improve]\nevery = 5\nwindow = 6", "`improve.window`: 6 seconds"),
        ("[improve]\nradius = 9", "2 to 4"),
        ("[improve]\nsaving_min = 1.5", "no share"),
        ("[improve]\ndegree_max = 1", "2 to 1,000"),
        ("[improve]\nactions_per_minute_max = 0", "1 to 1,000"),
        ("[improve]\nevry = 1", "did you mean `every`"),
        ("hierarchical = true\n[improve]", "hierarchical"),
        ('[improve]\n[stabilise]\nkind = "rebuild"\nrefresh = 1\nperiod = 5', "only leases go with"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(text, reason):
    with pytest.raises(ScenarioError, match=reason.replace("[", "\\[")):
        parse_scenario(HEAD + text)


def test_an_empty_table_has_every_default():
    assert parse_scenario(f"{HEAD}[improve]").improve == CouncilSettings()


def test_links_that_may_come_to_be_have_latencies():
    three = HEAD.replace('[["a", "b"]]', '[["a", "b"], ["b", "c"]]')
    made = parse_scenario(f'{three}[improve]\n[latency]\n"a-c" = 0.5')
    assert made.latency.of("c", "a") == Span(0.5, 0.5)
