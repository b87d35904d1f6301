"""TLS of one party: its files, the contexts for listening and dialling, and the check of whoever is at the other end.

Rule 1: TLS 1.3, both ways, and nothing else: there is no fallback to an older version or to plain text.
Rule 2: host names are not checked. A certificate must be of this network's authority and have the identity that is
        expected; a broker must be on the membership list; a certificate that the list revokes counts nowhere.
Rule 3: files are checked when they are loaded; what is unusable is refused as a whole, and the old ones stay in use.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from pleach.access.certificates import Key, certificate_of, expiry_of, read_certificate, read_key, serial_of
from pleach.access.identity import Identity, IdentityKind, identity_in
from pleach.access.membership import Members, read_members
from pleach.errors import CertificateError, TlsError

CERTIFICATE, KEY, AUTHORITY, MEMBERS = "certificate.pem", "key.pem", "authority.pem", "members.json"
SECONDS_PER_DAY = 86_400.0
RENEW = "make a new one with `pleach certs`, and let the process read it again (SIGHUP)"


class Tls(msgspec.Struct, frozen=True):
    """Files: the authority's certificate, and, of those who prove who they are, a certificate and its key.

    `members`: the membership list, which brokers need; clients and operators check it if they have it.
    """

    authority: str
    certificate: str = ""
    key: str = ""
    members: str = ""

    @classmethod
    def directory(cls, path: str | Path) -> Tls:
        """The files that `pleach certs` has written to a directory."""
        place = Path(path)
        if not place.is_dir():
            raise CertificateError(str(path), "no directory", "make it with `pleach certs`")
        found = {name: str(place / name) if (place / name).exists() else "" for name in (CERTIFICATE, KEY, MEMBERS)}
        return cls(str(place / AUTHORITY), found[CERTIFICATE], found[KEY], found[MEMBERS])


class Credentials:
    """What the files hold. Raises CertificateError where they are unusable, or do not fit each other."""

    def __init__(self, files: Tls, now: float, *, known_number: int = 0) -> None:
        """`known_number`: of the membership list that is in use."""
        self.files = files
        self._authority = read_certificate(Path(files.authority))
        self.network = _network(self._authority, files.authority)
        self.certificate = _own_certificate(files, self._authority, self.network, now)
        self.identity = identity_in(self.certificate) if self.certificate else None
        self.key: Key | None = read_key(Path(files.key)) if self.certificate else None
        self.members: Members | None = None
        if files.members:
            self.members = read_members(Path(files.members), self._authority, self.network, known=known_number)
        self.dialling = self._context(ssl.PROTOCOL_TLS_CLIENT, ssl.CERT_REQUIRED)
        self._listening: dict[ssl.VerifyMode, ssl.SSLContext] = {}

    def listening(self, wanted: ssl.VerifyMode) -> ssl.SSLContext:
        """`wanted`: CERT_REQUIRED where every one has a certificate (peers), else CERT_OPTIONAL."""
        if wanted not in self._listening:
            self._listening[wanted] = self._context(ssl.PROTOCOL_TLS_SERVER, wanted)
        return self._listening[wanted]

    def days_left(self, now: float) -> float | None:
        """Until the own certificate expires; None without one."""
        return (expiry_of(self.certificate) - now) / SECONDS_PER_DAY if self.certificate else None

    def _context(self, protocol: int, wanted: ssl.VerifyMode) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = wanted
        context.load_verify_locations(self.files.authority)
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0  # sessions are not resumed: a ticket would outlive what the list says
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.files.certificate, self.files.key, password=_no_password)
            except (ssl.SSLError, ValueError) as error:
                raise CertificateError(self.files.key, f"not the key of the certificate: {error}", RENEW) from None
        return context

    # The other end -------------------------------------------------------------------------------------------

    def checked(self, der: bytes | None) -> Identity:
        """The identity of the other end, whose certificate TLS has verified. Raises TlsError."""
        if not der:
            raise TlsError("the other side has shown no certificate", "give it one with `pleach certs`")
        certificate = certificate_of(der)
        identity = identity_in(certificate)
        if identity.network != self.network:
            raise TlsError(f"a certificate of network {identity.network}, not {self.network}", "give that of this one")
        if self.members is not None and serial_of(certificate) in self.members.revoked:
            raise TlsError(f"the certificate of {identity.kind} {identity.name} is revoked", "issue a new one")
        return identity

    def check_broker(self, der: bytes | None, node: str = "") -> None:
        """Raises TlsError unless the certificate is a broker's, and lets it speak as `node` (empty: as any)."""
        identity = self.checked(der)
        if identity.kind is not IdentityKind.BROKER:
            raise TlsError(f"a certificate of {identity.kind} {identity.name}, not of a broker", "dial a broker")
        node = node or identity.name
        if self.members is not None:
            reason = self.members.why_not(identity.name, node)
        else:
            reason = "" if identity.name == node else f"the certificate is of {identity.name}, not {node}"
        if reason:
            raise TlsError(reason, "put it on the list with `pleach certs broker`, or give each broker its own files")

    def check_other(self, der: bytes | None, _node: str = "") -> None:
        """Of clients and operators: a certificate is not needed; a void one is refused. Raises TlsError."""
        if der:
            self.checked(der)


def _own_certificate(files: Tls, authority: x509.Certificate, network: str, now: float) -> x509.Certificate | None:
    if not files.certificate and not files.key:
        return None
    if not files.certificate or not files.key:
        missing = "certificate" if not files.certificate else "key"
        raise CertificateError(files.certificate or files.key, f"the {missing} is missing", "give both, or neither")
    certificate = read_certificate(Path(files.certificate))
    try:
        certificate.verify_directly_issued_by(authority)
        is_ours = identity_in(certificate).network == network
    except (InvalidSignature, ValueError, TypeError, TlsError):
        is_ours = False
    if not is_ours:
        raise CertificateError(files.certificate, f"not issued by the authority of network {network}", RENEW)
    if expiry_of(certificate) <= now:
        when = certificate.not_valid_after_utc.date().isoformat()
        raise CertificateError(files.certificate, f"expired on {when}", RENEW)
    return certificate


def _network(authority: x509.Certificate, path: str) -> str:
    try:
        identity = identity_in(authority)
    except TlsError as error:
        raise CertificateError(path, error.reason, "give the authority.pem of `pleach certs init`") from None
    if identity.kind is not IdentityKind.AUTHORITY:
        reason = f"the certificate of {identity.kind} {identity.name}, not of an authority"
        raise CertificateError(path, reason, "give the authority.pem of `pleach certs init`")
    return identity.network


def _no_password() -> str:
    raise ValueError("the key is encrypted")
