"""A broker node with a clock that the test turns, and wires that keep what is sent: no sockets, no waiting."""

import asyncio

from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.frames import BROKER, CLIENT, Ack, Bye, Data, Hello
from pleach.core.messages import Attach, Publish, Subscribe, encode
from pleach.core.messages.runs import decode_all
from pleach.server.links import Port
from pleach.server.node import BrokerNode
from pleach.server.settings import BrokerLimits, BrokerSettings

ABSENCE_SECONDS = 100
TURNS_MAX = 2_000
SUBSCRIBED = (Attach(), Subscribe("s", parse_filter("n >= 0")))


class Wire:
    unsent_bytes = 0

    """A connection that keeps what is sent."""

    def __init__(self):
        self.sent = []
        self.is_paused = False

    def send(self, frame):
        self.sent.append(frame)

    def close(self, reason=""):
        pass

    def pause_reading(self):
        self.is_paused = True

    def resume_reading(self):
        self.is_paused = False

    def messages(self):
        return [message for frame in self.sent if isinstance(frame, Data) for message in decode_all(frame.payload)]

    def byes(self):
        return [frame for frame in self.sent if isinstance(frame, Bye)]

    def last(self):
        """The number of the last payload."""
        return max((frame.sequence for frame in self.sent if isinstance(frame, Data)), default=0)


class World:
    """`neighbours`: of the node; they come as `come(…, door=Port.PEERS)`."""

    def __init__(self, store=None, *, neighbours=(), **limits):
        self.now = 0.0
        limited = BrokerLimits(**{"client_absence_seconds": ABSENCE_SECONDS, **limits})
        settings = BrokerSettings("b", neighbours=neighbours, limits=limited)
        self.node = BrokerNode(settings, store, 1, clock=lambda: self.now, on_end=lambda *_: None)
        self._said = {}

    def come(self, name, *messages, epoch=5, peer_epoch=0, received=0, first=1, door=Port.CLIENTS):
        wire = Wire()
        role = CLIENT if door is Port.CLIENTS else BROKER
        assert not self.node.accept(wire, Hello(name, epoch, peer_epoch, received, first, role=role), door)
        self._said[name] = first - 1
        self.say(name, wire, *messages)
        return wire

    def say(self, name, wire, *messages):
        for message in messages:
            self._said[name] += 1
            self.node.receive(name, wire, Data(self._said[name], encode(message)))

    async def tell(self, name, wire, *messages):
        """Say something, and wait for what it leads to."""
        self.say(name, wire, *messages)
        await settled(self.node)

    def hear(self, name, wire):
        """Confirm all that has come."""
        self.node.receive(name, wire, Ack(wire.last()))

    async def visit(self, name, *messages, **options):
        """Come, say something, hear all that there is to hear, and go."""
        wire = self.come(name, *messages, **options)
        await settled(self.node)
        self.node.lost(name, wire)
        return wire

    async def wait(self, seconds):
        self.now += seconds
        self.node.tick()
        await settled(self.node)

    @property
    def known(self):
        return sorted(self.node.endpoint.sessions)


async def settled(node):
    for _ in range(TURNS_MAX):
        await asyncio.sleep(0)
        if node.committer.is_idle:
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never came to rest")


def in_world(scenario, store=None, **options):
    async def run():
        world = World(store, **options)
        try:
            await scenario(world)
        finally:
            if world.node.committer._disk is not None:
                world.node.committer._disk._worker.shutdown()

    asyncio.run(run())


def publish(name, n):
    return Publish(Event(EventId(name, 1, n), {"n": n}, bytes(100)))
