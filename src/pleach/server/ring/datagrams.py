"""Messages of the ring as UDP datagrams: one each, small, possibly lost.

    ["pleach-ring-2", sender, receiver, message]        in the project's codec; the receiver is "" where nobody knows it

Rule 1: senders are not trusted. A datagram that is too long, malformed, for another host, or names impossible hosts is
        counted and ignored: nothing is kept of it, and nothing is answered.
Rule 2: a host has the key of its name, and a numeric address. So no datagram can give a host another place on the
        circle, or cause a DNS query.
        Where brokers have certificates, unsigned and replayed ones are ignored as well (signatures.py).
Rule 3: what cannot be sent is lost: whoever asked asks again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Final, Literal, TypeAlias, cast

import msgspec

from pleach.core.messages import DoorMessage, Knock, Message, Node, Peer, RingMessage, pack, unpack
from pleach.core.overlay.plans.topology import flaw_of_name
from pleach.core.ring.keys import Circle
from pleach.errors import FrameError, SettingsError
from pleach.net.addresses import Address, parse_address
from pleach.server.metrics import DatagramCounters
from pleach.server.ring.signatures import DatagramSignatures

FORMAT: Final = "pleach-ring-2"
DATAGRAM_BYTES_MAX: Final = 60_000  # what UDP bears is little more
ADDRESS_CHARACTERS_MAX: Final = 64

log = logging.getLogger(__name__)

Said: TypeAlias = RingMessage | DoorMessage


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    format: Literal["pleach-ring-2"]
    sender: Node
    to: Node
    message: Said


def sealed(sender: Node, to: Node, message: Message) -> bytes:
    return pack((FORMAT, sender, to, message))  # an envelope


def opened(data: bytes, circle: Circle) -> Envelope:
    """Raises FrameError for what no host of the ring would send."""
    if len(data) > DATAGRAM_BYTES_MAX:
        raise FrameError(f"{len(data):,} bytes; a datagram has at most {DATAGRAM_BYTES_MAX:,}")
    try:
        envelope = unpack(data, Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"no message of a ring: {error}") from None
    if flaw := flaw_of_name(envelope.sender):
        raise FrameError(flaw)
    is_at_door = isinstance(envelope.message, DoorMessage)  # who has keys of other lengths is told so there
    for peer in _peers(envelope.message):
        if flaw := flaw_of(peer, None if is_at_door else circle):
            raise FrameError(f"{peer.name[:40]!r} is no host of this ring: {flaw}")
    if not all(0 <= key < circle.size for key in _keys(envelope.message)):
        raise FrameError(f"a key that is not on a circle of {circle.bits} bits")
    return envelope


def flaw_of(peer: Peer, circle: Circle | None) -> str:
    """Why there can be no such host, on this circle or at all; empty if there can."""
    if flaw := flaw_of_name(peer.name):
        return flaw
    if circle is not None and peer.key != circle.key_of(peer.name):
        return f"its key would be {circle.key_of(peer.name)}, not {peer.key}"
    return "" if numeric(peer.address) is not None else "no address of numbers"


def numeric(text: str) -> Address | None:
    """`127.0.0.1:7200` or `[::1]:7200`; None for what nothing can be sent to as it is."""
    if len(text) > ADDRESS_CHARACTERS_MAX:
        return None
    try:
        address = parse_address(text, key="address")
        is_place = address.port > 0 and not ip_address(address.host).is_unspecified
    except (SettingsError, ValueError):
        return None
    return address if is_place else None


def _peers(message: Said) -> Iterator[Peer]:
    for field in message.__struct_fields__:
        match getattr(message, field):
            case Peer() as peer:
                yield peer
            case list() as several:
                yield from (peer for peer in several if isinstance(peer, Peer))


def _keys(message: Said) -> Iterator[int]:
    for field in ("key", "low"):
        yield getattr(message, field, 0)
    yield from getattr(message, "avoid", ())


class DatagramSocket(asyncio.DatagramProtocol):
    """One socket. `heard`: called with a sender and what it says."""

    def __init__(
        self,
        me: Node,
        circle: Circle,
        counters: DatagramCounters,
        heard: Callable[[Node, Said], None],
        signatures: DatagramSignatures | None = None,
    ) -> None:
        """`signatures`: None where brokers have no certificates."""
        self._me = me
        self._signatures = signatures
        self._circle = circle
        self._counters = counters
        self._heard = heard
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # uvloop's is one, and does not say so

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._counters.datagrams_in += 1
        try:
            envelope = self._opened(data)
        except FrameError as error:
            self._ignore(addr, str(error))
            return
        self._heard(envelope.sender, envelope.message)

    def _opened(self, data: bytes) -> Envelope:
        """Raises FrameError; the dearest check comes last."""
        signed = self._signatures.opened(data) if self._signatures is not None else None
        envelope = opened(signed.envelope if signed is not None else data, self._circle)
        if envelope.to not in ("", self._me):
            raise FrameError(f"from {envelope.sender}, for {envelope.to}")
        if self._signatures is not None and signed is not None:
            if not envelope.to and not isinstance(envelope.message, Knock):
                raise FrameError(f"from {envelope.sender}, for nobody in particular")
            self._signatures.verify(signed, envelope.sender)
        return envelope

    def error_received(self, exc: Exception) -> None:
        """Nobody listens there: silence tells whoever asked."""
        log.debug("a datagram could not be sent: %s", exc)

    def send(self, address: str, to: Node, message: Message) -> None:
        place, data = numeric(address), sealed(self._me, to, message)
        if self._signatures is not None:
            data = self._signatures.signed(data)
        if self._transport is None or self._transport.is_closing() or place is None:
            return
        if len(data) > DATAGRAM_BYTES_MAX:
            log.warning("a %s of %d bytes to %s is lost", type(message).__name__, len(data), to or address)
            return
        self._counters.datagrams_out += 1
        try:
            self._transport.sendto(data, tuple(place))
        except (OSError, ValueError) as error:  # another kind of address than our socket's
            log.debug("a datagram to %s could not be sent: %s", address, error)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _ignore(self, addr: object, reason: str) -> None:
        self._counters.datagrams_ignored += 1
        log.debug("a datagram from %s is ignored: %s", addr, reason)
