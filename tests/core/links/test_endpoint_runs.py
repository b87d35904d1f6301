"""Frames that are received in runs: as one by one, with fewer confirmations."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Observe
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.links.endpoint import Batch, Endpoint
from pleach.core.links.frames import Ack, Data, Hello
from pleach.core.messages import (
    CONFIRMED_TOGETHER_MAX,
    Attach,
    Deliver,
    Forward,
    Publish,
    Published,
    Subscribe,
    encode,
)
from pleach.core.messages.runs import decode_all, encode_event, encode_run
from pleach.core.routing.router import RoutingConfig
from pleach.errors import ProtocolError


def event(sequence, *, publisher="p", x=1):
    return Event(EventId(publisher, 7, sequence), {"x": x}, b"body")


def data(first, *events):
    return [Data(first + number, encode(Publish(each))) for number, each in enumerate(events)]


def broker(*, publisher_wants=""):
    """A publisher `p`, a subscriber `s` to x = 1, a neighbour `n` that wants x = 1; p's next frame is 3."""
    endpoint = Endpoint(Broker("b", RoutingConfig(), neighbours=["n"]), 5)
    for peer in "psn":
        endpoint.connected(peer, now=0.0)
        endpoint.receive(peer, Hello(peer, 3, 5, 0, 1), now=0.0)
    for peer, wanted in (("p", publisher_wants or "x = 9"), ("s", "x = 1")):
        endpoint.receive(peer, Data(1, encode(Attach())), now=0.0)
        endpoint.receive(peer, Data(2, encode(Subscribe("s", parse_filter(wanted), network_wide=False))), now=0.0)
    endpoint.take_batch()
    return endpoint


def said_to(batch: Batch, peer):
    return [message for queued in batch.queued if queued.peer == peer for message in decode_all(queued.payload)]


def confirmed(messages):
    return [each for message in messages if isinstance(message, Published) for each in message.event_ids]


def test_a_run_is_confirmed_once_its_frames_and_its_events():
    endpoint = broker()
    endpoint.receive_data("p", data(3, event(1), event(2), event(3)), now=0.0)
    batch = endpoint.take_batch()
    assert said_to(batch, "p") == [Published(event(3).id, 3)]
    assert [frame for peer, frame in batch.transmits if peer == "p" and isinstance(frame, Ack)] == [Ack(5)]
    assert said_to(batch, "s") == [Deliver(event(n)) for n in (1, 2, 3)]


def test_events_that_do_not_follow_each_other_are_confirmed_apart():
    endpoint = broker()
    endpoint.receive_data("p", data(3, event(1), event(4), event(5)), now=0.0)
    assert said_to(endpoint.take_batch(), "p") == [Published(event(1).id, 1), Published(event(5).id, 2)]


def test_a_confirmation_keeps_its_place_among_what_its_client_gets():
    endpoint = broker(publisher_wants="x = 2")
    endpoint.receive_data("p", data(3, event(1), event(2), event(3, x=2), event(4)), now=0.0)
    wanted = [Published(event(2).id, 2), Deliver(event(3, x=2)), Published(event(4).id, 2)]
    assert said_to(endpoint.take_batch(), "p") == wanted


def test_one_message_confirms_a_bounded_number_of_events():
    endpoint = broker()
    events = [event(n + 1) for n in range(CONFIRMED_TOGETHER_MAX + 1)]
    endpoint.receive_data("p", data(3, *events), now=0.0)
    counts = [message.count for message in said_to(endpoint.take_batch(), "p")]
    assert counts == [CONFIRMED_TOGETHER_MAX, 1]


def test_an_event_goes_on_in_the_bytes_that_its_codec_would_make():
    endpoint = broker()
    endpoint.receive_data("p", data(3, event(1)), now=0.0)
    payloads = [queued.payload for queued in endpoint.take_batch().queued if queued.peer == "s"]
    assert payloads == [encode(Deliver(event(1)))]
    endpoint.receive_data("n", [Data(1, encode(Forward(event(1, publisher="q"))))], now=0.0)
    payloads = [queued.payload for queued in endpoint.take_batch().queued if queued.peer == "s"]
    assert payloads == [encode(Deliver(event(1, publisher="q")))]


def test_a_bad_message_in_a_run_ends_the_connection_and_loses_no_other():
    endpoint = broker()
    first, bad, last = data(3, event(1), event(2), event(3))
    endpoint.receive_data("p", [first, bad._replace(payload=b"\xc1"), last], now=0.0)
    batch = endpoint.take_batch()
    assert [peer for peer, _ in batch.hangups] == ["p"]
    assert said_to(batch, "s") == [Deliver(event(1)), Deliver(event(3))]
    assert confirmed(said_to(batch, "p")) == [event(1).id, event(3).id]


def test_a_run_on_a_connection_that_is_over_is_ignored():
    endpoint = broker()
    endpoint.disconnected("p")
    endpoint.receive_data("p", data(3, event(1)), now=0.0)
    assert endpoint.take_batch().queued == []


@given(
    steps=st.lists(st.integers(-1, 1) | st.just(3), max_size=12),  # relative to the next: duplicates, and gaps
    cuts=st.lists(st.integers(0, 12), max_size=3),
    wanted=st.sampled_from(["x = 1", "x = 2", "x >= 0"]),
)
def test_runs_of_any_length_come_to_the_same_as_single_frames(steps, cuts, wanted):
    frames, number = [], 3
    for step in steps:
        frames += data(number + min(step, 0) + (step == 3), event(number, x=1 + number % 2))
        number += step >= 0
    single, runs = broker(publisher_wants=wanted), broker(publisher_wants=wanted)
    for frame in frames:
        single.receive("p", frame, now=0.0)
    edges = sorted({0, len(frames), *(cut for cut in cuts if cut < len(frames))})
    for start, end in pairwise(edges):
        runs.receive_data("p", frames[start:end], now=0.0)
    one, other = single.take_batch(), runs.take_batch()
    assert said_to(one, "s") == said_to(other, "s")
    assert confirmed(said_to(one, "p")) == confirmed(said_to(other, "p"))
    assert [m for m in said_to(one, "p") if isinstance(m, Deliver)] == [
        m for m in said_to(other, "p") if isinstance(m, Deliver)
    ]
    assert single.sessions["p"].received == runs.sessions["p"].received
    assert bool(one.hangups) == bool(other.hangups)


def test_what_is_queued_is_sent_before_a_goodbye():
    endpoint = broker()
    endpoint.receive("p", *data(3, event(1)), now=0.0)
    endpoint.leave("enough")
    kinds = [type(frame).__name__ for peer, frame in endpoint.take_batch().transmits if peer == "s"]
    assert kinds == ["Data", "Bye"]


def test_what_is_open_for_a_peer_goes_when_the_peer_is_forgotten():
    endpoint = broker()
    endpoint.disconnected("s")
    endpoint.receive("p", *data(3, event(1)), now=0.0)
    last = endpoint.sessions["s"].last
    endpoint.forget(["s"])
    assert said_to(endpoint.take_batch(), "s") == []
    assert "s" not in endpoint.sessions
    assert endpoint.admit("s").first > last + 2  # beyond what was open, too


def test_what_is_open_for_a_former_life_does_not_reach_the_new_one():
    endpoint = broker()
    endpoint.receive("p", *data(3, event(1)), now=0.0)
    endpoint.disconnected("s")
    endpoint.connected("s", now=1.0)
    endpoint.receive("s", Hello("s", 4, 0, 0, 1), now=1.0)
    batch = endpoint.take_batch()
    assert not [frame for peer, frame in batch.transmits if peer == "s" and isinstance(frame, Data)]
    assert endpoint.sessions["s"].unconfirmed == 0


RUN = encode_run(Publish, 3, b"".join(encode_event(event(n)) for n in (1, 2, 3)))


def test_a_run_on_the_wire_comes_to_the_same_as_its_messages():
    whole, single = broker(publisher_wants="x = 1"), broker(publisher_wants="x = 1")
    whole.receive_data("p", [Data(3, RUN)], now=0.0)
    single.receive_data("p", data(3, event(1), event(2), event(3)), now=0.0)
    one, other = whole.take_batch(), single.take_batch()
    for peer in "psn":
        mine = [message for message in said_to(one, peer) if not isinstance(message, Published)]
        assert mine == [message for message in said_to(other, peer) if not isinstance(message, Published)]
    assert confirmed(said_to(one, "p")) == confirmed(said_to(other, "p"))
    assert [queued.payload for queued in one.queued if queued.peer == "s"] == [RUN[:1] + b"\x03" + RUN[2:]]


@pytest.mark.parametrize(
    "spoilt", [RUN[:-1], RUN + b"\x00", RUN.replace(b"\xa1x", b"\xa1\xff"), RUN[:1] + b"\x02" + RUN[2:]]
)
def test_a_run_that_cannot_be_accepted_ends_the_connection_and_is_passed_on_to_nobody(spoilt):
    endpoint = broker()
    endpoint.receive("p", Data(3, spoilt), now=0.0)
    batch = endpoint.take_batch()
    assert [peer for peer, _ in batch.hangups] == ["p"]
    assert batch.queued == []


def test_a_client_hears_of_every_event_that_a_confirmation_stands_for():
    client = ClientMachine("p", "b")
    effects = client.handle("b", Published(event(5).id, 3), now=0.0)
    assert [effect.event_id for effect in effects if isinstance(effect, Observe)] == ["p/7/3", "p/7/4", "p/7/5"]


@pytest.mark.parametrize("count", [0, -1, 6, CONFIRMED_TOGETHER_MAX + 1])
def test_a_confirmation_of_impossibly_many_events_is_refused(count):
    with pytest.raises(ProtocolError):
        ClientMachine("p", "b").handle("b", Published(event(5).id, count), now=0.0)
