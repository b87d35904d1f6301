"""What comes over the network as a datagram: messages of the ring get in, everything else is counted and ignored."""

import asyncio
import socket
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.messages import (
    AskHop,
    AskRing,
    FindOwner,
    FindPlace,
    Greeting,
    KeyOwner,
    Knock,
    NextHop,
    Notify,
    Peer,
    RingLeave,
    RingPlace,
    RingPlaceTaken,
    RingState,
    Subscribed,
    TreeLink,
    TreeLinkAnswer,
    TreeUnlink,
    encode,
)
from pleach.core.ring.config import RingConfig
from pleach.core.ring.host import RingHost
from pleach.core.ring.keys import Circle
from pleach.errors import FrameError
from pleach.server.metrics import DatagramCounters
from pleach.server.ring.datagrams import (
    ADDRESS_CHARACTERS_MAX,
    DATAGRAM_BYTES_MAX,
    DatagramSocket,
    numeric,
    opened,
    sealed,
)
from pleach.server.ring.driver import RingDriver

CIRCLE = Circle(32)
names = st.sampled_from(["a", "b", "c", "lima", "oslo"])
keys = st.integers(0, CIRCLE.size - 1)
tickets = st.integers(-5, 2**40)


def peer(name, address="127.0.0.1:7200"):
    return Peer(CIRCLE.key_of(name), name, address)


peers = names.map(peer)
several = st.lists(peers, max_size=4)
hops = st.integers(0, 300)
messages = st.one_of(
    st.builds(FindOwner, keys, tickets, peers, hops, st.booleans()),
    st.builds(AskHop, keys, tickets, peers, st.lists(keys, max_size=3), st.booleans()),
    st.builds(NextHop, tickets, peers, st.booleans()),
    st.builds(KeyOwner, tickets, peers, keys, hops),
    st.builds(FindPlace, tickets, peers, hops),
    st.builds(RingPlace, tickets, peers, several, several),
    st.builds(RingPlaceTaken, tickets, peers),
    st.builds(AskRing, tickets, peers),
    st.builds(RingState, tickets, peers, several),
    st.builds(Notify, peers),
    st.builds(RingLeave, peers),
    st.builds(TreeLink, tickets, peers, st.booleans()),
    st.builds(TreeLinkAnswer, tickets, st.booleans()),
    st.builds(TreeUnlink),
)


@given(names, names, messages)
def test_what_is_sealed_is_opened(sender, to, message):
    envelope = opened(sealed(sender, to, message), CIRCLE)
    assert (envelope.sender, envelope.to, envelope.message) == (sender, to, message)


@given(st.binary(max_size=200))
def test_garbage_is_no_datagram(data):
    with pytest.raises(FrameError):
        opened(data, CIRCLE)


@given(messages, st.data())
def test_a_datagram_that_is_cut_off_is_none(message, data):
    whole = sealed("a", "b", message)
    with pytest.raises(FrameError):
        opened(whole[: data.draw(st.integers(0, len(whole) - 1))], CIRCLE)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (bytes(DATAGRAM_BYTES_MAX + 1), "60,001 bytes"),
        (encode(TreeUnlink()), "no message of a ring"),
        (sealed("a", "b", Subscribed("s")), "no message of a ring"),
        (sealed("", "b", TreeUnlink()), "no name"),
        (sealed("a\n", "b", TreeUnlink()), r"no message of a ring: .* at `\$\[1\]`"),
        (sealed("a" * 256, "b", TreeUnlink()), r"no message of a ring: .* at `\$\[1\]`"),
        (sealed("a", "b", Notify(Peer(17, "c", "127.0.0.1:7200"))), "its key would be"),
        (sealed("a", "b", Notify(peer("c", "example.org:7200"))), "no address of numbers"),
        (sealed("a", "b", Notify(peer("c", "0.0.0.0:7200"))), "no address of numbers"),
        (sealed("a", "b", RingState(1, peer("c"), [peer("c"), peer("d", "")])), "'d' is no host of this ring"),
        (sealed("a", "b", FindOwner(CIRCLE.size, 1, peer("c"))), "a key that is not on a circle of 32 bits"),
        (sealed("a", "b", KeyOwner(1, peer("c"), -1)), "a key that is not on a circle"),
        (sealed("a", "b", AskHop(1, 1, peer("c"), [CIRCLE.size])), "a key that is not on a circle"),
    ],
)
def test_what_no_host_would_send_is_refused_with_its_reason(data, says):
    with pytest.raises(FrameError, match=says):
        opened(data, CIRCLE)


@pytest.mark.parametrize(
    ("text", "is_good"),
    [
        ("127.0.0.1:1", True),
        ("[::1]:65535", True),
        ("127.0.0.1:0", False),
        ("127.0.0.1:65536", False),
        ("127.0.0.1", False),
        ("localhost:7200", False),
        ("[::]:7200", False),
        (":7200", False),
        ("1" * ADDRESS_CHARACTERS_MAX + ":7200", False),
        ("127.0.0.1:²", False),
    ],
)
def test_only_numbers_can_be_sent_to(text, is_good):
    assert (numeric(text) is not None) == is_good


@dataclass
class Seen:
    """A post without a socket, and what it let through."""

    counters: DatagramCounters = field(default_factory=DatagramCounters)
    heard: list = field(default_factory=list)

    def __post_init__(self):
        self.post = DatagramSocket("me", CIRCLE, self.counters, lambda *said: self.heard.append(said))


@pytest.mark.parametrize("data", [b"garbage", sealed("a", "you", TreeUnlink())])
def test_what_is_not_for_us_is_counted_and_ignored(data):
    seen = Seen()
    seen.post.datagram_received(data, ("127.0.0.1", 9))
    assert (seen.counters.datagrams_in, seen.counters.datagrams_ignored, seen.heard) == (1, 1, [])


@pytest.mark.parametrize("to", ["me", ""])
def test_what_is_for_us_or_for_whoever_is_here_is_heard(to):
    seen = Seen()
    seen.post.datagram_received(sealed("a", to, TreeUnlink()), ("127.0.0.1", 9))
    seen.post.datagram_received(sealed("me", to, Knock(-1, peer("me"))), ("127.0.0.1", 9))
    assert seen.heard == [("a", TreeUnlink()), ("me", Knock(-1, peer("me")))]
    assert seen.counters.datagrams_ignored == 0


@given(st.lists(st.tuples(names, messages), max_size=30))
def test_a_host_bears_whatever_comes_through(said):
    """In any order, from anybody: nothing that the checks let pass is a bug of the host's."""
    host = RingHost(peer("a"), RingConfig())
    host.found(now=0.0)
    for now, (sender, message) in enumerate(said, start=1):
        host.handle(sender, opened(sealed(sender, "a", message), CIRCLE).message, now=float(now))
        host.handle_timer("ring:answers", now=now + 0.5)
        host.handle_timer("ring:stabilise", now=now + 0.6)


def test_a_member_answers_a_knock_and_nobody_else_does():
    async def run():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        terms = {"routing": "covering"}
        inside = RingDriver(
            peer("a", f"127.0.0.1:{port}"), RingConfig(), DatagramCounters(), is_open=lambda: True, terms=terms
        )
        await inside.open("127.0.0.1", port)
        outside = RingDriver(peer("b"), RingConfig(), DatagramCounters(), is_open=lambda: False, terms={})
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: outside._post, local_addr=("127.0.0.1", 0)
        )
        outside.me = peer("b", "127.0.0.1:{}".format(transport.get_extra_info("sockname")[1]))
        try:
            assert await outside.knock(inside.me.address) is None
            inside.found()
            greeting = await outside.knock(inside.me.address)
            assert greeting == Greeting(greeting.ticket, inside.me, is_open=True, terms=terms)
            owner = await outside.find(outside.me.key, inside.me)
            assert owner.owner == inside.me
        finally:
            inside.close()
            outside.close()

    asyncio.run(run())
