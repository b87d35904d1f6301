"""The explorer against a walk through every single schedule."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pleach.explore.search import FAR, Search
from pleach.explore.world import World
from pleach.scenario.planted_bugs import PLANTS
from pleach.scenario.script import script_of
from support.explore.brute_force import complaints_of, walk_everything
from support.explore.chains import (
    ANSWERING,
    RESTLESS,
    SUBSCRIPTION,
    TINY,
    Chain,
    client,
    crash,
    publish,
    restart,
    subscribe,
    unsubscribe,
)
from support.thorough import FACTOR

WALKED_MAX = 400  # schedules of a drawn scenario

ONE_BROKER = Chain(brokers="a", clients=(client("p", "a"),), steps=(publish("p", 60),))
QUESTION = ANSWERING.but(brokers="ab", clients=ANSWERING.clients[:2], steps=ANSWERING.steps[:1])
CRASHED = Chain(
    brokers="ab",
    clients=(client("p", "a"), client("s", "b", "price > 50")),
    steps=(publish("p", 60), crash("b"), restart("b")),
)


def searched(chain, plant=""):
    scenario = chain.scenario()
    world = World(script_of(scenario), plant)
    search = Search(world, scenario.name, plant, FAR)
    found = search.run()
    return found, {past: complaints_of(verdict) for past, verdict in search.verdicts.items()}, world


def schedules_by_verdict(world, complaints, state, known):
    """How many schedules lead from a state to an end with which complaints. States that are one are counted as one."""
    if state not in known:
        moves = world.moves(state)
        if not moves:
            known[state] = Counter({complaints[world.history(state)]: 1})
        else:
            behind = [schedules_by_verdict(world, complaints, world.take(state, m), known) for m in moves]
            known[state] = sum(behind, Counter())
    return known[state]


def same(chain, plant=""):
    """Both ways give the same numbers, the same verdicts at the end of as many schedules, and failures equally near."""
    found, complaints, world = searched(chain, plant)
    walked = walk_everything(chain.scenario(), plant)
    assert found.complete
    assert found.schedules == walked.schedules.total()
    assert {found.shortest, found.longest} == {min(walked.lengths), max(walked.lengths)}
    assert set(complaints.values()) == walked.quiet
    assert schedules_by_verdict(world, complaints, world.start, {}) == walked.schedules
    if walked.shortest_violation is None:
        assert found.finding is None or found.finding.verdict is None
    else:
        assert found.finding.verdict.violations
        assert len(found.finding.schedule.steps) == walked.shortest_violation
    return found


def test_one_event_at_one_broker_has_one_schedule():
    """Publish, then it arrives, then its acknowledgement arrives: four states in a row."""
    found = same(ONE_BROKER)
    assert (found.states, found.transitions, found.schedules, found.quiet) == (4, 3, 1, 2)
    assert (found.shortest, found.longest) == (3, 3)


def test_two_clients_at_one_broker_interleave_like_two_packs_of_cards():
    """Each has three steps of its own, and neither concerns the other: 6! / (3! 3!) orders, 4 x 4 states."""
    chain = ONE_BROKER.but(clients=(client("p", "a"), client("q", "a")), steps=(publish("p", 60), publish("q", 70)))
    found = same(chain)
    assert (found.states, found.transitions, found.schedules) == (16, 24, 20)


@pytest.mark.parametrize(
    "chain",
    [TINY.but(routing="simple"), SUBSCRIPTION, QUESTION, CRASHED],
    ids=["withdrawal", "subscription", "answer", "crash"],
)
def test_merging_states_changes_no_count_and_no_verdict(chain):
    assert same(chain).failing == 0


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("chain", "plant"),
    [
        (TINY, "overtaking-unsubscription"),
        (TINY, "forgotten-reexport"),
        (SUBSCRIPTION, "hasty-ack"),
        (RESTLESS, "deaf-ear"),
    ],
)
def test_merging_states_hides_no_planted_bug_and_the_schedule_is_a_shortest_one(chain, plant):
    assert same(chain, plant).failing > 0


def test_a_doubled_event_is_found_by_both():
    chain = TINY.but(clients=(client("p", "a"), client("s", "b", "price > 50")), steps=(publish("p", 60),))
    assert same(chain, "doubled-forward").kinds.keys() == {"duplicate"}


FILTERS = ("price > 10", "price > 50")


@st.composite
def chains(draw):
    """Two clients that publish, subscribe, unsubscribe and subscribe again, at one broker or two."""
    brokers = draw(st.sampled_from(["a", "ab"]))
    clients = [
        client(name, draw(st.sampled_from(brokers)), *draw(st.lists(st.sampled_from(FILTERS), unique=True, max_size=2)))
        for name in "ps"
    ]
    steps = []
    for _ in range(draw(st.integers(1, 3))):
        who, text = draw(st.sampled_from("ps")), draw(st.sampled_from(FILTERS))
        match draw(st.sampled_from(["publish", "subscribe", "unsubscribe"])):
            case "publish":
                steps.append(publish(who, draw(st.sampled_from([20, 60]))))
            case "subscribe":
                steps.append(subscribe(who, text))
            case _ if text in clients["ps".index(who)] or subscribe(who, text) in steps:
                steps.append(unsubscribe(who, text))
    routing = draw(st.sampled_from(["simple", "covering"]))
    return Chain(brokers=brokers, routing=routing, clients=tuple(clients), steps=tuple(steps))


@given(chains(), st.sampled_from(["", *PLANTS]))
@settings(max_examples=20 * FACTOR, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_merging_states_changes_nothing_in_drawn_scenarios(chain, plant):
    assume(chain.steps)
    assume(searched(chain, plant)[0].schedules <= WALKED_MAX)
    same(chain, plant)
