"""Processes that hold copies, as far as their connections go: links and a port, in the test's own event loop."""

import asyncio
import contextlib
import time

from pleach.server.standby.host_port import HostPort
from pleach.server.standby.links import MemberLinks, ProcessId

SECONDS_MAX = 30


class Inbox:
    """What has come for one broker, and which machines were lost."""

    def __init__(self):
        self.messages, self.gone = [], []

    def received(self, machine, message):
        self.messages.append((machine, message))

    def lost(self, machine):
        self.gone.append(machine)


class Party:
    def __init__(self, name, machine, *, heartbeat=1.0, dialling=lambda _: None, listening=lambda: None):
        self.own = ProcessId(name, machine, time.time_ns())
        self.links = MemberLinks(self.own, heartbeat=heartbeat, tls=dialling)
        self.port = HostPort(self.links, "no broker runs here", tls=listening)
        self.address = ""
        self.inbox = Inbox()

    async def begin(self, address="127.0.0.1:0", *brokers):
        self.address = await self.port.listen(address)
        self.links.start()
        for broker in brokers:
            self.links.attach(broker, self.inbox)
        return self

    def send(self, broker, to, message):
        self.links.send(broker, to.own.machine, to.address, message)

    async def end(self):
        """As if the process were killed."""
        await self.port.close()
        await self.links.stop()
        for connection in self.port.connections:
            connection.abort("killed")


@contextlib.asynccontextmanager
async def parties():
    made = []

    async def start(name, machine, *brokers, address="127.0.0.1:0", **options):
        made.append(await Party(name, machine, **options).begin(address, *brokers))
        return made[-1]

    try:
        yield start
    finally:
        for party in made:
            await party.end()


def run(story):
    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))
