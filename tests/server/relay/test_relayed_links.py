"""A link whose direct way is cut goes on through another broker, with TLS from end to end, and comes back."""

import asyncio
import contextlib

import pytest

import pleach
from pleach.net.addresses import one_address
from pleach.server.door.tls_settings import TlsSettings
from pleach.server.links import Port
from pleach.server.relay.settings import RelaySettings
from pleach.server.relay.tunnels import Tunnels
from support.live.daemons import Running
from support.live.link_proxy import LinkProxy
from support.live.tiny_broker import until
from support.live.tls_network import TlsNetwork

SECONDS_MAX = 120
NOWHERE = "127.0.0.1:1"  # nobody listens there: the others cannot dial a
RELAY = RelaySettings(down_seconds=0.3)


def run(story):
    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


class Triangle:
    """c – a – b: a dials both, and b through a proxy, which can be cut; only a can dial."""

    def __init__(self, running, proxy):
        self.running, self.proxy = running, proxy

    def relays(self):
        """Through whom a and b have their link; None: it is down."""
        ends = (("a", "b"), ("b", "a"))
        return [self.relay(here, there) for here, there in ends]

    def relay(self, here, there):
        links = self.running.node(here).links
        return links.relay_of(there) if links.is_up(there) else None


@contextlib.asynccontextmanager
async def triangle(tmp_path, tls=None, relay=RELAY):
    running = Running(tmp_path)
    settings = {
        name: {"relay": relay, **({"tls": TlsSettings(str(tls.broker(name)))} if tls else {})} for name in "abc"
    }
    try:
        for name in "bc":
            await running.start(name, neighbours=("a",), **settings[name])
        proxy = LinkProxy(one_address(running.ready["b"].peer), (0.0, 0.0), "b")
        await proxy.start()
        try:
            host, port = proxy.address
            peers = {"b": f"{host}:{port}", "c": running.ready["c"].peer}
            await running.start("a", peers=peers, advertise=NOWHERE, **settings["a"])
            await until(lambda: all(running.node("a").links.is_up(peer) for peer in "bc"))
            await until(lambda: running.node("c").directory.told("b", Port.PEERS) is not None)
            yield Triangle(running, proxy)
        finally:
            await proxy.stop()
    finally:
        await running.stop_all()


@pytest.mark.parametrize("has_tls", [False, True], ids=["plain", "tls"])
def test_a_link_goes_through_a_relay_and_back_and_its_session_goes_on(tmp_path, has_tls):
    tls = TlsNetwork(tmp_path / "certs", "a", "b", "c") if has_tls else None
    files = tls.path / "clients" / "alice" if tls else None

    async def story():
        async with triangle(tmp_path, tls) as made, contextlib.AsyncExitStack() as stack:
            at = {name: f"pleach://{made.running.ready[name].client}" for name in "ab"}
            options = {"tls": files} if files else {}
            publisher = await stack.enter_async_context(pleach.connect(at["a"], name="p", **options))
            subscriber = await stack.enter_async_context(pleach.connect(at["b"], name="s", **options))
            subscription = await subscriber.subscribe("n >= 0")

            async def pass_on(*numbers):
                for number in numbers:
                    await publisher.publish({"n": number})
                assert [(await anext(subscription)).attributes["n"] for _ in numbers] == list(numbers)

            await pass_on(*range(10))
            made.proxy.cut()
            await pass_on(*range(10, 200))
            assert made.relays() == ["c", "c"]
            assert made.running.node("c").counters.relay.tunnels_opened == 1
            made.proxy.heal()
            await until(lambda: made.relays() == ["", ""])
            await pass_on(*range(200, 210))
            await until(lambda: not made.running.node("c").features[Tunnels].status()["tunnels"])
            assert made.running.node("a").counters.relay.relayed_returns == 1

    run(story)


def test_a_relay_that_leads_elsewhere_is_found_out(tmp_path):
    """The certificate at the other end counts, not what the relay says."""
    tls = TlsNetwork(tmp_path / "certs", "a", "b", "c")

    async def story():
        async with triangle(tmp_path, tls) as made:
            relay, honest = made.running.node("c"), made.running.node("c").directory.peer_address
            own = made.running.ready["c"].peer
            relay.directory.peer_address = lambda _: own
            made.proxy.cut()
            await until(lambda: relay.counters.relay.tunnels_opened > 0)
            assert made.relay("a", "b") is None
            relay.directory.peer_address = honest
            await until(lambda: made.relays() == ["c", "c"])

    run(story)


def test_a_relay_that_ends_is_missed_no_longer_than_any_neighbour(tmp_path):
    async def story():
        async with triangle(tmp_path) as made:
            made.proxy.cut()
            await until(lambda: made.relays() == ["c", "c"])
            await made.running.stop("c")
            await until(lambda: made.relays() == [None, None])
            made.proxy.heal()
            await until(lambda: made.relays() == ["", ""])

    run(story)


def test_a_link_that_is_relayed_for_long_becomes_one_of_the_relay(tmp_path):
    async def story():
        relay = RelaySettings(down_seconds=0.3, replace_seconds=1.0)
        async with triangle(tmp_path, relay=relay) as made, contextlib.AsyncExitStack() as stack:
            at = {name: f"pleach://{made.running.ready[name].client}" for name in "ab"}
            publisher = await stack.enter_async_context(pleach.connect(at["a"], name="p"))
            subscriber = await stack.enter_async_context(pleach.connect(at["b"], name="s"))
            subscription = await subscriber.subscribe("n >= 0")
            made.proxy.cut()
            count = 0

            def is_replaced():
                return {name: sorted(made.running.node(name).broker.router.neighbours) for name in "abc"} == {
                    "a": ["c"],
                    "b": ["c"],
                    "c": ["a", "b"],
                }

            while not is_replaced() or count < 50:
                await publisher.publish({"n": count})
                count += 1
            assert [(await anext(subscription)).attributes["n"] for _ in range(count)] == list(range(count))
            await until(lambda: made.relay("b", "c") == "")
            await until(lambda: made.running.node("b").counters.relay.relayed_replaced == 1)

    run(story)


def test_without_the_table_a_link_that_is_cut_waits(tmp_path):
    async def story():
        running = Running(tmp_path)
        try:
            await running.start("b", neighbours=("a",))
            await running.start("a", peers={"b": running.ready["b"].peer})
            await until(lambda: running.node("a").links.is_up("b"))
            assert running.node("a").features.get(Tunnels) is None
            assert running.node("a").directory.known.brokers == {}
        finally:
            await running.stop_all()

    run(story)
