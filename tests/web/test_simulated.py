"""The network for show: always a tree, whatever changes."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from pleach.core.overlay.plans import Topology
from pleach.web import simulated
from pleach.web.simulated import SimulatedSource
from pleach.web.wishes import Remove


@given(st.integers(1, 60), st.integers(0, 5))
def test_it_is_a_tree_with_zones(count, seed):
    picture = asyncio.run(SimulatedSource(count, seed).look())
    tree = Topology.of([tuple(key.split("\n")) for key in picture.links], picture.brokers)
    assert len(tree) == count
    assert all(broker.zone for broker in picture.brokers.values())


def test_the_tree_changes_by_itself(monkeypatch):
    monkeypatch.setattr(simulated, "SWAP_SECONDS", 0.0)
    monkeypatch.setattr(simulated, "PHASE_SECONDS", 0.0)

    async def test():
        source = SimulatedSource(40, 1)
        first = await source.look()
        async with asyncio.timeout(30):
            while (picture := await source.look()).links.keys() == first.links.keys():  # noqa: ASYNC110 - a step each
                await asyncio.sleep(0)
        return picture

    picture = asyncio.run(test())
    assert len(picture.links) == 39
    assert any(operation.state == "done" for operation in picture.operations.values())


def test_the_clients_of_one_that_goes_go_elsewhere(monkeypatch):
    monkeypatch.setattr(simulated, "PHASE_SECONDS", 0.0)

    async def test():
        source = SimulatedSource(10, 1)
        gone = (await source.look()).clients["client-0"].broker
        draft = await source.draft(Remove(gone))
        left = await draft.carry_out(lambda *_: None)
        return gone, left, await source.look()

    gone, left, picture = asyncio.run(test())
    assert left == ""
    assert gone not in picture.brokers
    assert {client.broker for client in picture.clients.values()} <= set(picture.brokers)
