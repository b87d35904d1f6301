"""What is captured of a broker belongs to the batch that it is written with: a crash after any commit is like none."""

import pytest

from pleach.core.broker import BrokerState
from pleach.core.links.upkeep import EndpointState
from pleach.core.messages import Attach, Withdraw, decode, unpack
from pleach.server.links import Port
from pleach.server.storage import committer
from pleach.server.storage.store import Store
from support.live.timed_node import SUBSCRIBED, in_world, publish, settled

SLOW_BYTES_MAX = 3_000


class Watched(Store):
    """Notes what a crash right after each commit would leave of a client, and of what its neighbour is to be told."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.seen = []

    def commit(self, batch, state=None, *, before=(), **options):
        super().commit(batch, state, before=before, **options)
        saved = self.load()
        if state is None or "s" not in saved.sessions:
            return
        machine = unpack(unpack(saved.state, EndpointState).machine, BrokerState)
        is_told = any(isinstance(decode(payload), Withdraw) for payload in saved.sessions["a"].outbox)
        self.seen.append(("s" in machine.clients, bool(saved.sessions["s"].outbox), is_told))


@pytest.fixture
def store(tmp_path):
    with Watched.open(tmp_path, "b", epoch=1) as store:
        yield store


def test_who_is_sent_away_is_gone_from_state_session_and_neighbour_in_one_commit(store, monkeypatch):
    async def scenario(world):
        await world.visit("s", *SUBSCRIBED)
        p = world.come("p", Attach())
        monkeypatch.setattr(committer, "JOURNAL_ENTRIES_MAX", -1)  # from now on each commit has a snapshot
        for n in range(1, 40):
            await world.tell("p", p, publish("p", n))
        assert world.node.counters.clients.evicted == 1
        here, gone = (True, True, False), (False, False, True)
        assert [seen for seen in store.seen if seen not in (here, gone)] == []
        assert {here, gone} == {*store.seen}

    in_world(scenario, store, neighbours=["a"], outbox_bytes_per_client=SLOW_BYTES_MAX)


def test_nothing_is_captured_ahead_of_its_batch(store):
    async def scenario(world):
        a = world.come("a", epoch=7, door=Port.PEERS)
        await world.tell("a", a)
        world.come("p", Attach())
        with pytest.raises(AssertionError, match="ahead of its batch"):
            world.node.endpoint.capture()
        await settled(world.node)

    in_world(scenario, store, neighbours=["a"])
