"""The seam between the network and routing (S0 §II), with a toy protocol in the place of a reconfiguration.

Whatever the toy does (see `toy_protocol.py`), routing must not notice: order is kept, nothing is lost or doubled, and
all of it survives a restart.
"""

from __future__ import annotations

from random import Random

import pytest

from pleach.core.broker import Broker
from pleach.core.effects import Effect
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    Advertise,
    Deliver,
    Forward,
    Install,
    Layer,
    Marked,
    Message,
    Node,
    Publish,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from pleach.core.overlay.seam import ProtocolMachine
from pleach.core.routing.entries import Entry
from pleach.core.routing.router import RoutingConfig
from pleach.errors import ProtocolError
from support.routing.fifo_network import CONFIGS, Adversary, Tree, Wires, config_name, random_tree
from support.routing.toy_protocol import Alias, Double, Freeze, Thaw, Toy
from support.thorough import FACTOR

STORIES = 8 * FACTOR  # for each of 24 configurations
ANYTHING = parse_filter("EXISTS n")


class ToyWires(Wires):
    """Brokers with the toy."""

    def make_broker(self, name: Node) -> Broker:
        tree = self.tree
        return Broker(name, self.config, neighbours=tree.neighbours[name], parent=tree.parent[name], machines=[Toy])

    def command(self, broker: Node, message: Message) -> None:
        """The toy's operator speaks to a broker."""
        self.perform(broker, self.handle(broker, "operator", message))

    def restart(self, name: Node) -> None:
        """The broker crashes and comes back from its disk."""
        state = self.brokers[name].capture()
        self.brokers[name] = self.make_broker(name)
        self.brokers[name].restore(state)
        assert self.brokers[name].capture() == state


CHAIN = Tree({"a": ["b"], "b": ["a", "c"], "c": ["b"]}, {"a": None, "b": "a", "c": "b"})


def chain(*, subscriber: bool = True) -> ToyWires:
    """P at a, S at c; S wants everything that has a number."""
    wires = ToyWires(CHAIN, RoutingConfig("covering"), {"P": "a", "S": "c"})
    if subscriber:
        wires.request("S", Subscribe("s", ANYTHING))
        drain(wires)
    return wires


def drain(wires: Wires) -> None:
    Adversary(Random(0)).drain(wires)


def event(publisher: Node, number: int) -> Event:
    return Event(EventId(publisher, 0, number), {"n": number})


def publish(wires: Wires, publisher: Node, *numbers: int) -> None:
    for number in numbers:
        wires.request(publisher, Publish(event(publisher, number)))


def received(wires: Wires, client: Node) -> list[str]:
    return [str(message.event.id) for message in wires.mailbox[client] if isinstance(message, Deliver)]


def ids(publisher: Node, *numbers: int) -> list[str]:
    return [f"{publisher}/0/{number}" for number in numbers]


# Holding ----------------------------------------------------------------------------------------------------------


def test_the_toy_is_a_machine():
    broker = Broker("b", RoutingConfig(), machines=[Toy])
    machine: ProtocolMachine = broker._machines["toy"]
    assert machine.under_way is None


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_held_link_gives_everything_back_in_order(is_restarted):
    """Rules 2 and 3 of the seam."""
    wires = chain()
    publish(wires, "P", 1)
    drain(wires)
    wires.command("b", Freeze("a"))
    publish(wires, "P", 2, 3, 4)
    drain(wires)
    assert received(wires, "S") == ids("P", 1)
    if is_restarted:
        wires.restart("b")
    wires.command("b", Thaw("a"))
    publish(wires, "P", 5)
    drain(wires)
    assert received(wires, "S") == ids("P", 1, 2, 3, 4, 5)


def test_other_links_go_on():
    """What comes from c passes b, on to a, while all that comes from a is held."""
    wires = chain()
    wires.request("P", Subscribe("p", ANYTHING))
    drain(wires)
    wires.command("b", Freeze("a"))
    publish(wires, "S", 1)
    publish(wires, "P", 1)
    drain(wires)
    assert sorted(received(wires, "P")) == ids("P", 1) + ids("S", 1)
    assert received(wires, "S") == ids("S", 1)


def test_what_is_held_is_not_confirmed():
    """A held subscription is not installed network-wide: its acknowledgement waits with it."""
    wires = chain(subscriber=False)
    wires.command("b", Freeze("c"))
    wires.request("S", Subscribe("s", ANYTHING))
    drain(wires)
    assert Subscribed("s") not in wires.mailbox["S"]
    wires.command("b", Thaw("c"))
    drain(wires)
    assert Subscribed("s") in wires.mailbox["S"]


def test_a_timer_may_release_a_link():
    wires = chain()
    wires.command("b", Freeze("a"))
    publish(wires, "P", 1)
    drain(wires)
    wires.perform("b", wires.brokers["b"].handle_timer("toy:a", now=1.0))
    drain(wires)
    assert received(wires, "S") == ids("P", 1)


def test_a_link_that_is_frozen_again_keeps_its_order():
    """What is released and held again stays before what comes later."""
    wires = chain()
    for numbers in ((1, 2), (3,), (4, 5)):
        wires.command("b", Freeze("a"))
        wires.command("b", Freeze("a"))  # two reasons: the first thaw lets go, and all is held again
        publish(wires, "P", *numbers)
        drain(wires)
        wires.command("b", Thaw("a"))
        drain(wires)
        wires.command("b", Thaw("a"))
    drain(wires)
    assert received(wires, "S") == ids("P", 1, 2, 3, 4, 5)


def test_the_seam_is_idle_before_and_after():
    """Rule 1: without a reconfiguration the seam changes nothing."""
    wires = chain()
    seam = wires.brokers["b"].seam
    assert seam.is_idle
    wires.command("b", Freeze("a"))
    publish(wires, "P", 1)
    drain(wires)
    assert not seam.is_idle
    wires.command("b", Thaw("a"))
    assert seam.is_idle


# Marks ------------------------------------------------------------------------------------------------------------


def test_marked_copies_are_dropped():
    wires = chain()
    for broker in wires.brokers:
        wires.command(broker, Double())
    publish(wires, "P", 1, 2, 3)
    wires.request("P", Subscribe("p", ANYTHING))
    drain(wires)
    publish(wires, "S", 1)
    drain(wires)
    assert received(wires, "S") == [*ids("P", 1, 2, 3), *ids("S", 1)]
    assert received(wires, "P")[-1:] == ids("S", 1)


def test_without_anyone_who_drops_them_copies_arrive_twice():
    """The mutant of the test before: b and c do not know of marks, and take them off."""
    wires = chain()
    wires.command("a", Double())
    publish(wires, "P", 1)
    drain(wires)
    assert received(wires, "S") == ids("P", 1, 1)


def test_marks_are_for_neighbours_only():
    """Replies and deliveries to clients leave through the seam too; the toy can tell them apart."""
    wires = chain()
    wires.command("c", Double())
    publish(wires, "S", 1)
    drain(wires)
    assert received(wires, "S") == ids("S", 1)
    assert not any(isinstance(message, Marked) for message in wires.mailbox["S"])


# Other senders' names -----------------------------------------------------------------------------------------------


def test_a_message_may_pass_in_the_name_of_another_neighbour():
    """S0 §IV: after a swap, what came over the old link stands for the new one."""
    wires = chain(subscriber=False)
    wires.command("b", Alias("c", "a"))
    install = Install(Layer.SUBSCRIPTIONS, 1, "", ANYTHING)
    wires.perform("b", wires.handle("b", "c", install))
    router = wires.brokers["b"].router
    assert router.received_from(Layer.SUBSCRIPTIONS, "a") == [Entry("", ANYTHING)]
    assert router.received_from(Layer.SUBSCRIPTIONS, "c") == []
    assert [link for link in wires.waiting() if link[0] == "b"] == [("b", "c")], "it is told to c, not to a"


# Legality ---------------------------------------------------------------------------------------------------------


class Stray(Message):
    pass


def test_a_message_that_no_protocol_owns_is_an_error():
    wires = chain()
    with pytest.raises(ProtocolError, match="Stray from operator"):
        wires.command("b", Stray())


def test_a_pub_sub_message_from_a_stranger_is_an_error():
    wires = chain()
    with pytest.raises(ProtocolError, match="no neighbour"):
        wires.handle("a", "c", Forward(event("P", 1)))


def test_two_protocols_cannot_own_one_message():
    with pytest.raises(AssertionError, match="two owners"):
        Broker("b", RoutingConfig(), machines=[Toy, type("Other", (Toy,), {"name": "other"})])


# Everything at once -------------------------------------------------------------------------------------------------


class Story:
    """Random freezes, thaws and restarts while events flow twice over every link."""

    def __init__(self, config: RoutingConfig, stream: Random) -> None:
        self.stream = stream
        tree = random_tree(stream, 5)
        self.clients = {f"c{i}": stream.choice(tree.brokers) for i in range(4)}
        self.wires = ToyWires(tree, config, self.clients)
        self.adversary = Adversary(stream)
        self.frozen: list[tuple[Node, Node]] = []
        self.numbers = dict.fromkeys(self.clients, 0)
        for client in self.clients:
            self.wires.request(client, Advertise("a", ANYTHING))
            self.wires.request(client, Subscribe("s", ANYTHING))
        for broker in tree.brokers:
            self.wires.command(broker, Double())
        self.adversary.drain(self.wires)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.stream.choice((self._publish, self._publish, self._freeze, self._thaw, self._restart, self._fuss))()
            for _ in range(self.stream.randint(0, 8)):
                if links := self.wires.waiting():
                    self.wires.deliver(self.adversary.choose(links))
        while self.frozen:
            self._thaw()
        self.adversary.drain(self.wires)

    def _publish(self) -> None:
        client = self.stream.choice(sorted(self.clients))
        self.numbers[client] += 1
        publish(self.wires, client, self.numbers[client])

    def _freeze(self) -> None:
        broker = self.stream.choice(self.wires.tree.brokers)
        link = self.stream.choice(self.wires.tree.neighbours[broker])
        if (broker, link) not in self.frozen:
            self.frozen.append((broker, link))
            self.wires.command(broker, Freeze(link))

    def _thaw(self) -> None:
        if self.frozen:
            broker, link = self.frozen.pop(self.stream.randrange(len(self.frozen)))
            self.wires.command(broker, Thaw(link))

    def _restart(self) -> None:
        self.wires.restart(self.stream.choice(self.wires.tree.brokers))

    def _fuss(self) -> None:
        """A second, narrower or wider subscription comes and goes; the first one stays."""
        client = self.stream.choice(sorted(self.clients))
        self.wires.request(client, Subscribe("t", parse_filter(self.stream.choice(("n > 3", "n <= 3", "EXISTS n")))))
        self.wires.request(client, Unsubscribe("t"))


@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
def test_routing_does_not_notice(config):
    """Whatever the toy did: each client got each event once, those of one publisher in order."""
    for seed in range(STORIES):
        story = Story(config, Random(f"seam/{seed}"))
        story.run(30)
        for client in story.clients:
            got = received(story.wires, client)
            for publisher, count in story.numbers.items():
                from_publisher = [each for each in got if each.startswith(f"{publisher}/")]
                assert from_publisher == ids(publisher, *range(1, count + 1)), (seed, client)


def effects_of(broker: Broker, sender: Node, message: Message) -> list[Effect]:
    return list(broker.handle(sender, message, now=0.0))


def test_a_restored_broker_releases_the_same():
    """Rule 3: what is held, and what the machine knows, is part of the state."""
    wires = chain()
    wires.command("b", Double())
    wires.command("b", Freeze("a"))
    publish(wires, "P", 1, 2)
    drain(wires)
    original, restored = wires.brokers["b"], wires.make_broker("b")
    restored.restore(original.capture())
    answers = [effects_of(broker, "operator", Thaw("a")) for broker in (original, restored)]
    assert answers[0] == answers[1]
    assert len(answers[0]) == 4, "two events, twice each"
    assert original.capture() == restored.capture()
