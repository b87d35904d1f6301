"""Datagrams of brokers that have certificates: forged, replayed, altered and unsigned ones are counted and ignored."""

import asyncio
import shutil
import time
from types import SimpleNamespace

import pytest

from pleach.access.certificate_directory import CertificateDirectory
from pleach.access.membership import MemberRole
from pleach.access.tls import Credentials, Tls
from pleach.core.messages import Knock, Peer, TreeUnlink, pack, unpack
from pleach.core.ring.keys import Circle
from pleach.net.own_tls import own_tls, speak_as
from pleach.operate.survey import survey
from pleach.server.metrics import DatagramCounters
from pleach.server.ring.datagrams import DatagramSocket, sealed
from pleach.server.ring.signatures import (
    REMEMBERED_MAX,
    WINDOW,
    DatagramSignatures,
    ReplayWindow,
    SignedEnvelope,
)
from support.live.broker_process import eventually
from support.live.ring_tree import RING_ONLY
from support.live.tls_network import TlsBroker, TlsNetwork

CIRCLE = Circle(32)
NOW = 1_800_000_000_000_000


class Host:
    """A socket without a network, and what it let through."""

    def __init__(self, name, place):
        self.now = NOW
        self.heard = []
        self.counters = DatagramCounters()
        self.security = SimpleNamespace(credentials=Credentials(Tls.directory(place), time.time()))
        self.signatures = DatagramSignatures(self.security, lambda: self.now)
        self.post = DatagramSocket(name, CIRCLE, self.counters, lambda *said: self.heard.append(said), self.signatures)

    def hears(self, data):
        before = len(self.heard)
        self.post.datagram_received(data, ("127.0.0.1", 9))
        assert len(self.heard) - before + self.counters.datagrams_ignored > 0
        return len(self.heard) > before


@pytest.fixture
def made(tmp_path):
    network = CertificateDirectory.create(tmp_path / "certs", "acme", 10)
    for name in ("a", "b", "c"):
        network.add_broker(name, [], (MemberRole.BROKER,), 10)
    return network


@pytest.fixture
def hosts(made, tmp_path):
    return {name: Host(name, tmp_path / "certs" / "brokers" / name) for name in ("a", "b", "c")}


def said(hosts, sender, to, *, signer=None):
    return hosts[signer or sender].signatures.signed(sealed(sender, to, TreeUnlink()))


def test_a_member_is_heard(hosts):
    assert hosts["b"].hears(said(hosts, "a", "b"))
    assert hosts["b"].heard == [("a", TreeUnlink())]


def test_unsigned_forged_and_altered_ones_are_ignored(hosts):
    b = hosts["b"]
    assert not b.hears(sealed("a", "b", TreeUnlink()))
    assert not b.hears(said(hosts, "a", "b", signer="c"))
    assert not b.hears(said(hosts, "a", "c"))
    good = unpack(said(hosts, "a", "b"), SignedEnvelope)
    later = pack((good.format, good.stamp + 1, good.envelope, good.signature))
    assert not b.hears(later)
    other = pack((good.format, good.stamp, sealed("a", "b", Knock(-1, _peer("a"))), good.signature))
    assert not b.hears(other)
    assert b.counters.datagrams_ignored == 5


def _peer(name):
    return Peer(CIRCLE.key_of(name), name, "127.0.0.1:7200")


def test_a_replay_is_ignored(hosts):
    data = said(hosts, "a", "b")
    assert hosts["b"].hears(data)
    assert not hosts["b"].hears(data)
    hosts["b"].now += 2 * WINDOW
    assert not hosts["b"].hears(data), "out of the window"
    assert hosts["b"].hears(said(hosts, "a", "b")) is False, "a's clock is behind"
    hosts["a"].now = hosts["b"].now
    assert hosts["b"].hears(said(hosts, "a", "b"))


def test_only_a_knock_is_for_whoever_is_there(hosts):
    assert not hosts["b"].hears(said(hosts, "a", ""))
    assert hosts["b"].hears(hosts["a"].signatures.signed(sealed("a", "", Knock(-1, _peer("a")))))


def test_who_is_taken_off_the_list_is_not_heard_any_more(made, hosts, tmp_path):
    assert hosts["b"].hears(said(hosts, "a", "b"))
    made.revoke("a")
    place = tmp_path / "certs" / "brokers" / "b"
    hosts["b"].security.credentials = Credentials(Tls.directory(place), time.time())
    assert not hosts["b"].hears(said(hosts, "a", "b"))


def test_who_has_a_new_key_is_heard_with_that_one_only(made, hosts, tmp_path):
    former = hosts["a"]
    assert hosts["b"].hears(said(hosts, "a", "b"))
    made.revoke("a")
    shutil.rmtree(tmp_path / "certs" / "brokers" / "a")  # where its key was
    place = made.add_broker("a", [], (MemberRole.BROKER,), 10)
    hosts["b"].security.credentials = Credentials(Tls.directory(tmp_path / "certs" / "brokers" / "b"), time.time())
    renewed = Host("a", place)
    renewed.now = former.now = NOW + 1
    assert not hosts["b"].hears(former.signatures.signed(sealed("a", "b", TreeUnlink())))
    assert hosts["b"].hears(renewed.signatures.signed(sealed("a", "b", TreeUnlink())))


def test_memory_is_bounded_and_what_is_forgotten_is_refused():
    window = ReplayWindow()
    for n in range(3 * REMEMBERED_MAX):
        assert not window.why_not(NOW + n, NOW)
    assert len(window) == REMEMBERED_MAX
    assert window.why_not(NOW, NOW) == "replayed"
    assert not window.why_not(NOW + 4 * REMEMBERED_MAX, NOW)
    late = NOW + 2 * WINDOW
    assert not window.why_not(late, late)
    assert len(window) == 1, "what is out of the window is forgotten"


def test_what_a_signature_costs(hosts):
    count = 200
    began = time.process_time()
    datagrams = [said(hosts, "a", "b") for _ in range(count)]
    signed = time.process_time()
    assert all(hosts["b"].hears(data) for data in datagrams)
    verified = time.process_time()
    each = [1e6 * seconds / count for seconds in (signed - began, verified - signed)]
    print(f"\na datagram: {each[0]:.0f} µs to sign, {each[1]:.0f} µs to verify")  # noqa: T201
    assert max(each) < 5_000


@pytest.mark.live
def test_a_ring_of_processes_with_certificates(tmp_path):
    """Datagrams, links, the survey of the broker at the root: all with TLS."""
    network = TlsNetwork(tmp_path / "certs", "a", "b", "c")
    brokers = [TlsBroker("a", tmp_path, network, "--ring", *RING_ONLY, "--without=data-dir")]
    try:
        for name in ("b", "c"):
            seed = f"--join={brokers[0].ready['peer']}"
            brokers.append(TlsBroker(name, tmp_path, network, seed, *RING_ONLY, "--without=data-dir"))
        eventually(lambda: all(broker.is_ready() for broker in brokers))
        eventually(lambda: all(len(broker.status()["ring"]["successors"]) > 0 for broker in brokers))

        async def surveyed():
            speak_as(network.operator)
            return await survey([brokers[0].ready["admin"]])

        found = asyncio.run(surveyed())
        assert set(found.found) == {"a", "b", "c"}
        assert own_tls.get() is None
        ignored = sum(broker.status()["counters"]["datagrams_ignored"] for broker in brokers)
        assert ignored == 0
    finally:
        for broker in brokers:
            broker.kill()
