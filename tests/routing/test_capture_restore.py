"""A broker's state can be captured and restored (DESIGN §3): one mechanism for disk, explorer and crash tests.

At a random moment a broker is captured and a fresh one takes the state over. From then on both are given the same
messages, and must answer with equal effects, in equal order, and end in equal states: otherwise a crash would change
the future, and states that the explorer takes for one would be two.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random

import pytest
from wires import CONFIGS, EVENTS, FILTERS, Adversary, Wires, config_name, random_tree

from pleach.broker import Broker
from pleach.effects import Effect
from pleach.events.event import Event, EventId
from pleach.messages import (
    Advertise,
    Detach,
    Message,
    Node,
    Publish,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)

STORIES = 25 * int(os.environ.get("PLEACH_THOROUGH", "1"))  # for each of 24 configurations
BROKERS_MAX = 5
CLIENTS = 4
REQUESTS = 30
NAMES = ("n0", "n1", "n2")


class TwinWires(Wires):
    """Wires on which some brokers have a twin that gets the same messages and has to answer the same."""

    twins: dict[Node, Broker]
    compared = 0

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


def make_wires(config, stream: Random) -> TwinWires:
    tree = random_tree(stream, BROKERS_MAX)
    TwinWires.twins = {}  # there before the first message is handled
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


def run(wires: TwinWires, stream: Random) -> None:
    """Requests and deliveries in any order; twins are made in between, while messages are under way."""
    adversary = Adversary(stream)
    moments = {stream.randrange(REQUESTS) for _ in range(3)}
    for number in range(1, REQUESTS + 1):
        client = stream.choice(sorted(wires.home))
        wires.request(client, random_request(stream, client, number))
        for _ in range(stream.randint(0, 6)):
            if links := wires.waiting():
                wires.deliver(adversary.choose(links))
        if number in moments:
            wires.twin(stream.choice(sorted(wires.brokers)))
    adversary.drain(wires)


@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
def test_a_restored_broker_has_the_same_future(config):
    compared = 0
    for seed in range(STORIES):
        stream = Random(f"capture/{seed}")
        wires = make_wires(config, stream)
        run(wires, stream)
        for name, twin in sorted(wires.twins.items()):
            assert twin.capture() == wires.brokers[name].capture(), (seed, name)
        compared += wires.compared
    assert compared > 10 * STORIES, "hardly anything was compared"


@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
def test_two_brokers_with_the_same_past_are_captured_alike(config):
    """States are compared by their bytes: they may depend on what happened, not on how sets hash."""
    states = []
    for _ in range(2):
        stream = Random("capture/alike")
        wires = make_wires(config, stream)
        run(wires, stream)
        states.append([broker.capture() for _, broker in sorted(wires.brokers.items())])
    assert states[0] == states[1]
