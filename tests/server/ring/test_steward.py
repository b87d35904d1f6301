"""The steward's judgement: what the ring wants, when it is known, and the way there, one link at a time."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.overlay.plans import Topology
from pleach.core.ring.chord import RingPhase
from pleach.core.ring.keys import Circle
from pleach.core.ring.reference_tree import arcs_of, parents_of, positions_of, reference_tree
from pleach.operate.ring_seats import RingSeat, wanted_tree
from pleach.operate.survey import BrokerStatus, LeavingStatus, NeighbourStatus, Survey
from pleach.server.ring.steward import is_unsettled, next_exchange, wanted_in

CIRCLE = Circle(32)
TREE = reference_tree(CIRCLE)
NAMES = [f"broker-{number}" for number in range(12)]


def seats(names):
    """What members of a ring at rest say, by who sees everything."""
    by_key = {CIRCLE.key_of(name): name for name in names}
    parents, arcs, positions = parents_of(TREE, by_key), arcs_of(CIRCLE, by_key), positions_of(TREE, by_key)
    ordered = sorted(by_key)
    return {
        name: RingSeat(
            RingPhase.MEMBER,
            CIRCLE.bits,
            key,
            arcs[key].low,
            positions[key].key,
            by_key[arcs[key].low],
            [by_key[other] for other in ordered if other != key],
            by_key.get(parents.get(key), ""),
            [by_key[child] for child in ordered if parents.get(child) == key],
        )
        for key, name in by_key.items()
    }


def seen(tree, around, **more):
    """As a walk over the brokers would find it."""
    found = Survey()
    for name in tree.brokers:
        neighbours = {other: NeighbourStatus(up=True, queued=0) for other in tree.neighbours(name)}
        found.found[name] = BrokerStatus(
            name, ready=True, durable=True, reasons=[], neighbours=neighbours, clients={}, ring=around.get(name), **more
        )
        found.admin[name] = f"127.0.0.1:{len(found.admin) + 1}"
    return found


def random_tree(names, seed):
    chance = Random(seed)
    return Topology.of([(name, chance.choice(names[:number])) for number, name in enumerate(names) if number], names)


def changed(seat, **values):
    return RingSeat(**{**{field: getattr(seat, field) for field in seat.__struct_fields__}, **values})


def test_members_at_rest_want_one_tree_with_few_neighbours():
    wish = wanted_tree(seats(NAMES))
    assert wish.doubts == ()
    assert wish.tree.brokers == tuple(sorted(NAMES))
    assert max(len(wish.tree.neighbours(name)) for name in NAMES) <= 3
    assert seats(NAMES)[wish.root].parent == ""


@pytest.mark.parametrize(
    ("values", "says"),
    [({"parent": ""}, "would be the root"), ({"children": []}, "does not know"), ({"parent": "z"}, "not in the tree")],
)
def test_where_members_differ_nothing_is_wanted(values, says):
    around = seats(NAMES)
    inner = next(name for name, seat in around.items() if seat.parent and seat.children)
    wish = wanted_tree({**around, inner: changed(around[inner], **values)})
    assert wish.tree is None
    assert says in " ".join(wish.doubts)


def test_who_is_no_member_any_more_has_no_say():
    around = seats(NAMES[:5])
    gone = {**around, "z": changed(around[NAMES[0]], phase=RingPhase.GONE, parent="")}
    assert wanted_tree(gone) == wanted_tree(around)
    assert wanted_tree({}).tree is None


@given(st.integers(2, len(NAMES)), st.integers(0, 10_000), st.sampled_from(["causal", "fifo"]))
def test_any_tree_becomes_that_of_the_ring_and_each_exchange_brings_one_link(count, seed, ordering):
    names = NAMES[:count]
    around, tree = seats(names), random_tree(names, seed)
    wanted = wanted_tree(around).tree
    missing = len({*wanted.links} - {*tree.links})
    while (plan := next_exchange(tree, wanted, seen(tree, around, ordering=ordering))) is not None:
        assert plan.start == tree
        tree = plan.result
        left = len({*wanted.links} - {*tree.links})
        assert left == missing - 1
        missing = left
    assert tree == wanted


def test_a_broker_outside_the_ring_keeps_a_link():
    names = [*NAMES[:4], "stranger"]
    tree, around = random_tree(names, 3), seats(NAMES[:4])
    wanted = wanted_tree(around).tree
    while (plan := next_exchange(tree, wanted, seen(tree, around))) is not None:
        tree = plan.result
    assert {*wanted.links} <= {*tree.links}
    assert tree.is_leaf("stranger")


def test_only_a_tree_at_rest_is_woven():
    around = seats(NAMES[:5])
    wish = wanted_tree(around)
    found = seen(wish.tree, around)
    assert wanted_in(found) == wish
    assert not is_unsettled(found)
    for name in NAMES[:5]:
        assert is_unsettled(_with(found, name, operation="x1"))
        assert is_unsettled(_with(found, name, leaving=LeavingStatus(waits_for=["client"])))
        assert is_unsettled(_with(found, name, ring=changed(around[name], is_leaving=True)))


def test_a_member_that_is_not_in_the_tree_yet_is_waited_for():
    around = seats(NAMES[:5])
    there = random_tree(NAMES[:4], 1)
    assert wanted_in(seen(there, around)).tree is None


def _with(found, name, **values):
    status = found.found[name]
    fields = {field: getattr(status, field) for field in status.__struct_fields__}
    return Survey({**found.found, name: BrokerStatus(**{**fields, **values})}, found.admin)
