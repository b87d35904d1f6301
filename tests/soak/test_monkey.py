"""What the monkey chooses: from its seed and what it sees, and never what the rules forbid."""

from collections import Counter
from itertools import pairwise

import pytest
from msgspec.structs import replace

from pleach.core.overlay.plans import Topology
from pleach.soak import actions
from pleach.soak.actions import KINDS, kind_of, touches
from pleach.soak.monkey import AWAY, Monkey, Seen, is_possible
from pleach.soak.settings import WEIGHTS, SoakSettings, broker_names, scenario_of

SETTINGS = SoakSettings(calm=5, settle_every=4, weights=dict.fromkeys(WEIGHTS, 1.0))
SCENARIO = scenario_of(SETTINGS)
TREE = Topology.of(SCENARIO.links)
CALM = Seen(
    tree=TREE,
    homes={name: name for name in TREE.brokers},
    machines=TREE.brokers,
    clients={client.id: client.broker for client in SCENARIO.clients},
)


def seen_with(*under_way):
    return Seen(CALM.tree, CALM.homes, CALM.machines, CALM.clients, under_way)


def chosen(settings, count, seen=CALM):
    monkey = Monkey(settings)
    return [action for _ in range(count) if (action := monkey.choose(seen)) is not None]


def test_the_same_seed_chooses_the_same_and_another_one_something_else():
    assert chosen(SETTINGS, 200) == chosen(SETTINGS, 200)
    assert chosen(SETTINGS, 200) != chosen(replace(SETTINGS, seed=2), 200)


def test_in_time_it_does_everything():
    kinds = Counter(kind_of(action) for action in chosen(SETTINGS, 4_000))
    assert kinds.keys() == KINDS.keys()
    assert min(kinds.values()) > 10


def test_it_does_nothing_that_has_no_weight():
    settings = replace(SETTINGS, weights={"swap": 1.0, "cut": 1.0, "destroy": 0.0})
    assert {kind_of(action) for action in chosen(settings, 500)} == {"swap", "cut", "settle"}


def test_at_first_the_network_becomes_whole_after_each_action_and_later_after_some():
    kinds = [kind_of(action) == "settle" for action in chosen(SETTINGS, 30)]
    calm = [False, True] * SETTINGS.calm
    assert kinds[: len(calm)] == calm
    assert kinds[len(calm) :][: 2 * (SETTINGS.settle_every + 1)] == ([False] * SETTINGS.settle_every + [True]) * 2


def test_no_more_is_under_way_than_may_be():
    busy = seen_with(*[actions.Traffic(factors={})] * SETTINGS.overlap)
    monkey = Monkey(SETTINGS)
    assert monkey.choose(busy) is None
    assert monkey.choose(CALM) is not None


@pytest.mark.parametrize("seed", range(20))
def test_a_machine_is_struck_by_one_thing_at_a_time(seed):
    under_way = (actions.Stop(machine="b3", seconds=1.0), actions.Cut(link=("b1", "b2"), seconds=1.0))
    settings = replace(SETTINGS, seed=seed, calm=0, overlap=10)
    for action in chosen(settings, 300, seen_with(*under_way)):
        assert not touches(action) & {"b1", "b2", "b3"}, action


def test_a_broker_is_busy_where_it_runs():
    seen = Seen(
        CALM.tree, {**CALM.homes, "b1": "b2"}, CALM.machines, CALM.clients, (actions.Kill(broker="b1", seconds=1),)
    )
    assert seen.busy == {"b1", "b2"}
    assert not {"b1", "b2"} & {*seen.free_brokers, *seen.free_machines}


def test_a_machine_is_destroyed_only_while_no_other_is_away():
    destroy = actions.Destroy(machine="b1", fresh="x1")
    away = [
        actions.Kill(broker="b5", seconds=1),
        actions.PowerCut(machine="b5", seconds=1),
        actions.Upgrade(machine="b5"),
        actions.Stop(machine="b5", seconds=1),
        actions.Partition(side=("b5",), one_way=False, seconds=1),
        actions.Leave(broker="b5"),
    ]
    assert {*map(type, away)} == {*AWAY}
    for each in away:
        assert not is_possible(destroy, seen_with(each))
        assert not is_possible(each, seen_with(destroy))
        assert is_possible(each, CALM)
    assert is_possible(destroy, CALM)


def test_the_number_of_brokers_stays_near_that_of_the_beginning():
    names = broker_names(SETTINGS)
    small = Topology.of(list(pairwise(names[:7])))
    many = [*names, "n1", "n2"]
    large = Topology.of(list(pairwise(many)))
    for tree, never in ((small, "leave"), (large, "join")):
        seen = Seen(tree, {name: name for name in tree.brokers}, tree.brokers, {})
        settings = replace(SETTINGS, weights={"join": 1.0, "leave": 1.0}, calm=0)
        assert never not in {kind_of(action) for action in chosen(settings, 200, seen)}


def test_storms_draw_from_a_number_of_filters_that_ends():
    """What the judge remembers of filters stays, so there must not be more and more of them."""
    storms = chosen(replace(SETTINGS, weights={"storm": 1.0}), 3_000)
    filters = {text for action in storms if isinstance(action, actions.Storm) for text in action.filters}
    assert len(filters) < 2_000


def test_it_acts_until_the_time_is_over():
    monkey = Monkey(replace(SETTINGS, seconds=60.0, every=4.0))
    assert monkey.pause(59.999) <= 60.0 - 59.999
    assert monkey.pause(60.0) is None
