"""The steward's judgement: what the ring wants, when it is known, and the way there, one link at a time."""

import asyncio
import gc
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.overlay.plans import Topology
from pleach.core.ring.chord import RingPhase
from pleach.core.ring.keys import Circle
from pleach.core.ring.reference_tree import arcs_of, parents_of, positions_of, reference_tree
from pleach.operate.ring_seats import RingSeat, ring_wish, wanted_tree
from pleach.operate.survey import BrokerStatus, LeavingStatus, NeighbourStatus, Survey
from pleach.server.ring.steward import (
    REFUSED_SECONDS_MAX,
    Sight,
    Steward,
    is_kept,
    is_unsettled,
    next_exchanges,
    wanted_in,
)

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
def test_any_tree_becomes_that_of_the_ring_and_each_exchange_brings_one_link_and_takes_none(count, seed, ordering):
    names = NAMES[:count]
    around, tree = seats(names), random_tree(names, seed)
    wanted = wanted_tree(around).tree
    missing = len({*wanted.links} - {*tree.links})
    while (plan := next_exchanges(tree, ring_wish(around), seen(tree, around, raw={"ordering": ordering}))) is not None:
        assert plan.start == tree
        tree = plan.result
        left = len({*wanted.links} - {*tree.links})
        assert left == missing - len({*tree.links} - {*plan.start.links})
        missing = left
    assert tree == wanted


def test_a_broker_outside_the_ring_keeps_a_link():
    names = [*NAMES[:4], "stranger"]
    tree, around = random_tree(names, 3), seats(NAMES[:4])
    wanted = wanted_tree(around).tree
    while (plan := next_exchanges(tree, ring_wish(around), seen(tree, around))) is not None:
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


def test_the_tree_of_the_ring_is_not_known_while_a_member_is_not_in_the_tree():
    around = seats(NAMES[:5])
    there = random_tree(NAMES[:4], 1)
    assert wanted_in(seen(there, around)).tree is None


@given(st.integers(3, len(NAMES)), st.integers(0, 10_000), st.data())
def test_what_all_agree_on_is_made_while_others_join(count, seed, data):
    """Some have heard of the newcomers, some have not; those are on the ring, and not in the tree."""
    there = NAMES[:count]
    old, new = seats(there), seats(NAMES)
    around = {name: data.draw(st.sampled_from([old[name], new[name]])) for name in there}
    tree, wish = random_tree(there, seed), ring_wish(around)
    while (plan := next_exchanges(tree, wish, seen(tree, around))) is not None:
        assert wish.kept & {*tree.links} <= {*plan.result.links}, "no link that somebody wants goes"
        assert len(wish.links - {*plan.result.links}) < len(wish.links - {*tree.links})
        tree = plan.result


def test_exchanges_at_once_share_no_broker():
    names = [f"broker-{number}" for number in range(60)]
    around, tree = seats(names), random_tree(names, 5)
    plan = next_exchanges(tree, ring_wish(around), seen(tree, around, raw={"ordering": "fifo"}))
    assert len(plan.steps) > 3
    assert plan.waves == (tuple(range(len(plan.steps))),)


def test_a_newcomer_that_knows_no_neighbours_yet_is_not_taken_for_the_root():
    around = seats(NAMES[:5])
    root = wanted_tree(around).root
    assert ring_wish({**around, "new": changed(around[root], parent="", children=[])}).root == root
    other = next(name for name, seat in around.items() if seat.parent and seat.children)
    assert ring_wish({**around, other: changed(around[other], parent="")}).root == ""


def test_brokers_that_come_do_not_make_the_steward_look_again_but_links_that_go_do():
    before = random_tree(NAMES[:5], 1)
    grown = Topology.of([*before.links, (NAMES[5], NAMES[0])])
    assert is_kept(before, before)
    assert is_kept(before, grown)
    assert not is_kept(grown, before)
    assert not is_kept(None, before)


def _with(found, name, **values):
    status = found.found[name]
    fields = {field: getattr(status, field) for field in status.__struct_fields__}
    return Survey({**found.found, name: BrokerStatus(**{**fields, **values})}, found.admin)


FORBIDDEN = 403, b'{"error": "it may not"}'
LOCKED = 409, b'{"error": "it is locked", "operation": "x"}'
DONE = 200, b"{}"


def carried_out(*answers):
    """What the steward makes of exchanges that brokers answer so, the last answer again and again."""
    names = [f"broker-{number}" for number in range(60)]
    around, tree = seats(names), random_tree(names, 5)
    found = seen(tree, around)
    plan = next_exchanges(tree, ring_wish(around), found)
    assert len(plan.steps) > len(answers)
    left, unseen = list(answers), []

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        code, body = left.pop(0) if len(left) > 1 else left[0]
        writer.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (code, len(body), body))
        await writer.drain()
        writer.close()

    async def carry_out():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context["message"]))
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            found.admin.update(dict.fromkeys(found.admin, f"127.0.0.1:{port}"))
            steward = Steward(NAMES[0], SimpleNamespace(), SimpleNamespace())
            steward._refusals = 3
            steward.sight = await steward._carry_out(plan, found)
            gc.collect()
        return steward, len(plan.steps)

    steward, steps = asyncio.run(carry_out())
    assert unseen == [], "each would end the process"
    return steward, steps


def test_a_broker_that_lets_the_steward_do_nothing_is_a_refusal_and_no_bug():
    steward, _ = carried_out(FORBIDDEN)
    assert (steward.sight, steward._refusals, steward.exchanged) == (Sight.REFUSED, 4, 0)


def test_exchanges_of_which_all_are_refused_are_a_refusal_more():
    steward, _ = carried_out(LOCKED)
    assert (steward.sight, steward._refusals, steward.exchanged) == (Sight.REFUSED, 4, 0)


def test_exchanges_of_which_one_is_refused_count_and_are_no_reason_to_wait_ever_longer():
    steward, steps = carried_out(LOCKED, DONE)
    assert (steward.sight, steward._refusals, steward.exchanged) == (Sight.REFUSED, 1, steps - 1)


def test_after_exchanges_it_looks_again_at_once():
    steward, steps = carried_out(DONE)
    assert (steward.sight, steward._refusals, steward.exchanged) == (Sight.CHANGED, 0, steps)
    assert steward._pause() == 0.0


@pytest.mark.parametrize("refusals", [5, 2_000])
def test_after_many_refusals_it_waits_as_after_some(refusals):
    steward = Steward(NAMES[0], SimpleNamespace(), SimpleNamespace())
    steward.sight, steward._refusals = Sight.REFUSED, refusals
    assert steward._pause() == REFUSED_SECONDS_MAX
