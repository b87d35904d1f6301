"""What a store gives back is what a node that never crashed has.

A broker with a store lives among neighbours and clients; connections are cut, peers are reborn, the broker crashes with
half a batch. After every commit a second endpoint is recovered from the disk, and must be equal in all that lasts.
"""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.events.language import parse_filter
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.session import SessionConfig
from pleach.core.routing.router import RoutingConfig
from pleach.server.storage.outboxes import Outboxes
from pleach.server.storage.store import Store
from support.thorough import FACTOR

STORIES = 16 * FACTOR
STEPS = 400
HUB = "hub"
BROKERS, CLIENTS = ("n1", "n2"), ("c1", "c2", "c3")
FILTERS = [parse_filter(text) for text in ("x > 0", "x > 5", "x < 3", "x BETWEEN 2 AND 7", "y = 'a'")]


def make_hub(epoch):
    return Endpoint(Broker(HUB, RoutingConfig(), neighbours=BROKERS), epoch, SessionConfig(window=8))


def lasting(endpoint):
    return endpoint.machine.capture(), [(peer, session.capture()) for peer, session in endpoint.sessions.items()]


def waits(outboxes):
    return outboxes._peers, outboxes._unconfirmed


class Story:
    """The hub, its peers, and wires that lose what is on them when they are cut."""

    def __init__(self, directory, seed):
        self.stream = Random(seed)
        self.directory = directory
        self.store = Store.open(directory, HUB, epoch=1)
        self.hub = make_hub(self.store.epoch)
        self.peers = {name: self.make_peer(name, 1) for name in (*BROKERS, *CLIENTS)}
        self.wires = {}  # while connected: (frames to the hub, frames to the peer)
        self.now = 0.0
        self.counts = dict.fromkeys(("compared", "crashes", "rebirths", "expelled", "outbox", "journal"), 0)

    def make_peer(self, name, epoch):
        machine = Broker(name, RoutingConfig(), neighbours=[HUB]) if name in BROKERS else ClientMachine(name, HUB)
        endpoint = Endpoint(machine, epoch)
        if name in CLIENTS:
            endpoint.perform(machine.attach(), now=0.0)
        return endpoint

    # Steps ---------------------------------------------------------------------------------------------------

    def step(self):
        self.now += 0.01
        steps = (self.deliver, self.ask, self.commit, self.connect, self.cut, self.give_birth, self.expel, self.crash)
        self.stream.choices(steps, (60, 15, 12, 8, 2, 0.7, 0.5, 0.7))[0]()

    def deliver(self):
        for _ in range(self.stream.randrange(1, 6)):
            busy = [name for name, (inward, outward) in sorted(self.wires.items()) if inward or outward]
            if not busy:
                return
            name = self.stream.choice(busy)
            inward, outward = self.wires[name]
            if inward and (not outward or self.stream.random() < 0.5):
                self.hub.receive(name, inward.popleft(), now=self.now)
            else:
                self.peers[name].receive(HUB, outward.popleft(), now=self.now)
                self.flush(name)

    def ask(self):
        name = self.stream.choice(CLIENTS)
        client, subscription = self.peers[name].machine, f"s{self.stream.randrange(3)}"
        kind = self.stream.choices(("publish", "subscribe", "unsubscribe", "neighbour"), (8, 3, 1, 2))[0]
        wanted = self.stream.choice(FILTERS)
        match kind:
            case "publish":
                effects = client.publish({"x": self.stream.randrange(10), "y": "a"}, self.stream.randbytes(20))
            case "subscribe":
                effects = client.subscribe(subscription, wanted)
            case "unsubscribe":
                effects = client.unsubscribe(subscription)
            case "neighbour":
                name = self.stream.choice(BROKERS)
                guest = ClientMachine("guest", name)
                broker = self.peers[name].machine
                asked = [*guest.attach(), *guest.subscribe(subscription, wanted)]
                effects = [effect for send in asked if hasattr(send, "to") for effect in self.local(broker, send)]
        self.peers[name].perform(effects, now=self.now)
        self.flush(name)

    def local(self, broker, send):
        """What a client of a neighbour leads to on the neighbour's link to the hub."""
        effects = broker.handle("guest", send.message, now=self.now)
        return [effect for effect in effects if getattr(effect, "to", "") == HUB]

    def connect(self):
        idle = sorted(self.peers.keys() - self.wires.keys())
        if idle:
            name = self.stream.choice(idle)
            self.wires[name] = (deque(), deque())
            self.hub.connected(name, now=self.now)
            self.peers[name].connected(HUB, now=self.now)
            self.flush(name)

    def cut(self, name=None):
        name = name or self.stream.choice(sorted(self.peers))
        if self.wires.pop(name, None):
            self.hub.disconnected(name)
            self.peers[name].disconnected(HUB)

    def give_birth(self, name=None):
        name = name or self.stream.choice(sorted(self.peers))
        self.cut(name)
        self.peers[name] = self.make_peer(name, self.peers[name].epoch + 1)
        self.counts["rebirths"] += 1

    def expel(self):
        """The hub throws away what it has for a peer, which has to begin a new life."""
        if self.hub.sessions:
            name = self.stream.choice(sorted(self.hub.sessions))
            self.hub.expel(name, "too slow", now=self.now)
            self.give_birth(name)
            self.counts["expelled"] += 1

    def crash(self):
        """The hub loses what it has not committed, and all connections."""
        for name in list(self.wires):
            self.cut(name)
        self.store.close()
        self.store = Store.open(self.directory, HUB, epoch=99)
        self.hub = self.recovered()
        self.counts["crashes"] += 1

    def commit(self):
        batch = self.hub.take_batch()
        state = self.hub.capture() if self.stream.random() < 0.05 else None
        self.store.commit(batch, state)
        if self.stream.random() < 0.05:
            self.store.snapshot(self.hub.capture())
        self.compare()
        for name, frame in batch.transmits:
            if name in self.wires:
                self.wires[name][1].append(frame)
        for name, _ in batch.hangups:
            self.cut(name)

    def flush(self, name):
        batch = self.peers[name].take_batch()
        for _, frame in batch.transmits:
            if name in self.wires:
                self.wires[name][0].append(frame)
        for _ in batch.hangups:
            self.cut(name)

    # Judgement -----------------------------------------------------------------------------------------------

    def recovered(self):
        endpoint = make_hub(self.store.epoch)
        endpoint.recover(self.store.load())
        return endpoint

    def on_disk(self):
        sql = self.store._database.sql
        rows = sql.execute("SELECT id, recipients FROM outbox").fetchall()
        found = Outboxes.of(sql.execute("SELECT id, peer, first FROM sessions"), rows)
        assert sorted(found._unconfirmed) == sorted(row for row, _ in rows), "a row that nobody waits for"
        return found

    def compare(self):
        again = self.recovered()
        assert lasting(again) == lasting(self.hub)
        assert self.store.journal_length == len(list(self.store.load().journal))
        assert waits(self.store._outboxes) == waits(self.on_disk()), "no row is forgotten, none goes too early"
        self.counts["compared"] += 1
        self.counts["outbox"] = max(self.counts["outbox"], *(s.unconfirmed for s in again.sessions.values()), 0)
        self.counts["journal"] = max(self.counts["journal"], self.store.journal_length)


def told(directory, seed):
    """Tell a story, and judge it on the way; returns what happened in it."""
    story = Story(directory, seed)
    try:
        for _ in range(STEPS):
            story.step()
        story.commit()
    finally:
        story.store.close()
    return story.counts


@pytest.mark.parametrize("part", range(4))
def test_a_recovered_endpoint_equals_one_that_never_crashed(tmp_path, part):
    counts = [told(tmp_path / str(seed), seed) for seed in range(part, STORIES, 4)]
    assert sum(count["compared"] for count in counts) > 20 * len(counts)
    assert sum(count["crashes"] for count in counts) > len(counts)
    assert sum(count["rebirths"] for count in counts) > len(counts)
    assert sum(count["expelled"] for count in counts) > 0
    assert max(count["outbox"] for count in counts) > 10
    assert max(count["journal"] for count in counts) > 10
