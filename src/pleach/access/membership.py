"""The membership list: which brokers a network has, with their roles and public keys, and which certificates are void.

    members.json       {"network": "acme", "number": 3, "brokers": {"a": {"roles": ["broker"], "key": "MFkw…"}}, …}
    members.json.sig   the authority's signature of these bytes, in base64

Rule 1: a list counts only with the authority's signature, for the authority's network.
Rule 2: its number rises with each change. A list with a smaller number than one that is known is refused: whoever
        brings an old list back would bring back who was removed.
"""

from __future__ import annotations

import base64
import binascii
from enum import StrEnum
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from pleach.access.certificates import Key, read_bytes, write_public
from pleach.errors import CertificateError

REMEDY = "copy members.json and members.json.sig from the authority's directory again"


class MemberRole(StrEnum):
    BROKER = "broker"
    STANDBY = "standby"


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    roles: tuple[MemberRole, ...]
    key: str  # SPKI, base64


class Members(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    network: str
    number: int
    brokers: dict[str, Member] = {}
    revoked: frozenset[str] = frozenset()  # serial numbers in hexadecimal, of certificates of any kind

    def why_not(self, name: str, node: str) -> str:
        """Why the broker with a certificate of `name` may not speak as `node`; empty: it may."""
        member = self.brokers.get(name)
        if member is None:
            return f"{name} is not on the membership list (number {self.number})"
        if name != node:
            return f"the certificate is of {name}, not {node}"
        is_broker = MemberRole.BROKER in member.roles or MemberRole.STANDBY in member.roles
        return "" if is_broker else f"{name} is no broker by the membership list (number {self.number})"


def signature_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sig")


def write_members(path: Path, members: Members, key: Key) -> None:
    """The signature first: who reads in between finds a list that is not signed, and keeps the old one."""
    content = msgspec.json.format(msgspec.json.encode(members, order="sorted"), indent=1)
    signature = key.sign(content, ec.ECDSA(hashes.SHA256()))
    write_public(signature_file(path), base64.b64encode(signature) + b"\n")
    write_public(path, content)


def read_members(path: Path, authority: x509.Certificate, network: str, *, known: int = 0) -> Members:
    """The list, if it is signed and not older than number `known`. Raises CertificateError."""
    content, told = read_bytes(path), read_bytes(signature_file(path))
    public = authority.public_key()
    try:
        assert isinstance(public, ec.EllipticCurvePublicKey)
        public.verify(base64.b64decode(told, validate=False), content, ec.ECDSA(hashes.SHA256()))
        members = msgspec.json.decode(content, type=Members)
    except (InvalidSignature, binascii.Error, AssertionError):
        raise CertificateError(str(path), "not signed by this network's authority", REMEDY) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CertificateError(str(path), f"no membership list: {error}", REMEDY) from None
    if members.network != network:
        raise CertificateError(str(path), f"the list of network {members.network}, not {network}", REMEDY)
    if members.number < known:
        reason = f"list number {members.number} is older than number {known}, which is known"
        raise CertificateError(str(path), reason, REMEDY)
    return members
