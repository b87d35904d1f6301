"""Daemons in one event loop, over real sockets: quicker to start than processes, and open to a look inside."""

import asyncio
import contextlib

from pleach.core.messages import RequestAdd, RequestRemove
from pleach.server.daemon import Daemon
from pleach.server.node import BrokerNode
from pleach.server.settings import BrokerSettings
from support.live.tiny_broker import until


class Running:
    """Daemons by name; one that is stopped and started again keeps its data directory and its ports."""

    def __init__(self, directory):
        self._directory = directory
        self._tasks = {}
        self.daemons = {}
        self.ready = {}

    async def start(self, name, prepare=lambda _: None, **settings):
        """`prepare`: is given the daemon before it listens."""
        listened = asyncio.get_running_loop().create_future()
        ports = (
            {f"{kind}_listen": getattr(self.ready[name], kind) for kind in ("client", "peer")}
            if name in self.ready
            else {}
        )
        settings = {"data_dir": str(self._directory / name), "heartbeat": 0.2, **ports, **settings}
        values = BrokerSettings(name, **settings)
        daemon = self.daemons[name] = Daemon(values, reload=lambda: values, on_ready=listened.set_result)
        prepare(daemon)
        self._tasks[name] = asyncio.create_task(daemon.run())
        self.ready[name] = await listened

    async def stop(self, name):
        """Returns the exit code."""
        self.daemons.pop(name)._stop.set()
        return await self._tasks.pop(name)

    async def ended(self, name):
        """One that ends by itself; returns the exit code."""
        code = await self._tasks.pop(name)
        del self.daemons[name]
        return code

    async def add(self, name, to):
        request = RequestAdd(f"add {name}", to, self.ready[to].peer)
        return await self.node(name).operations.request(request)

    async def remove(self, name):
        return await self.node(name).operations.request(RequestRemove(f"remove {name}", name))

    async def stop_all(self):
        for name in list(self._tasks):
            await self.stop(name)

    def node(self, name) -> BrokerNode:
        return self.daemons[name].node

    def links(self):
        """Connections between brokers, as each has them."""
        return {
            name: sorted(peer for peer in daemon.node.links if peer in "abc") for name, daemon in self.daemons.items()
        }


@contextlib.asynccontextmanager
async def chain(directory, **settings):
    """a–b–c: b dials both."""
    running = Running(directory)
    try:
        await running.start("a", neighbours=("b",), **settings)
        await running.start("c", neighbours=("b",), **settings)
        await running.start("b", peers={"a": running.ready["a"].peer, "c": running.ready["c"].peer}, **settings)
        await until(lambda: all(running.node("b").links.is_up(peer) for peer in "ac"))
        yield running
    finally:
        await running.stop_all()
