"""A node with copies, seen from its wires: nothing that the copies do not have leaves, and all leaves in order."""

import asyncio

import pytest

from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import CLIENT, Ack, Data, Hello, Ping
from pleach.core.messages import Attach, Publish, Subscribe, encode
from pleach.errors import StoreFullError
from pleach.server.links import Port
from pleach.server.node import BrokerNode
from pleach.server.settings import BrokerSettings
from pleach.server.storage.store import Store
from support.live.timed_node import Wire
from support.live.tiny_broker import until


class FillableStore(Store):
    is_full = False

    def commit(self, batch, state=None, **options):
        if self.is_full and (batch.queued or batch.journal or state):
            raise StoreFullError("full")
        super().commit(batch, state, **options)


class Copies:
    """A node all of whose commits wait until the test says that the copies have them."""

    def __init__(self, store):
        self.store = store
        self.now = 0.0
        self.node = BrokerNode(BrokerSettings("b"), store, 1, clock=lambda: self.now, on_end=lambda *_: None)
        self.written = []
        self.node.committer.await_copies(self.written.append)

    def greet(self, name, **numbers):
        wire = Wire()
        hello = Hello(name, 5, *(numbers.get(key, default) for key, default in NUMBERS.items()), role=CLIENT)
        assert not self.node.accept(wire, hello, Port.CLIENTS)
        return wire

    def tell(self, name, wire, *messages, first=1):
        for sequence, message in enumerate(messages, first):
            self.node.receive(name, wire, Data(sequence, encode(message)))

    def confirm(self):
        """The copies have all that is on this disk."""
        self.node.committer.outgoing.confirmed(self.store.position.number)

    async def all_written(self):
        committer = self.node.committer
        await until(lambda: not (committer._is_flush_due or committer._parts or committer._commit))

    def tick(self, seconds=0.5):
        self.now += seconds
        self.node.tick()


NUMBERS = {"peer_epoch": 0, "received": 0, "first": 1}


def event(n):
    return Publish(Event(EventId("p", 0, n), {"n": n}))


def events_of(wire):
    return [message.event.id.sequence for message in wire.messages() if hasattr(message, "event")]


@pytest.fixture
def run(tmp_path):
    """Tells a story of broker b, which recovers what it had at the end of the former one."""

    def of(story):
        async def told():
            with FillableStore.open(tmp_path, "b", epoch=1) as store:
                b = Copies(store)
                await story(b)
                b.node.committer.close()

        asyncio.run(asyncio.wait_for(told(), 60))

    return of


@pytest.fixture
def run_with_clients(run):
    """Likewise, of a subscriber and a publisher too, whose requests the copies have."""

    def of(story):
        async def told(b):
            s, p = b.greet("s"), b.greet("p")
            b.tell("s", s, Attach(), Subscribe("all", parse_filter("n >= 0")))
            b.tell("p", p, Attach())
            await b.all_written()
            b.confirm()
            assert len(s.messages()) == 2
            await story(b, s, p)

        run(told)

    return of


def test_nothing_leaves_before_the_copies_have_it_and_then_all_of_it_in_order(run):
    async def story(b):
        s, p = b.greet("s"), b.greet("p")
        b.tell("s", s, Attach(), Subscribe("all", parse_filter("n >= 0")))
        await b.all_written()
        assert not s.sent
        assert b.written[-1] == b.store.position
        before = b.store.position.number
        b.tell("p", p, Attach(), event(1))
        await b.all_written()
        assert b.store.position.number > before  # commits do not wait
        assert not [*s.sent, *p.sent]
        b.node.committer.outgoing.confirmed(before)
        assert [type(frame) for frame in s.sent][:1] == [Hello]
        assert not events_of(s)
        b.confirm()
        assert events_of(s) == [1]
        assert b.node.committer.is_idle

    run(story)


def test_what_was_recovered_is_not_told_before_the_copies_have_it(run, run_with_clients):
    """The last commits of a primary that was killed may be on its own disk only."""

    async def first(b, s, p):
        b.node.lost("s", s)
        b.tell("p", p, event(1), first=2)
        await b.all_written()

    async def second(b):
        p = b.greet("p", peer_epoch=1)
        s = b.greet("s", peer_epoch=1, received=2)
        for _ in range(5):
            b.tick()
            await b.all_written()
        assert not [*p.sent, *s.sent]
        b.confirm()
        assert p.sent[0] == Hello("b", 1, 5, 2, 1, role=p.sent[0].role, token=p.sent[0].token)
        assert [message.event.id.sequence for message in s.messages()] == [1]

    run_with_clients(first)
    run(second)


def test_peers_are_kept_alive_and_get_what_was_confirmed_before_while_the_rest_waits(run_with_clients):
    async def story(b, s, p):
        b.tell("p", p, event(1), first=2)
        await b.all_written()
        b.confirm()
        b.node.receive("s", s, Ack(2))
        b.node.lost("s", s)
        b.tell("p", p, event(2), first=3)
        await b.all_written()
        p.sent.clear()
        again = b.greet("s", peer_epoch=1, received=2)
        for _ in range(4):
            b.node.receive("p", p, Ping())
            b.node.receive("s", again, Ping())
            b.tick()
            await b.all_written()
        assert Ping() in p.sent
        assert not [frame for frame in p.sent if isinstance(frame, Data | Ack)]
        assert [message.event.id.sequence for message in again.messages()] == [1]
        b.confirm()
        assert [message.event.id.sequence for message in again.messages()] == [1, 2]

    run_with_clients(story)


def test_a_clean_end_waits_for_the_copies(run_with_clients):
    async def story(b, s, p):
        b.tell("p", p, event(1), first=2)
        leaving = asyncio.create_task(b.node.leave("the end"))
        await b.all_written()
        await asyncio.sleep(0.05)
        assert not leaving.done()
        assert not s.byes()
        b.confirm()
        await leaving
        assert events_of(s) == [1]
        assert s.byes()

    run_with_clients(story)


def test_relief_of_a_full_disk_takes_nothing_back_that_waits_for_copies(run_with_clients):
    """The progress that is confirmed is older than the one on disk, which must not go back."""

    async def story(b, s, p):
        b.tell("p", p, event(1), first=2)
        await b.all_written()
        b.confirm()
        b.tell("p", p, event(2), first=3)  # on disk, and at no copy
        await b.all_written()
        b.store.is_full = True
        b.tell("p", p, event(3), first=4)
        await until(lambda: b.node.committer.shortage)
        b.node.receive("s", s, Ack(3))
        number = b.store.position.number
        await until(lambda: b.store.position.number > number)  # the relief
        assert b.store.load().sessions["p"].received == 3
        assert b.store.load().sessions["s"].first == 4
        b.store.is_full = False
        await b.all_written()
        b.confirm()
        assert events_of(s) == [1, 2, 3]

    run_with_clients(story)
