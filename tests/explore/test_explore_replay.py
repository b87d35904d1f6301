"""What the explorer finds happens in the simulator too, record by record."""

import pytest

from pleach.explore.counterexample import records_of, steps_of
from pleach.explore.search import check, explore
from pleach.explore.world import World
from pleach.scenario.schedule import Schedule
from pleach.scenario.script import script_of
from pleach.sim.replay import replay
from pleach.trace import judge
from support.explore.chains import ANSWERING, RESTLESS, SUBSCRIPTION, TINY, WITHDRAWAL, crash, restart

UNSEEN_BY_CLIENTS = {"send", "fault"}


def rows(records):
    """Records without what only one of the worlds has: the run's name, sends, faults."""
    kept = [r for r in records if r.kind not in UNSEEN_BY_CLIENTS]
    return [(r.at, r.node, r.kind, r.event, r.subscription, r.filter, r.attributes, r.detail) for r in kept]


@pytest.mark.parametrize(
    ("chain", "plant"),
    [
        (WITHDRAWAL, "overtaking-unsubscription"),
        (WITHDRAWAL, "forgotten-reexport"),
        (SUBSCRIPTION, "hasty-ack"),
        (SUBSCRIPTION, "doubled-forward"),
        (RESTLESS, "deaf-ear"),
    ],
)
def test_a_finding_replays(chain, plant):
    scenario = chain.scenario()
    finding = explore(scenario, plant=plant).finding
    result = replay(scenario, finding.schedule)
    assert result.quiet
    assert rows(result.records) == rows(finding.records)
    assert [str(v) for v in judge(result.records).violations] == [str(v) for v in finding.verdict.violations]


def test_a_finding_inside_the_brokers_replays():
    scenario = TINY.but(steps=TINY.steps[1:]).scenario()
    finding = explore(scenario, plant="forgotten-reexport").finding
    seen = []
    result = replay(scenario, finding.schedule, watch=lambda brokers: seen.append(check(brokers)))
    assert judge(result.records).clean
    assert [tuple(flaws) for flaws in seen] == [finding.kinds]


def last_moves(chain):
    """A world and one whole schedule through it: always the last move that is possible."""
    world = World(script_of(chain.scenario()))
    moves, state = [], world.start
    while possible := world.moves(state):
        moves.append(possible[-1])
        state = world.take(state, moves[-1])
    return world, moves


@pytest.mark.parametrize(
    "chain",
    [ANSWERING, WITHDRAWAL.but(steps=(crash("b"), *WITHDRAWAL.steps, restart("b")))],
    ids=["answers", "crash"],
)
def test_answers_and_crashes_replay(chain):
    world, moves = last_moves(chain)
    result = replay(chain.scenario(), Schedule("a chain", steps=steps_of(world, moves)))
    assert result.quiet
    assert rows(result.records) == rows(records_of(world, moves))
    assert judge(result.records).clean
