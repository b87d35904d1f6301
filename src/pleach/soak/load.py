"""What the clients of a soak publish: as much as the scenario says, times a factor that changes.

A client whose publications are not answered in time publishes less: the load is what a network can bear, at most what
was asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

from pleach.core.events.event import Event
from pleach.core.messages import Node
from pleach.harness.live_clients import LiveClients
from pleach.scenario.clients import PlannedEvent, Replies, draw_attributes
from pleach.scenario.model import PublishLoad, Scenario, ScenarioClient
from pleach.server.bugs import watched

TURN_SECONDS = 0.02
UNANSWERED_MAX = 200  # publications of one client; then it waits, as applications do


class SoakLoad:
    def __init__(self, scenario: Scenario, clients: LiveClients, seed: str) -> None:
        self._clients = clients
        self._seed = seed
        self._factors = {client.id: 1.0 for client in scenario.clients}
        self._publishers = [client for client in scenario.clients if client.publish]
        self._replies = {client.id: Replies(client, seed) for client in scenario.clients if client.reply}
        self._tasks: list[asyncio.Task[None]] = []
        self._is_on = False

    def start(self) -> None:
        self._is_on = True
        self._tasks = [watched(self._publish(client, load)) for client in self._publishers for load in client.publish]

    def stop(self) -> None:
        """Nothing is published any more, answers neither."""
        self._is_on = False
        for task in self._tasks:
            task.cancel()

    def change(self, factors: Mapping[Node, float]) -> None:
        self._factors.update(factors)

    def answer(self, client: Node, event: Event) -> None:
        if self._is_on and client in self._replies:
            for publication in self._replies[client].to(event):
                self._clients.publish(client, publication)

    async def _publish(self, client: ScenarioClient, load: PublishLoad) -> None:
        stream = Random(f"{self._seed}/{client.id}/soak")
        per_second = 2.0 / (load.every.low + load.every.high)
        loop = asyncio.get_running_loop()
        unanswered: set[asyncio.Task[Any]] = set()
        number, due, last = 0, stream.random(), loop.time()
        while True:
            await asyncio.sleep(TURN_SECONDS)
            now = loop.time()
            due += (now - last) * per_second * self._factors[client.id]
            last = now
            while due >= 1.0 and len(unanswered) < UNANSWERED_MAX:
                due -= 1.0
                number += 1
                planned = PlannedEvent(0.0, draw_attributes(load.attributes, stream, number))
                task = self._clients.publish(client.id, planned)
                unanswered.add(task)
                task.add_done_callback(unanswered.discard)
            due = min(due, 1.0)
