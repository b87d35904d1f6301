"""The directory of a network's authority, from which files are copied to where they are used.

    authority.pem · authority.key.pem · members.json · members.json.sig
    brokers/a/certificate.pem · key.pem · authority.pem · members.json · members.json.sig
    clients/alice/…   operators/oscar/…   the same files

Rule 1: whoever has authority.key.pem decides who is in the network: only the directories of brokers, clients and
        operators leave this machine.
Rule 2: what is issued again keeps its key: of a certificate, and of a client that logs in by its key. The certificate
        before is not revoked: it expires.
Rule 3: each change of the list is signed at once, and copied into all directories here.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pleach.access.certificates import (
    CERTIFICATE_DAYS,
    KeyPair,
    certificate_pem,
    expiry_of,
    issue,
    key_pem,
    new_authority,
    public_bytes,
    read_bytes,
    read_certificate,
    read_key,
    serial_of,
    write_private,
    write_public,
)
from pleach.access.identity import Identity, IdentityKind, identity_in
from pleach.access.keys import load_private_key, public_text
from pleach.access.membership import Member, MemberRole, Members, read_members, signature_file, write_members
from pleach.access.tls import AUTHORITY, CERTIFICATE, KEY, MEMBERS
from pleach.errors import CertificateError

AUTHORITY_KEY = "authority.key.pem"
CHALLENGE_KEY = "ed25519.pem"
FOLDERS = {IdentityKind.BROKER: "brokers", IdentityKind.CLIENT: "clients", IdentityKind.OPERATOR: "operators"}


class IssuedCertificate(NamedTuple):
    """A certificate that lies in the directory."""

    kind: str
    name: str
    serial: str
    expires: float  # seconds since 1970
    roles: tuple[str, ...]  # of a broker, by the list
    is_revoked: bool
    path: str


class CertificateDirectory:
    def __init__(self, path: Path) -> None:
        """Raises CertificateError where there is no authority."""
        self._path = path
        if not (path / AUTHORITY).exists():
            raise CertificateError(str(path), "no authority", f"make one: pleach certs init {path} --network NAME")
        self._certificate = read_certificate(path / AUTHORITY)
        self.network = identity_in(self._certificate).network
        self.members = read_members(path / MEMBERS, self._certificate, self.network)

    @classmethod
    def create(cls, path: Path, network: str, days: int) -> CertificateDirectory:
        """Make an authority and an empty list. Raises CertificateError where there is one."""
        if (path / AUTHORITY).exists() or (path / AUTHORITY_KEY).exists():
            raise CertificateError(str(path), "an authority is there already", "give another directory")
        authority = new_authority(network, time.time(), days)
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(path / AUTHORITY_KEY, key_pem(authority.key))
        write_public(path / AUTHORITY, certificate_pem(authority.certificate))
        write_members(path / MEMBERS, Members(network, 1), authority.key)
        return cls(path)

    # Issuing -------------------------------------------------------------------------------------------------

    def add_broker(self, name: str, hosts: Iterable[str], roles: Sequence[MemberRole], days: int) -> Path:
        if "/" in name:
            raise CertificateError(str(self._path), f"{name!r} is no broker's name", "leave the slash out")
        place, pair = self._issued(IdentityKind.BROKER, name, hosts, days)
        member = Member(tuple(roles), base64.b64encode(public_bytes(pair.key)).decode())
        self._sign(msgspec.structs.replace(self.members, brokers={**self.members.brokers, name: member}))
        return place

    def add(self, kind: IdentityKind, name: str, days: int = CERTIFICATE_DAYS) -> Path:
        """A client or an operator."""
        place, _ = self._issued(kind, name, (), days)
        self._copy_list(place)
        return place

    def add_challenge_key(self, name: str) -> tuple[Path, str]:
        """A key that proves who a client is without a certificate; returns its public half in base64, too."""
        place = self.place(IdentityKind.CLIENT, name)
        file = place / CHALLENGE_KEY
        key = load_private_key(read_bytes(file)) if file.exists() else Ed25519PrivateKey.generate()  # rule 2
        write_private(file, key_pem(key))
        write_public(place / AUTHORITY, read_bytes(self._path / AUTHORITY))
        self._copy_list(place)
        return place, public_text(key)

    def _issued(self, kind: IdentityKind, name: str, hosts: Iterable[str], days: int) -> tuple[Path, KeyPair]:
        authority = KeyPair(self._certificate, read_key(self._path / AUTHORITY_KEY))
        identity, place = Identity(self.network, kind, name), self.place(kind, name)
        old = read_key(place / KEY) if (place / KEY).exists() else None
        pair = issue(authority, identity, time.time(), hosts=hosts, days=days, key=old)
        write_private(place / KEY, key_pem(pair.key))
        write_public(place / CERTIFICATE, certificate_pem(pair.certificate))
        write_public(place / AUTHORITY, certificate_pem(self._certificate))
        return place, pair

    def place(self, kind: IdentityKind, name: str) -> Path:
        """The directory of what is issued to somebody."""
        place = self._path / FOLDERS[kind] / quote(name, safe="").replace(".", "%2E" if name in (".", "..") else ".")
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        return place

    # The list ------------------------------------------------------------------------------------------------

    def revoke(self, which: str) -> list[IssuedCertificate]:
        """By name, by KIND/NAME, or by serial number; a broker is taken off the list, too."""
        found = [each for each in self.issued() if which in (each.name, f"{each.kind}/{each.name}", each.serial)]
        kinds = sorted({each.kind for each in found})
        if len(kinds) > 1:
            raise CertificateError(
                str(self._path), f"{which} is a {' and a '.join(kinds)}", f"write {kinds[0]}/{which}"
            )
        serials = {each.serial for each in found} or self._serial(which)
        gone = {each.name for each in found if each.kind == IdentityKind.BROKER}
        brokers = {name: member for name, member in self.members.brokers.items() if name not in gone}
        revoked = self.members.revoked | serials
        self._sign(msgspec.structs.replace(self.members, brokers=brokers, revoked=revoked))
        return found

    def _serial(self, text: str) -> set[str]:
        """Of a certificate whose file is not here any more."""
        try:
            return {f"{int(text.replace(':', ''), 16):x}"}
        except ValueError:
            remedy = f"`pleach certs show {self._path}` lists them; a serial number is hexadecimal"
            raise CertificateError(str(self._path), f"{text!r} is not here", remedy) from None

    def issued(self) -> Iterator[IssuedCertificate]:
        for kind, folder in FOLDERS.items():
            for file in sorted((self._path / folder).glob(f"*/{CERTIFICATE}")):
                yield self._described(kind, read_certificate(file), file.parent)

    def _described(self, kind: IdentityKind, certificate: x509.Certificate, place: Path) -> IssuedCertificate:
        name, serial = identity_in(certificate).name, serial_of(certificate)
        member = self.members.brokers.get(name) if kind is IdentityKind.BROKER else None
        roles = tuple(map(str, member.roles)) if member else ()
        is_revoked = serial in self.members.revoked
        return IssuedCertificate(str(kind), name, serial, expiry_of(certificate), roles, is_revoked, str(place))

    def _sign(self, members: Members) -> None:
        self.members = msgspec.structs.replace(members, number=self.members.number + 1)
        write_members(self._path / MEMBERS, self.members, read_key(self._path / AUTHORITY_KEY))
        for folder in FOLDERS.values():
            for place in sorted((self._path / folder).glob("*/")):
                self._copy_list(place)

    def _copy_list(self, place: Path) -> None:
        source = self._path / MEMBERS
        for file in (signature_file(source), source):
            write_public(place / file.name, read_bytes(file))
