"""The clients of a simulated run: their loads, their replies, and the steps in which they act."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pleach.core.client.machine import ClientMachine
from pleach.core.events.event import Event
from pleach.core.events.language import parse_filter
from pleach.core.messages import Node
from pleach.scenario import model
from pleach.scenario.advertisements import initial_advertisements, subscription_names
from pleach.scenario.client_load import PlannedEvent, Replies, publications
from pleach.sim.simulator import Simulator


class SimClients:
    def __init__(
        self, sim: Simulator, scenario: model.Scenario, stream: str, machines: dict[Node, ClientMachine]
    ) -> None:
        self._sim = sim
        self._scenario = scenario
        self._machines = machines
        self._replies = {c.id: Replies(c, stream) for c in scenario.clients if c.reply}
        self._subscriptions = {c.id: subscription_names(scenario, c) for c in scenario.clients}

    @property
    def has_replies(self) -> bool:
        return bool(self._replies)

    def plan_loads(self, stream: str) -> None:
        """Plan the first event of each load of each client."""
        for client in self._scenario.clients:
            for index in range(len(client.publish)):
                self._publish_next(client.id, publications(client, index, self._scenario.duration, stream))

    def introduce(self, client: model.ScenarioClient) -> None:
        """Attach a client, with its initial advertisements and subscriptions."""
        self._sim.perform(client.id, self._machines[client.id].attach())
        for text in initial_advertisements(self._scenario, client):
            self.advertise(client.id, text)
        for text in client.subscribe:
            self.subscribe(client.id, text)

    def publish(self, client: Node, publication: PlannedEvent) -> None:
        self._sim.perform(client, self._machines[client].publish(publication.attributes, publication.payload))

    def _publish_next(self, client: Node, load: Iterator[PlannedEvent]) -> None:
        """Plan the next event of a load; publishing it plans the one after."""
        publication = next(load, None)
        if publication is not None:
            self._sim.at(publication.at, partial(self._publish_and_go_on, client, publication, load))

    def _publish_and_go_on(self, client: Node, publication: PlannedEvent, load: Iterator[PlannedEvent]) -> None:
        self.publish(client, publication)
        self._publish_next(client, load)

    def advertise(self, client: Node, text: str) -> None:
        advertised = parse_filter(text)
        self._sim.perform(client, self._machines[client].advertise(advertised.text, advertised))

    def subscribe(self, client: Node, text: str) -> None:
        wanted = parse_filter(text)
        self._sim.perform(client, self._machines[client].subscribe(self._subscriptions[client][wanted], wanted))

    def unsubscribe(self, client: Node, text: str) -> None:
        name = self._subscriptions[client][parse_filter(text)]
        self._sim.perform(client, self._machines[client].unsubscribe(name))

    def unadvertise(self, client: Node, text: str) -> None:
        self._sim.perform(client, self._machines[client].unadvertise(parse_filter(text).text))

    def answer(self, client: Node, event: Event) -> None:
        """Plan the client's replies to an event that was delivered to it; there are none after the scenario's end."""
        if client not in self._replies or self._sim.now >= self._scenario.duration:
            return
        for publication in self._replies[client].to(event):
            self._sim.at(self._sim.now + publication.at, partial(self.publish, client, publication))
