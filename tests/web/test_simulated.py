"""The network for show: always a tree, whatever changes."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from pleach.core.overlay.plans import Topology
from pleach.web import simulated_source
from pleach.web.forms import Remove
from pleach.web.simulated_source import SimulatedSource


@given(st.integers(1, 60), st.integers(0, 5))
def test_it_is_a_tree_with_zones(count, seed):
    snapshot = asyncio.run(SimulatedSource(count, seed).snapshot())
    tree = Topology.of([tuple(key.split("\n")) for key in snapshot.links], snapshot.brokers)
    assert len(tree) == count
    assert all(broker.zone for broker in snapshot.brokers.values())


def test_the_tree_changes_by_itself(monkeypatch):
    monkeypatch.setattr(simulated_source, "SWAP_SECONDS", 0.0)
    monkeypatch.setattr(simulated_source, "PHASE_SECONDS", 0.0)

    async def test():
        source = SimulatedSource(40, 1)
        first = await source.snapshot()
        async with asyncio.timeout(30):
            while (snapshot := await source.snapshot()).links.keys() == first.links.keys():  # noqa: ASYNC110 - a step each
                await asyncio.sleep(0)
        return snapshot

    snapshot = asyncio.run(test())
    assert len(snapshot.links) == 39
    assert any(operation.state == "done" for operation in snapshot.operations.values())


def test_the_clients_of_one_that_goes_go_elsewhere(monkeypatch):
    monkeypatch.setattr(simulated_source, "PHASE_SECONDS", 0.0)

    async def test():
        source = SimulatedSource(10, 1)
        gone = (await source.snapshot()).clients["client-0"].broker
        draft = await source.draft(Remove(gone))
        left = await draft.carry_out(lambda *_: None)
        return gone, left, await source.snapshot()

    gone, left, snapshot = asyncio.run(test())
    assert left == ""
    assert gone not in snapshot.brokers
    assert {client.broker for client in snapshot.clients.values()} <= set(snapshot.brokers)
