"""Endpoints around real machines: a small network on unreliable ground, judged by the oracle; and single batches."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Send
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.endpoint import Endpoint, Progress
from pleach.core.links.frames import Ack, Bye, Data, Hello
from pleach.core.messages import (
    Advertise,
    Advertised,
    Attach,
    Attached,
    Deliver,
    Detach,
    Forward,
    Install,
    Installed,
    Layer,
    Mark,
    Marked,
    Message,
    Publish,
    Published,
    PublishRefused,
    Refused,
    Subscribe,
    Subscribed,
    Unadvertise,
    Unadvertised,
    Unsubscribe,
    Unsubscribed,
    Withdraw,
    encode,
    wire_tag,
)
from pleach.core.routing.router import RoutingConfig
from pleach.errors import PleachError
from support.links.unreliable_endpoints import CONFIG, Disk, Weather
from support.links.unreliable_network import HOMES, NetworkWorld
from support.thorough import FACTOR

SEEDS = 9 * FACTOR
ROUTINGS = {
    "covering": RoutingConfig("covering"),
    "merging": RoutingConfig("merging", merge_bound=0.3),
    "hierarchical": RoutingConfig("covering", hierarchical=True),
}
WEATHERS = {
    "crashes": Weather(cut=0.02, crash=0.04),
    "cuts": Weather(cut=0.06, half_open=0.5, crash=0.0, double=0.02),
    "all": Weather(cut=0.03, crash=0.03, lose=0.01, double=0.01, lazy=0.6),
}
STEPS = 220
ACTS = 0.25  # per step

# A network on unreliable ground ----------------------------------------------------------------------------------


def run(world: NetworkWorld) -> None:
    for _ in range(2):
        for _ in range(STEPS):
            if world.stream.random() < ACTS:
                world.act()
            world.step()
        world.drain()


@pytest.mark.parametrize("weather", WEATHERS)
@pytest.mark.parametrize("routing", ROUTINGS)
def test_nothing_is_lost_doubled_or_out_of_order_and_recovery_forgets_nothing(routing, weather):
    deliveries = crashes = 0
    for seed in range(SEEDS):
        world = NetworkWorld(Random(f"network/{routing}/{weather}/{seed}"), ROUTINGS[routing], WEATHERS[weather])
        run(world)
        verdict = world.verdict()
        assert verdict.clean, (seed, verdict.unusable, [str(violation) for violation in verdict.violations])
        deliveries += verdict.counts.deliveries
        crashes += world.crashes
    assert deliveries > 20 * SEEDS
    assert (crashes > SEEDS) == bool(WEATHERS[weather].crash)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_brokers_without_disks_lose_events_but_the_network_comes_back_whole(routing):
    """After the storm every client gets what it is subscribed to, and nothing else, whoever was reborn how often."""
    crashes = 0
    for seed in range(SEEDS):
        stream = Random(f"reborn brokers/{routing}/{seed}")
        world = NetworkWorld(stream, ROUTINGS[routing], WEATHERS["all"], durable=False)
        run(world)
        before = len(world.recorder.records)
        expected = []
        for publisher in sorted(HOMES) * 3:
            attributes = world.random_attributes()
            event = f"{publisher}/0/{world.client(publisher)._state.sequence + 1}"
            expected += [(client, event) for client in world.wanting(attributes)]
            world.perform(publisher, world.client(publisher).publish(attributes))
        world.drain()
        records = world.recorder.records[before:]
        assert sorted((r.node, r.event) for r in records if r.kind == "deliver") == sorted(expected), seed
        crashes += world.crashes
    assert crashes > SEEDS


def test_the_same_seed_gives_the_same_trace():
    traces = []
    for _ in range(2):
        world = NetworkWorld(Random("again"), ROUTINGS["covering"], WEATHERS["all"])
        run(world)
        traces.append(world.recorder.records)
    assert traces[0] == traces[1] != []


# Which messages change a machine ---------------------------------------------------------------------------------

FILTERS = tuple(map(parse_filter, ("EXISTS price", "price <= 5", "price = 3", "topic = 'a'")))
NEIGHBOURS, CLIENTS = ("n1", "n2"), ("c1", "c2")
NAMES = ("s1", "s2", "s3")


def random_message(stream: Random, sender: str, number: int) -> Message:
    """Any kind of message, mostly one that makes sense for its sender; not everything that it says is true."""
    event = Event(EventId(sender, 0, number), {"price": stream.randint(0, 9), "topic": stream.choice("ab")})
    name, wanted, layer = stream.choice(NAMES), stream.choice(FILTERS), stream.choice(list(Layer))
    from_clients: list[Message] = [
        Attach(stream.random() < 0.8),
        Detach(),
        Publish(event),
        Subscribe(name, wanted, stream.random() < 0.8),
        Unsubscribe(name),
        Advertise(name, wanted),
        Unadvertise(name),
    ]
    from_neighbours: list[Message] = [
        Forward(event),
        Install(layer, stream.randint(1, 4), f"x/{name}", wanted),
        Withdraw(layer, f"x/{name}", wanted),
        Installed(layer, stream.randint(0, 5)),
    ]
    to_clients: list[Message] = [
        Attached(),
        Deliver(event),
        Published(event.id),
        PublishRefused(event.id, "why"),
        Subscribed(name),
        Unsubscribed(name),
        Advertised(name),
        Unadvertised(name),
        Refused(name, "why"),
    ]
    everything = [*from_clients, *from_neighbours, *to_clients, Marked("1", Mark.FLOOD, "a", Forward(event))]
    if stream.random() < 0.1:
        return stream.choice(everything)
    if sender == "b":
        return stream.choice(to_clients)
    return stream.choice(from_neighbours if sender in NEIGHBOURS else from_clients)


def check_honesty(machine, sender: str, message: Message) -> str:
    """What `is_changed_by` says must hold; and a message that is refused must have changed nothing."""
    before, may_change = machine.capture(), machine.is_changed_by(sender, message)
    try:
        machine.handle(sender, message, now=0.0)
    except PleachError:
        assert machine.capture() == before, f"{message} was refused, and changed something"
        return "refused"
    if may_change:
        return "changed" if machine.capture() != before else "same"
    assert machine.capture() == before, f"{message} changed something, though is_changed_by says that it cannot"
    return "untouched"


@pytest.mark.parametrize("advertisements", [False, True])
def test_a_broker_says_honestly_what_changes_it(advertisements):
    tally = {"refused": 0, "changed": 0, "same": 0, "untouched": 0}
    for seed in range(40 * FACTOR):
        stream = Random(f"honest/{seed}")
        broker = Broker("b", RoutingConfig(advertisements=advertisements), neighbours=NEIGHBOURS)
        for number in range(1, 60):
            sender = stream.choice((*NEIGHBOURS, *CLIENTS))
            tally[check_honesty(broker, sender, random_message(stream, sender, number))] += 1
    assert min(tally.values()) > 20 * FACTOR, tally


def test_a_client_says_honestly_what_changes_it():
    tally = {"refused": 0, "changed": 0, "same": 0, "untouched": 0}
    for seed in range(60 * FACTOR):
        stream = Random(f"honest client/{seed}")
        client = ClientMachine("c1", "b")
        for number in range(1, 40):
            if stream.random() < 0.5:
                name, wanted = stream.choice(NAMES), stream.choice(FILTERS)
                stream.choice((client.advertise, client.subscribe))(name, wanted)
                client.publish({"price": 1})
            tally[check_honesty(client, "b", random_message(stream, "b", number))] += 1
    assert min(tally.values()) > 20 * FACTOR, tally


# Batches, one by one ---------------------------------------------------------------------------------------------

PUBLISH = encode(Publish(Event(EventId("c", 0, 1), {"price": 1})))
HELLO = Hello("c", 3, 0, 0, 1)


def broker_with_client() -> Endpoint:
    """A broker `b` whose client `c` is attached and wants everything with a price; the batch is empty."""
    endpoint = Endpoint(Broker("b", RoutingConfig()), 5, CONFIG)
    endpoint.connected("c", now=0.0)
    endpoint.receive("c", HELLO, now=0.0)
    endpoint.receive("c", Data(1, encode(Attach())), now=0.0)
    endpoint.receive("c", Data(2, encode(Subscribe("s", FILTERS[0]))), now=0.0)
    endpoint.receive("c", Ack(2), now=0.0)
    endpoint.take_batch()
    return endpoint


def test_an_event_that_passes_through_is_queued_and_not_journalled():
    endpoint = broker_with_client()
    endpoint.receive("c", Data(3, PUBLISH), now=0.0)
    batch = endpoint.take_batch()
    assert not batch.journal
    assert [(q.peer, q.sequence) for q in batch.queued] == [("c", 3), ("c", 4)]  # Deliver, Published
    assert batch.progress == {"c": Progress(5, 3, 3, 3)}
    assert [type(frame) for _, frame in batch.transmits] == [Data, Data, Ack]


def test_a_batch_is_taken_once():
    endpoint = broker_with_client()
    endpoint.receive("c", Data(3, PUBLISH), now=0.0)
    assert endpoint.take_batch().changes_disk
    assert not endpoint.take_batch().changes_disk


def test_what_was_for_a_former_connection_does_not_go_out_on_the_next():
    """Several inputs can make one batch; the peer would take an Ack before the Hello for an error, and hang up."""
    endpoint = broker_with_client()
    endpoint.receive("c", Data(3, PUBLISH), now=0.0)
    endpoint.receive("c", Data(9, PUBLISH), now=0.0)  # a gap: hang up
    endpoint.disconnected("c")
    endpoint.connected("c", now=0.1)
    batch = endpoint.take_batch()
    assert batch.transmits == [("c", Hello("b", 5, 3, 3, 3))]
    assert not batch.hangups
    assert len(batch.queued) == 2


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        encode(Published(EventId("c", 0, 1))),  # only brokers say this
        encode(Marked("1", Mark.FLOOD, "a", Forward(Event(EventId("c", 0, 1), {})))),
        msgspec.msgpack.encode([wire_tag(Subscribe), "s", "price >", True]),
        msgspec.msgpack.encode([wire_tag(Subscribe), "s", 7, True]),
        bytes([0x93, wire_tag(Refused)]) + b"\xa1\xff\xa1a",  # bad UTF-8
        PUBLISH.replace(b"\x81\xa5price\x01", b"\x81\xa5price" + b"\x91" * 3_000 + b"\x01"),  # nested too deeply
    ],
)
def test_a_payload_that_cannot_be_accepted_ends_the_connection_and_nothing_else(payload):
    endpoint = broker_with_client()
    before = endpoint.machine.capture()
    endpoint.receive("c", Data(3, payload), now=0.0)
    batch = endpoint.take_batch()
    assert [peer for peer, _ in batch.hangups] == ["c"]
    assert not batch.journal
    assert not batch.queued
    assert endpoint.machine.capture() == before
    endpoint.disconnected("c")
    endpoint.connected("c", now=1.0)
    endpoint.receive("c", Hello("c", 3, 5, 2, 1), now=1.0)
    endpoint.receive("c", Data(4, PUBLISH), now=1.0)
    assert endpoint.take_batch().queued


def test_a_reborn_client_starts_anew_and_the_journal_says_so():
    endpoint = broker_with_client()
    endpoint.disconnected("c")
    endpoint.connected("c", now=1.0)
    endpoint.receive("c", Hello("c", 4, 0, 0, 1), now=1.0)
    batch = endpoint.take_batch()
    assert [(entry.peer, entry.payload) for entry in batch.journal] == [("c", None)]
    assert endpoint.machine.capture() == Broker("b", RoutingConfig()).capture()


def test_an_expelled_client_is_forgotten_and_cannot_resume():
    endpoint = broker_with_client()
    endpoint.receive("c", Data(3, PUBLISH), now=0.0)
    endpoint.expel("c", "too slow", now=0.0)
    batch = endpoint.take_batch()
    assert [(entry.peer, entry.payload) for entry in batch.journal] == [("c", None)]
    assert isinstance(batch.transmits[-1][1], Bye)
    assert batch.progress["c"].first == 6  # 3 and 4 were thrown away, and 5 is the gap
    assert endpoint.machine.capture() == Broker("b", RoutingConfig()).capture()


def test_recovery_from_snapshot_and_journal_at_every_point():
    """Whichever batch was the last, and wherever the snapshot was taken: the same state, the same sessions."""
    stream, disk = Random("recover"), Disk()
    endpoint = Endpoint(Broker("b", RoutingConfig()), 5, CONFIG)
    endpoint.connected("c", now=0.0)
    endpoint.receive("c", HELLO, now=0.0)
    for number in range(1, 200):
        message = Attach() if number == 1 else random_message(stream, "c", number)
        endpoint.receive("c", Data(number, encode(message)), now=0.0)
        if stream.random() < 0.5:
            endpoint.receive("c", Ack(endpoint.sessions["c"]._next_to_send - 1), now=0.0)
        disk.write(endpoint.take_batch())
        if stream.random() < 0.1:
            disk.checkpoint(endpoint.capture())
        again = Endpoint(Broker("b", RoutingConfig()), 5, CONFIG)
        again.recover(disk.read())
        assert again.machine.capture() == endpoint.machine.capture()
        assert again.sessions["c"].capture() == endpoint.sessions["c"].capture()
        assert not again.take_batch().queued


def test_one_message_to_many_is_encoded_once():
    endpoint = Endpoint(ClientMachine("c", "b"), 1, CONFIG)
    message = Attach()
    endpoint.perform([Send(peer, message) for peer in ("x", "y", "z")], now=0.0)
    payloads = [q.payload for q in endpoint.take_batch().queued]
    assert len({id(payload) for payload in payloads}) == 1
    assert len(payloads) == 3
