"""Real brokers and clients in the unreliable world: a chain of three durable brokers, four clients, a judged trace."""

from __future__ import annotations

from random import Random

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.events.event import Value
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.links.endpoint import Batch
from pleach.core.messages import Node, decode
from pleach.core.routing.router import RoutingConfig
from pleach.trace import Ordering, Recorder, RecordKind, Verdict, judge
from support.links.unreliable_endpoints import Host, Weather, World

BROKERS = ("b1", "b2", "b3")
HOMES = {"c1": "b1", "c2": "b2", "c3": "b3", "c4": "b3"}
CHAIN = [("b1", "b2"), ("b3", "b2")]
LINKS = [*CHAIN, *HOMES.items()]
# Filters that cover, overlap and equal each other, beside one for each client alone: shared ones hide lost entries.
FILTERS = (
    "EXISTS price",
    "price <= 5",
    "price > 5",
    "price BETWEEN 2 AND 4",
    "topic = 'a'",
    "topic = 'a' AND price < 5",
)


class NetworkWorld(World):
    """Clients keep their memory and do not crash; brokers do, and have disks, unless they are not `durable`.

    Beside each durable broker runs a twin that never crashes and is told what the broker's journal says was committed.
    """

    def __init__(self, stream: Random, routing: RoutingConfig, weather: Weather, *, durable: bool = True) -> None:
        super().__init__(LINKS, stream, weather)
        self.routing = routing
        self.recorder = Recorder("unreliable")
        self.names: dict[Node, list[str]] = {client: [] for client in HOMES}
        self.filters: dict[str, Filter] = {}  # by subscription, whose names are unique in the network
        self.crashes = 0
        self._numbered = 0
        self.twins = {name: self.make_broker(name) for name in BROKERS if durable}
        for name in BROKERS:
            self.add(name, lambda name=name: self.make_broker(name), durable=durable)
        for name, home in HOMES.items():
            self.add(name, lambda name=name, home=home: ClientMachine(name, home), durable=False)
            self.perform(name, self.client(name).attach())

    def make_broker(self, name: Node) -> Broker:
        neighbours = [n for link in CHAIN if name in link for n in link if n != name]
        return Broker(name, self.routing, neighbours=neighbours, parent=None if name == "b2" else "b2")

    def client(self, name: Node) -> ClientMachine:
        machine = self.hosts[name].live.machine
        assert isinstance(machine, ClientMachine)
        return machine

    # What clients do -----------------------------------------------------------------------------------------

    def act(self) -> None:
        stream = self.stream
        name = stream.choice(sorted(HOMES))
        client, names = self.client(name), self.names[name]
        draw = stream.random()
        if draw < 0.65:
            self.perform(name, client.publish(self.random_attributes()))
        elif draw < 0.85 or not names:
            self._numbered += 1
            subscription = f"s{self._numbered}"
            names.append(subscription)
            text = stream.choice((*FILTERS, f"lane = '{name}'", f"lane = '{name}' AND price > 3"))
            self.filters[subscription] = wanted = parse_filter(text)
            self.perform(name, client.subscribe(subscription, wanted, network_wide=stream.random() < 0.8))
        else:
            gone = names.pop(stream.randrange(len(names)))
            self.perform(name, client.unsubscribe(gone))

    def random_attributes(self) -> dict[str, Value]:
        stream = self.stream
        return {"topic": stream.choice("ab"), "price": stream.randint(0, 9), "lane": stream.choice([*HOMES])}

    def wanting(self, attributes: dict[str, Value]) -> list[Node]:
        """The clients that have a subscription to such an event, as they see it."""
        return [c for c, names in self.names.items() if any(self.filters[n].matches(attributes) for n in names)]

    # What the world sees -------------------------------------------------------------------------------------

    def may_crash(self, name: Node) -> bool:
        return name in BROKERS

    def crashed(self, host: Host) -> None:
        self.crashes += 1

    def committed(self, host: Host, batch: Batch) -> None:
        for seen in batch.observed:
            self.recorder.observe(self.now, host.name, seen)
        twin = self.twins.get(host.name)
        if twin is None:
            return
        for entry in batch.journal:
            assert entry.payload is not None, "nobody is reborn here"
            twin.handle(entry.peer, decode(entry.payload), now=entry.now)
        if batch.journal:
            assert twin.capture() == host.live.machine.capture(), f"{host.name} is not as if it had never crashed"

    def started(self, host: Host) -> None:
        twin = self.twins.get(host.name)
        if twin is not None:
            assert twin.capture() == host.live.machine.capture(), f"{host.name} did not recover what it was"

    def drain(self) -> None:
        self.heal()
        self.recorder.add(RecordKind.DRAIN, at=self.now, node="")

    def verdict(self) -> Verdict:
        return judge(self.recorder.records, Ordering.CAUSAL)
