"""A broker's state can be captured and restored (ARCHITECTURE.md): one mechanism for disk, explorer and crash tests.

At a random moment a broker is captured and a fresh one takes the state over. From then on both are given the same
messages, and must answer with equal effects, in equal order, and end in equal states: otherwise a crash would change
the future, and states that the explorer takes for one would be two.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest

from pleach.core.broker import Broker
from pleach.core.effects import Effect
from pleach.core.events.event import Event, EventId
from pleach.core.messages import (
    Advertise,
    Detach,
    Message,
    Node,
    Publish,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from pleach.core.routing.router import RoutingConfig
from support.routing.fifo_network import CONFIGS, EVENTS, FILTERS, Adversary, Tree, Wires, config_name, random_tree
from support.thorough import FACTOR

STORIES = 12 * FACTOR  # for each of 24 configurations
BROKERS_MAX = 5
CLIENTS = 4
REQUESTS = 30
NAMES = ("n0", "n1", "n2")


class TwinWires(Wires):
    """Wires on which some brokers have a twin that gets the same messages and has to answer the same."""

    def __init__(self, tree: Tree, config: RoutingConfig, clients: Mapping[Node, Node]) -> None:
        self.twins: dict[Node, Broker] = {}
        self.compared = 0
        super().__init__(tree, config, clients)

    def twin(self, name: Node) -> None:
        original = self.brokers[name]
        state = original.capture()
        fresh = self.make_broker(name)
        fresh.restore(state)
        assert fresh.capture() == state
        assert original.capture() == state, "capturing changes nothing"
        self.twins[name] = fresh

    def handle(self, broker: Node, sender: Node, message: Message) -> Sequence[Effect]:
        effects = super().handle(broker, sender, message)
        twin = self.twins.get(broker)
        if twin is not None:
            self.compared += 1
            assert list(twin.handle(sender, message, now=0.0)) == list(effects), (broker, sender, message)
        return effects


def make_wires(config: RoutingConfig, stream: Random) -> TwinWires:
    tree = random_tree(stream, BROKERS_MAX)
    return TwinWires(tree, config, {f"c{i}": stream.choice(tree.brokers) for i in range(CLIENTS)})


def random_request(stream: Random, client: Node, number: int) -> Message:
    name, wanted = stream.choice(NAMES), stream.choice(FILTERS)
    kind = stream.choices((Subscribe, Unsubscribe, Advertise, Unadvertise, Publish, Detach), (6, 3, 4, 2, 5, 0.2))[0]
    if kind is Publish:
        return Publish(Event(EventId(client, 0, number), dict(stream.choice(EVENTS))))
    if kind is Subscribe:
        return Subscribe(name, wanted, network_wide=stream.random() < 0.8)
    if kind is Detach:
        return Detach()
    return kind(name, wanted) if kind is Advertise else kind(name)


def run(wires: Wires, stream: Random, twin_at: Sequence[int] = ()) -> None:
    """Requests and deliveries in any order; twins are made in between, while messages are under way."""
    adversary = Adversary(stream)
    for number in range(1, REQUESTS + 1):
        client = stream.choice(sorted(wires.home))
        wires.request(client, random_request(stream, client, number))
        for _ in range(stream.randint(0, 6)):
            if links := wires.waiting():
                wires.deliver(adversary.choose(links))
        if number in twin_at:
            wires.twin(stream.choice(sorted(wires.brokers)))
    adversary.drain(wires)


@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
def test_a_restored_broker_has_the_same_future(config):
    compared = 0
    for seed in range(STORIES):
        stream = Random(f"capture/{seed}")
        wires = make_wires(config, stream)
        run(wires, stream, twin_at=[stream.randrange(REQUESTS) for _ in range(3)])
        for name, twin in sorted(wires.twins.items()):
            assert twin.capture() == wires.brokers[name].capture(), (seed, name)
        compared += wires.compared
    assert compared > 10 * STORIES, "hardly anything was compared"


def digest_of_states() -> str:
    """The states of all brokers after one story under every configuration."""
    digest = sha256()
    for config in CONFIGS:
        stream = Random("capture/alike")
        wires = Wires(random_tree(stream, BROKERS_MAX), config, {f"c{i}": f"b{i % 2}" for i in range(CLIENTS)})
        run(wires, stream)
        for _, broker in sorted(wires.brokers.items()):
            digest.update(broker.capture())
    return digest.hexdigest()


def test_states_do_not_depend_on_how_strings_hash():
    """Two processes, two hash seeds, one past: the same bytes. What iterates a set into output shows here."""
    script = "import test_capture_restore as t; print(t.digest_of_states())"
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    digests = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert digests[0] == digests[1] != ""
