"""The reference of `pleach bench sim`: a tree of store-and-forward nodes in SimPy, in the style of its manual.

Inboxes and link queues are stores; a process per link takes a message, waits for the latency and puts it into the next
inbox; a process per broker copies messages to all its other links.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from random import Random
from typing import Any

from pleach.errors import MissingPartError
from pleach.scenario.model import Scenario
from pleach.scenario.values import Span


class StoreAndForward:
    """Carries the last client's load to every broker and every other client."""

    def __init__(self, scenario: Scenario, latency: Span, seed: int) -> None:
        try:
            import simpy  # noqa: PLC0415 - only this measurement needs it
        except ImportError:
            raise MissingPartError("SimPy is not installed: pip install 'pleach[bench]'") from None
        self.hops = 0
        self.environment = simpy.Environment()
        self._store: Callable[[], Any] = partial(simpy.Store, self.environment)
        self._latency = latency
        self._rng = Random(seed)
        self._inboxes = {name: self._store() for name in scenario.brokers}
        self._queues: dict[str, dict[str, Any]] = {name: {} for name in scenario.brokers}
        *readers, publisher = scenario.clients
        for a, b in scenario.links:
            self._connect(a, b, self._inboxes[b])
            self._connect(b, a, self._inboxes[a])
        for reader in readers:
            inbox = self._store()
            self._connect(reader.broker, reader.id, inbox)
            self.environment.process(self._read(inbox))
        for name in scenario.brokers:
            self.environment.process(self._forward(name))
        load = publisher.publish[0]
        self.environment.process(self._publish(self._inboxes[publisher.broker], load.count or 0, load.every.low))

    def _connect(self, sender: str, receiver: str, inbox: Any) -> None:
        queue = self._queues[sender][receiver] = self._store()
        self.environment.process(self._carry(queue, sender, inbox))

    def _carry(self, queue: Any, sender: str, inbox: Any) -> Generator[Any, Any, None]:
        while True:
            event = yield queue.get()
            yield self.environment.timeout(self._rng.uniform(self._latency.low, self._latency.high))
            self.hops += 1
            yield inbox.put((sender, event))

    def _forward(self, name: str) -> Generator[Any, Any, None]:
        while True:
            sender, event = yield self._inboxes[name].get()
            for receiver, queue in self._queues[name].items():
                if receiver != sender:
                    yield queue.put(event)

    def _read(self, inbox: Any) -> Generator[Any, Any, None]:
        while True:
            yield inbox.get()

    def _publish(self, inbox: Any, count: int, every: float) -> Generator[Any, Any, None]:
        for number in range(count):
            yield inbox.put(("publisher", number))
            yield self.environment.timeout(every)
