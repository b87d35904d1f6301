"""A node without sockets: what waits for the disk, what goes to which connection, what a failing disk leads to."""

import asyncio

import pytest

from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.endpoint import Batch
from pleach.core.links.frames import CLIENT, Ack, Data, Hello
from pleach.core.messages import Attach, Deliver, Publish, Published, PublishRefused, Subscribe, encode
from pleach.core.messages.runs import decode_all
from pleach.core.standby.positions import Position
from pleach.errors import StoreBrokenError, StoreFullError
from pleach.server.backpressure import Backpressure
from pleach.server.links import Port
from pleach.server.node import EXIT_DISK, BrokerNode
from pleach.server.settings import BrokerSettings
from pleach.server.storage.committer import Committed, shortage
from pleach.server.storage.outgoing import Durable
from pleach.server.storage.store import Store

TURNS_MAX = 2_000


class Wire:
    unsent_bytes = 0

    """A connection that keeps what is sent."""

    def __init__(self):
        self.sent = []
        self.closed = ""
        self.paused = False

    def send(self, frame):
        self.sent.append(frame)

    def close(self, reason=""):
        self.closed = reason

    def pause_reading(self):
        self.paused = True

    def resume_reading(self):
        self.paused = False

    def messages(self):
        return [message for frame in self.sent if isinstance(frame, Data) for message in decode_all(frame.payload)]


class MoodyStore(Store):
    """A real store whose disk can be full, or fail, on request."""

    mood = None

    def commit(self, batch, state=None, **options):
        if self.mood is not None and (batch.queued or batch.journal or state):
            raise self.mood
        super().commit(batch, state, **options)


@pytest.fixture
def store(tmp_path):
    with MoodyStore.open(tmp_path, "b", epoch=1) as store:
        yield store


def node_with(store, fatal=None):
    settings = BrokerSettings("b")
    on_fatal = (fatal if fatal is not None else []).append
    return BrokerNode(settings, store, 1, clock=lambda: 0.0, on_end=lambda code, reason: on_fatal((code, reason)))


def greet(node, name, epoch=5, received=0):
    wire = Wire()
    refusal = node.accept(wire, Hello(name, epoch, 1 if received else 0, received, 1, role=CLIENT), Port.CLIENTS)
    assert not refusal
    return wire


def tell(node, name, wire, *messages, first=1):
    for sequence, message in enumerate(messages, first):
        node.receive(name, wire, Data(sequence, encode(message)))


def event(n):
    return Publish(Event(EventId("p", 0, n), {"n": n}))


async def until(condition):
    for _ in range(TURNS_MAX):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("did not come true")


async def subscriber_and_publisher(node):
    s, p = greet(node, "s"), greet(node, "p")
    tell(node, "s", s, Attach(), Subscribe("all", parse_filter("n >= 0")))
    tell(node, "p", p, Attach())
    await until(lambda: len(s.messages()) == 2 and len(p.messages()) == 1)
    return s, p


def test_nothing_leaves_before_the_commit(store):
    async def scenario():
        node = node_with(store)
        s, p = await subscriber_and_publisher(node)
        store.mood = StoreFullError("full")
        s.sent.clear()
        p.sent.clear()
        tell(node, "p", p, event(1), first=2)
        await until(lambda: node.committer.shortage)
        assert not s.sent
        assert not [frame for frame in p.sent if isinstance(frame, Ack | Data)]
        tell(node, "p", p, event(2), first=3)  # refused up front, and the refusal waits too
        store.mood = None
        await until(lambda: len(p.messages()) == 2)
        assert [type(message) for message in p.messages()] == [Published, PublishRefused]
        assert [message.event.id.sequence for message in s.messages()] == [1]
        assert not node.committer.shortage
        node.committer.close()

    asyncio.run(scenario())


def test_while_the_disk_is_full_what_is_on_it_is_still_delivered(store):
    """A consumer that comes in that time gets what was kept for it; its confirmations go ahead of what is held."""

    async def scenario():
        node = node_with(store)
        s, p = await subscriber_and_publisher(node)
        node.receive("s", s, Ack(2))
        node.lost("s", s)
        tell(node, "p", p, event(1), event(2), first=2)
        await until(lambda: len(p.messages()) == 3)
        store.mood = StoreFullError("full")
        tell(node, "p", p, event(3), first=4)
        await until(lambda: node.committer.shortage)
        again = greet(node, "s", received=2)
        await until(lambda: len(again.messages()) == 2)
        assert isinstance(again.sent[0], Hello)
        assert [message.event.id.sequence for message in again.messages()] == [1, 2]
        node.receive("s", again, Ack(3))  # both came in one payload
        await until(lambda: store.load().sessions["s"].first == 4)
        store.mood = None
        await until(lambda: len(again.messages()) == 3)
        assert again.messages()[-1] == Deliver(event(3).event)
        node.committer.close()

    asyncio.run(scenario())


def test_a_disk_that_fails_ends_the_process_and_nothing_is_acknowledged(store):
    async def scenario():
        fatal = []
        node = node_with(store, fatal)
        s, p = await subscriber_and_publisher(node)
        store.mood = StoreBrokenError("disk I/O error")
        before = len(p.sent), len(s.sent)
        tell(node, "p", p, event(1), first=2)
        await until(lambda: fatal)
        assert fatal[0][0] == EXIT_DISK
        assert (len(p.sent), len(s.sent)) == before
        node.committer.close()

    asyncio.run(scenario())


def test_frames_made_for_a_connection_do_not_go_to_the_next_one(store):
    async def scenario():
        node = node_with(store)
        s, p = await subscriber_and_publisher(node)
        tell(node, "p", p, event(1), first=2)
        new = greet(node, "s", received=2)  # before what the event led to was committed
        await until(lambda: len(new.messages()) == 1)
        assert s.closed
        assert isinstance(new.sent[0], Hello)
        assert [frame.sequence for frame in new.sent if isinstance(frame, Data)] == [3]
        node.committer.close()

    asyncio.run(scenario())


def test_a_restarted_node_goes_on_where_it_was(tmp_path):
    async def first():
        with Store.open(tmp_path, "b", epoch=1) as store:
            node = node_with(store)
            s, p = await subscriber_and_publisher(node)
            node.lost("s", s)
            tell(node, "p", p, event(1), first=2)
            await until(lambda: len(p.messages()) == 2)

    async def second():
        with Store.open(tmp_path, "b", epoch=2) as store:
            assert store.epoch == 1
            node = node_with(store)
            assert node.features[Backpressure].outbox_bytes > 0
            s = greet(node, "s", received=2)
            await until(lambda: len(s.messages()) == 1)
            assert s.messages() == [Deliver(event(1).event)]
            node.committer.close()

    asyncio.run(first())
    asyncio.run(second())


def test_the_data_directory_wins_over_neighbours_that_the_settings_name(tmp_path, caplog):
    async def start_with(neighbours):
        with Store.open(tmp_path, "b", epoch=1) as store:
            settings = BrokerSettings("b", neighbours=neighbours)
            node = BrokerNode(settings, store, 1, clock=lambda: 0.0, on_end=lambda *_: None)
            found = node.broker.router.neighbours
            node.committer.close()
            return found

    assert asyncio.run(start_with(("a",))) == ["a"]
    assert not caplog.records
    assert asyncio.run(start_with(("c",))) == ["a"]
    assert "knows a as neighbours, the settings name c" in caplog.text


def test_it_takes_twice_the_reserve_to_be_out_of_a_shortage():
    quota, at = 8_000, Position(0, 1)
    assert shortage(Committed([1], at, 0.0, 999), quota, is_short=False)
    assert not shortage(Committed([1], at, 0.0, 1_000), quota, is_short=False)
    assert shortage(Committed([1], at, 0.0, 1_999), quota, is_short=True)
    assert not shortage(Committed([1], at, 0.0, 2_000), quota, is_short=True)
    assert shortage(Committed([], at, 0.0, 0, "full"), quota, is_short=False) == "full"


def test_what_is_allowed_ahead_of_a_commit(store):
    node = node_with(store)
    durable = Durable(node.endpoint)
    node.endpoint.admit("s")
    batch = node.endpoint.take_batch()
    queued = Batch.empty()._replace(progress={"s": batch.progress["s"]._replace(peer_epoch=5, received=3)})
    assert not durable.allows("s", Hello("b", 1, 5, 3, 1))
    durable.note(queued)
    assert durable.allows("s", Hello("b", 1, 5, 3, 1))
    assert not durable.allows("s", Hello("b", 1, 5, 4, 1))
    assert not durable.allows("s", Hello("b", 1, 6, 3, 1))
    assert durable.allows("s", Ack(3))
    assert not durable.allows("s", Ack(4))
    assert not durable.allows("s", Data(1, b""))
    node.committer.close()
