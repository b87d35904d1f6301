"""Daemons that have views, and are started again elsewhere from a copy of their data, as a promotion does."""

import contextlib
from shutil import copytree

from pleach.core.standby.views import View
from pleach.net.enquiry import Whereabouts
from pleach.server.standby.host_port import HostPort
from pleach.server.standby.links import MemberLinks, ProcessId
from support.live.daemons import Running

ANYWHERE = {f"{kind}_listen": "127.0.0.1:0" for kind in ("client", "peer", "admin")}


class Host:
    """A host process without a broker: `knows` has what it says of brokers. `at`: where it listens."""

    def __init__(self, name, at="127.0.0.1:0"):
        self.machine = f"{name}#1"
        self._at = at
        self.knows = {}
        links = MemberLinks(ProcessId(name, self.machine, 1), heartbeat=1.0)
        self._port = HostPort(links, "no broker runs here", locate=self.knows.get)
        self.address = ""

    async def __aenter__(self):
        self.address = await self._port.listen(self._at)
        return self

    async def __aexit__(self, *_):
        await self._port.close()

    def runs(self, broker, view, address):
        self.knows[broker] = Whereabouts(view, is_there=True, address=address)

    def refers(self, broker, view, host):
        self.knows[broker] = Whereabouts(view, is_there=False, address=host.address)


class Promotions(Running):
    def __init__(self, directory):
        super().__init__(directory)
        self._directory = directory

    async def begin(self, name, *hosts, **settings):
        """A broker at home, with copies on these hosts."""

        def prepare(daemon):
            own = f"{name}#1"
            addresses = {host.machine: host.address for host in hosts}
            daemon.node.directory.view = View(name, 1, (own, *addresses), (), {own: "127.0.0.1:1", **addresses})

        await self.start(name, prepare, **settings)

    async def promote(self, name, host, view=2, **settings):
        """A broker that has stopped goes on at a host."""
        data = self._directory / f"{name}@{host.machine}"
        copytree(self._directory / name, data)

        def prepare(daemon):
            daemon.node.directory.view = View(name, view, (host.machine, f"{name}#1"), (), {host.machine: host.address})

        await self.start(name, prepare, **{"data_dir": str(data), **ANYWHERE, **settings})
        host.runs(name, view, self.ready[name].peer)

    def knows(self, name, other):
        """The view of another broker that a broker knows of."""
        location = self.node(name).directory.known.brokers.get(other)
        return location.view if location else 0

    def is_up(self, *pairs):
        return all(self.node(a).links.is_up(b) and self.node(b).links.is_up(a) for a, b in pairs)


@contextlib.asynccontextmanager
async def promotions(directory):
    running = Promotions(directory)
    try:
        yield running
    finally:
        await running.stop_all()
