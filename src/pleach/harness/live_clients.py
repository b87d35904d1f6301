"""The clients of a scenario, in the process of the harness: each uses the client library, and dials through the switch.

Requests of one client start in the order of the calls. A client is made in a context of its own, in which its name is
known to whatever dials (net/dial.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from pleach.client.client import Client
from pleach.client.connect import connect
from pleach.core.effects import Observe
from pleach.core.events.event import Event
from pleach.core.events.language import parse_filter
from pleach.core.messages import Node
from pleach.errors import ClientError, ClientFencedError, SessionLostError
from pleach.harness.network import LiveNetwork
from pleach.scenario.clients import PlannedEvent, initial_advertisements, subscription_names
from pleach.scenario.model import Scenario, ScenarioClient

WINDOW = 10_000
QUEUE_MAX = 100_000


class LiveClients:
    """`observe`: told of whatever a client's machine observes. `gone`: told of requests of clients that have ended."""

    def __init__(
        self,
        scenario: Scenario,
        network: LiveNetwork,
        observe: Callable[[Node, Observe], None],
        gone: Callable[[ClientError], None] = lambda _: None,
    ) -> None:
        self._scenario = scenario
        self._network = network
        self._observe = observe
        self._gone = gone
        self._names = {client.id: subscription_names(scenario, client) for client in scenario.clients}
        self._clients: dict[Node, Client] = {}
        self.under_way: set[asyncio.Task[Any]] = set()  # requests that are not answered yet

    async def connect_all(self) -> None:
        for client in self._scenario.clients:
            self._clients[client.id] = await self._network.switch.dialling_as(client.id, partial(self._made, client))

    def _made(self, client: ScenarioClient) -> Client:
        def observe(seen: Observe) -> None:
            self._observe(client.id, seen)

        return connect(
            f"pleach://{self._network.client_address(client.broker)}",
            name=client.id,
            own_events=client.own_events,
            window=WINDOW,
            queue_max=QUEUE_MAX,
            observer=observe,
        )

    async def close_all(self) -> None:
        """Close all clients at the same time: after Ctrl-C brokers may have ended, and clients wait for answers."""
        await asyncio.gather(*(client.close() for client in self._clients.values()))

    # Requests (scenario/clients.py: ClientActions) -----------------------------------------------------------

    def subscribe_initially(self) -> None:
        for client in self._scenario.clients:
            for text in initial_advertisements(self._scenario, client):
                self.advertise(client.id, text)
            for text in client.subscribe:
                self.subscribe(client.id, text)

    def publish(self, client: Node, publication: PlannedEvent) -> asyncio.Task[Any]:
        """The task ends when the publication is answered."""
        return self._request(self._clients[client].publish(publication.attributes, publication.payload))

    def publish_later(self, client: Node, publication: PlannedEvent) -> None:
        """`at`: seconds from now."""
        self._request(self._published_later(client, publication))

    async def _published_later(self, client: Node, publication: PlannedEvent) -> None:
        await asyncio.sleep(publication.at)
        await self._clients[client].publish(publication.attributes, publication.payload)

    def subscribe(self, client: Node, text: str) -> None:
        wanted = parse_filter(text)
        names = self._names[client]
        name = names.setdefault(wanted, f"s{len(names) + 1}")
        self._request(self._clients[client].subscribe(wanted, name=name, callback=_discard))

    def unsubscribe(self, client: Node, text: str) -> None:
        name = self._names[client][parse_filter(text)]
        self._request(self._clients[client].unsubscribe(name))

    def advertise(self, client: Node, text: str) -> None:
        advertised = parse_filter(text)
        self._request(self._clients[client].advertise(advertised, name=advertised.text))

    def unadvertise(self, client: Node, text: str) -> None:
        self._request(self._clients[client].unadvertise(parse_filter(text).text))

    def _request(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self.await_end(task)
        return task

    def await_end(self, task: asyncio.Task[Any]) -> None:
        """It is under way until it ends: drains wait for it."""
        self.under_way.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.under_way.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, SessionLostError | ClientFencedError):
            self._gone(error)
        if error is not None and not isinstance(error, ClientError):
            raise error  # refusals are in the trace; anything else is a bug


def _discard(_event: Event) -> None:
    """The trace has the event already."""
