"""Who is in a new network and where: names, zones, addresses, and through whom each broker joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pleach.access.identity import why_no_network
from pleach.errors import FoundingError
from pleach.net.addresses import PORT_MAX, Address, is_host, is_loopback
from pleach.server.settings import NAME_BYTES_MAX

BROKERS_MIN = 2  # one alone has nowhere to put a copy
BROKERS_MAX = 99  # each kind of port has a hundred numbers
PORT_STEP = 100  # from the ports of clients to those of brokers, and on to those of operators
PORT_MIN = 1_024
NOWHERE = ("0.0.0.0", "::")  # noqa: S104 - they are refused
LOCALHOST, OF_LOCALHOST = "localhost", ("127.0.0.1", "::1")
SEEDS_MAX = 3


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """`join`: where members listen through which it joins; empty: it is the first."""

    name: str
    zone: str
    client: Address
    peer: Address
    admin: Address
    join: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewNetwork:
    """`spare`: a place for one more broker."""

    name: str
    brokers: tuple[BrokerPlace, ...]
    spare: BrokerPlace
    is_secured: bool
    is_insecure: bool  # open to other machines, without certificates

    @property
    def is_local(self) -> bool:
        """Whether all brokers are on this machine."""
        return all(is_loopback(str(broker.peer)) for broker in self.brokers)


def laid_out(
    name: str,
    *,
    count: int,
    hosts: Sequence[str] = (),
    zones: Sequence[str] = (),
    port: int,
    is_secured: bool = False,
    is_insecure: bool = False,
) -> NewNetwork:
    """Brokers b1, b2 … Hosts and zones are taken in turn. Raises FoundingError."""
    hosts = hosts or ("127.0.0.1",)
    _check(name, count, hosts, zones, port)
    places = [_place(number, hosts, zones, port) for number in range(count + 1)]
    peers = [str(place.peer) for place in places[:count]]
    joined = [_joining(place, [peer for peer in peers if peer != str(place.peer)]) for place in places]
    network = NewNetwork(name, (places[0], *joined[1:count]), joined[count], is_secured, is_insecure)
    if not (network.is_local or is_secured or is_insecure):
        reason = f"brokers on {', '.join(dict.fromkeys(hosts))} are open to other machines"
        raise FoundingError("--host", reason, "add --tls, or --insecure on a network of your own")
    return network


def _place(number: int, hosts: Sequence[str], zones: Sequence[str], port: int) -> BrokerPlace:
    host, turn = hosts[number % len(hosts)], number // len(hosts)
    client, peer, admin = (Address(host, port + step * PORT_STEP + 1 + turn) for step in range(3))
    return BrokerPlace(f"b{number + 1}", zones[number % len(zones)] if zones else "", client, peer, admin)


def _joining(place: BrokerPlace, others: Sequence[str]) -> BrokerPlace:
    return BrokerPlace(place.name, place.zone, place.client, place.peer, place.admin, tuple(others[:SEEDS_MAX]))


def _check(name: str, count: int, hosts: Sequence[str], zones: Sequence[str], port: int) -> None:
    if reason := why_no_network(name):
        raise FoundingError("--name", reason, "for example: acme")
    if not BROKERS_MIN <= count <= BROKERS_MAX:
        remedy = f"{BROKERS_MIN} to {BROKERS_MAX}; more may join later, and one alone has nowhere to put a copy"
        raise FoundingError("--brokers", f"{count} brokers", remedy)
    if not PORT_MIN <= port <= PORT_MAX - 3 * PORT_STEP:
        raise FoundingError("--port", f"{port} leaves no room", f"{PORT_MIN} to {PORT_MAX - 3 * PORT_STEP}")
    _check_hosts(hosts)
    _check_zones(zones)


def _check_hosts(hosts: Sequence[str]) -> None:
    for host, times in Counter(hosts).items():
        if not is_host(host):
            raise FoundingError("--host", f"{host!r} is no host", "write names or numbers, with commas between them")
        if host in NOWHERE:
            raise FoundingError("--host", f"{host} leads nowhere", "write the addresses that others dial")
        if times > 1:
            raise FoundingError("--host", f"{host} is there twice", "name each once: brokers take them in turn")
    if LOCALHOST in hosts and (same := [host for host in hosts if host in OF_LOCALHOST]):
        reason = f"{LOCALHOST} and {same[0]} are one address, and brokers of two hosts have the same ports"
        raise FoundingError("--host", reason, "name it once: its brokers have ports of their own")


def _check_zones(zones: Sequence[str]) -> None:
    for zone in zones:
        if not zone.isprintable() or not zone or '"' in zone or "\\" in zone:
            raise FoundingError("--zones", f"{zone!r} is no zone", "write names, with commas between them")
        if len(zone.encode()) > NAME_BYTES_MAX:
            reason = f"{zone[:20]!r}… is longer than {NAME_BYTES_MAX} bytes"
            raise FoundingError("--zones", reason, "write shorter names")
