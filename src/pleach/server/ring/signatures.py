"""Signatures of the ring's datagrams, where brokers have certificates: who is no member can neither forge nor replay.

    ["pleach-ring-signed-1", stamp, envelope, signature]        stamp: microseconds since 1970, no two of a sender alike

Rule 1: the signature is that of the sender's certificate key over stamp and envelope, which names sender and receiver;
        the membership list has the public key. Only a Knock may leave the receiver open: who knocks may not know it.
Rule 2: a stamp is taken once, and only within `WINDOW_SECONDS` of the receiver's clock. Of a sender that sends more
        than is remembered in that time, stamps that are older than the oldest remembered one are refused.
Rule 3: what is remembered is lost when the process ends: within the window, a datagram can be replayed to a broker that
        was restarted. Messages of the ring bear that: they are requests that are sent again and again anyway.
"""

from __future__ import annotations

import base64
import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from pleach.core.messages import Node, pack, unpack
from pleach.errors import FrameError
from pleach.server.door.transport_security import TransportSecurity

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

    from pleach.access.membership import Members

FORMAT: Final = "pleach-ring-signed-1"
WINDOW_SECONDS: Final = 60
STAMPS_PER_SECOND: Final = 1_000_000
WINDOW: Final = WINDOW_SECONDS * STAMPS_PER_SECOND
REMEMBERED_MAX: Final = 4_096  # stamps of one sender


class SignedEnvelope(msgspec.Struct, frozen=True, array_like=True):
    format: Literal["pleach-ring-signed-1"]
    stamp: int
    envelope: bytes
    signature: bytes


class ReplayWindow:
    """The stamps of one sender that were taken lately (rule 2)."""

    def __init__(self) -> None:
        self._floor = 0  # stamps up to here are refused
        self._taken: set[int] = set()
        self._oldest: list[int] = []

    def __len__(self) -> int:
        return len(self._taken)

    def why_not(self, stamp: int, now: int) -> str:
        """Why a stamp is refused; empty: it is not, and is taken now."""
        if abs(stamp - now) > WINDOW:
            return f"stamped {abs(stamp - now) / STAMPS_PER_SECOND:.0f} s {'later' if stamp > now else 'earlier'}"
        if stamp in self._taken or stamp <= self._floor:
            return "replayed"
        self._taken.add(stamp)
        heapq.heappush(self._oldest, stamp)
        while self._oldest[0] < now - WINDOW or len(self._oldest) > REMEMBERED_MAX:
            self._floor = heapq.heappop(self._oldest)
            self._taken.discard(self._floor)
        return ""


class DatagramSignatures:
    def __init__(self, security: TransportSecurity, clock: Callable[[], int]) -> None:
        """`clock`: microseconds since 1970."""
        self._security = security
        self._clock = clock
        self._last = 0
        self._windows: dict[Node, ReplayWindow] = {}
        self._keys: dict[Node, ec.EllipticCurvePublicKey] = {}
        self._members: Members | None = None  # that the keys are of

    def signed(self, envelope: bytes) -> bytes:
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - brokers without TLS start sooner
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

        self._last = max(self._clock(), self._last + 1)
        key = self._security.credentials.key
        assert key is not None, "a broker has one"
        signature = key.sign(_text(self._last, envelope), ec.ECDSA(hashes.SHA256()))
        return pack((FORMAT, self._last, envelope, signature))

    def opened(self, data: bytes) -> SignedEnvelope:
        """Raises FrameError. Nothing is verified yet: who has signed is in the envelope."""
        try:
            return unpack(data, SignedEnvelope)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise FrameError("not signed") from None

    def verify(self, signed: SignedEnvelope, sender: Node) -> None:
        """Raises FrameError unless a member of this name has signed it, and it is no replay."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
        from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

        if abs(signed.stamp - self._clock()) > WINDOW:
            raise FrameError(f"from {sender}, out of the window of {WINDOW_SECONDS} s: compare the clocks")
        try:
            self._key(sender).verify(signed.signature, _text(signed.stamp, signed.envelope), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise FrameError(f"not signed by {sender}") from None
        if reason := self._windows.setdefault(sender, ReplayWindow()).why_not(signed.stamp, self._clock()):
            raise FrameError(f"from {sender}, {reason}")

    def _key(self, name: Node) -> ec.EllipticCurvePublicKey:
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_der_public_key  # noqa: PLC0415

        members = self._security.credentials.members
        assert members is not None, "a broker has one"
        if members is not self._members:
            self._members = members
            self._keys.clear()
            self._windows = {each: window for each, window in self._windows.items() if each in members.brokers}
        if reason := members.why_not(name, name):
            raise FrameError(reason)
        if name not in self._keys:
            key = load_der_public_key(base64.b64decode(members.brokers[name].key))
            assert isinstance(key, ec.EllipticCurvePublicKey), "the authority has signed the list"
            self._keys[name] = key
        return self._keys[name]


def _text(stamp: int, envelope: bytes) -> bytes:
    """What is signed."""
    return pack((FORMAT, stamp, envelope))
