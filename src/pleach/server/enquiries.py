"""A broker that looks for another one: it asks the hosts of that one's last known view, and whom they name.

    x ── where is y? ──▶ host of a copy of y ── "ask at the primary's host" ──▶ x
    x ── where is y? ──▶ the primary's host ─── "there" ──▶ x

So two neighbours find each other that were promoted at the same time, each knowing the other's former address only.

What counts as news is what differs from where the broker was said to be, and is dialled. This machine may hold a copy
of it, or have a vote: then it knows which machine runs it, in the newest view, and not where the broker listens there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from pleach.core.messages import Node
from pleach.errors import SettingsError
from pleach.net.addresses import parse_address
from pleach.net.enquiry import Whereabouts, enquire, enquiry, search
from pleach.net.tls_layer import TlsSide
from pleach.server.links import Port
from pleach.server.peer_directory import PeerDirectory

log = logging.getLogger(__name__)


class Enquiries:
    def __init__(
        self, name: Node, epoch: int, directory: PeerDirectory, tls: Callable[[], TlsSide | None] = lambda: None
    ) -> None:
        """`tls`: how any broker or host is dialled."""
        self._name = name
        self._epoch = epoch
        self._directory = directory
        self._tls = tls

    async def find(self, broker: Node) -> str:
        """Where a broker is by what others know that this one does not; empty: nobody knows more."""
        known, own = self._directory.told(broker, Port.PEERS), self._directory.places.peer
        here = self._directory.ask_host(broker, Port.PEERS)
        hosts = [*self._directory.hosts_of(broker), *([here.address] if here is not None else [])]
        hosts = [address for address in dict.fromkeys(hosts) if address not in ("", own)]
        found = await search(partial(self._ask, broker), hosts, lambda each: each.is_news_to(known))
        return found.address if found is not None else ""

    async def _ask(self, broker: Node, text: str) -> Whereabouts | None:
        try:
            address = parse_address(text, key="standby")
        except SettingsError as error:
            log.debug("%s", error)
            return None
        return await enquire(address, enquiry(self._name, self._epoch, broker), self._tls())
