"""The connections of one client: to its broker, and to former ones that have not confirmed all that it sent them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from pleach.client.broker_connection import BrokerConnection, ConnectionOwner
from pleach.core.events.event import Event
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import Frame, Ping
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import FallbackBrokers, Message, Node
from pleach.errors import AddressError
from pleach.net.addresses import ADDRESSES_MAX, Address, parse_addresses

FORMER_SECONDS_MAX = 300.0  # that a broker which has sent us away is looked for, to tell it that we have gone
FAREWELL_SECONDS_MAX = 2.0  # for it to hear that, when the client is closed

log = logging.getLogger(__name__)


class BrokerConnections:
    def __init__(self, client: Node, addresses: Sequence[Address], owner: ConnectionOwner) -> None:
        self._client = client
        self._addresses = tuple(addresses)  # where to look for a broker, besides where it was said to be
        self._owner = owner
        self.current = BrokerConnection(client, None, self._addresses, owner)
        self.formers: dict[Node, BrokerConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def all(self) -> list[BrokerConnection]:
        return [self.current, *self.formers.values()]

    def to(self, peer: Node) -> BrokerConnection | None:
        return self.current if self.is_current(peer) else self.formers.get(peer)

    def is_current(self, peer: Node) -> bool:
        return self.current.peer == peer

    def send(self, peer: Node, frame: Frame) -> None:
        if connection := self.to(peer):
            connection.send(frame)

    def hear(self, what: Message | list[Event]) -> None:
        """Our broker may say where to ask for it, should it die."""
        if isinstance(what, FallbackBrokers):
            self.current.refuge = [address for text in what.addresses for address in read_told(text)][:ADDRESSES_MAX]

    # Whom there is to reach ----------------------------------------------------------------------------------

    def begin_at(self, broker: Node, told: str) -> None:
        """A former process had a broker already. `told`: where it was said to be, if that was said."""
        self.current = self._made(broker, told)

    def go_to(self, broker: Node, told: str) -> None:
        """The broker has sent us to another one."""
        former = self.current
        assert former.peer is not None
        self.let_go([broker])  # if it was one of the former
        self.formers[former.peer] = former
        former.patience = FORMER_SECONDS_MAX
        self.current = self._made(broker, told)
        self.keep(self.current)

    def recall_formers(self, endpoint: Endpoint) -> None:
        """Brokers that a former process had not said farewell to in full."""
        for peer, note in endpoint.upkeep.links.items():
            is_retiring = note.phase is LinkPhase.RETIRING and peer not in self.formers
            if is_retiring and endpoint.sessions[peer].unconfirmed:
                self._remember(peer, note.address)

    def _remember(self, former: Node, told: str) -> None:
        connection = self.formers[former] = self._made(former, told)
        connection.patience = FORMER_SECONDS_MAX
        self.keep(connection)

    def let_go(self, formers: Sequence[Node]) -> None:
        for peer in formers:
            connection = self.formers.pop(peer, None)
            if connection is not None:
                connection.end("all is said")

    def _made(self, broker: Node, told: str) -> BrokerConnection:
        """Where it was said to be comes first, and is where to look for the next ones, too."""
        self._addresses = tuple(dict.fromkeys((*read_told(told), *self._addresses)))[:ADDRESSES_MAX]
        return BrokerConnection(self._client, broker, self._addresses, self._owner)

    # Keeping them --------------------------------------------------------------------------------------------

    def keep(self, connection: BrokerConnection) -> None:
        self.spawn(self._keep(connection))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self, connection: BrokerConnection) -> None:
        if not await connection.keep_connected() and connection.peer is not None:
            log.warning("%s: %s is gone; whether it has all that we sent is not known", self._client, connection.peer)
            self.let_go([connection.peer])

    def ping(self) -> None:
        for connection in self.all:
            if connection.is_greeted:
                connection.send(Ping())

    def end(self, reason: str) -> None:
        for connection in self.all:
            connection.end(reason)

    async def say_farewells(self) -> None:
        deadline = time.monotonic() + FAREWELL_SECONDS_MAX
        while self.formers and time.monotonic() < deadline:  # noqa: ASYNC110 - bounded, and rarely more than once
            await asyncio.sleep(FAREWELL_SECONDS_MAX / 100)

    async def rest(self) -> None:
        """Dial no more, and do nothing by ourselves."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def read_told(text: str) -> tuple[Address, ...]:
    """What a broker says of where another one is; one that is nowhere is looked for where we began."""
    try:
        return parse_addresses(text) if text else ()
    except AddressError as error:
        log.warning("%s", error)
        return ()
