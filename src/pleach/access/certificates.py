"""Certificates: a private authority for each network, and what it issues to brokers, clients and operators.

Keys are P-256, since browsers refuse Ed25519 in certificates. Times are given, in seconds since 1970.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pleach.access.identity import Identity, IdentityKind, why_no_name, why_no_network
from pleach.errors import CertificateError, TlsError

CERTIFICATE_DAYS = 397
AUTHORITY_DAYS = 3_653
EARLIER = timedelta(minutes=5)  # clocks differ
COMMON_NAME_CHARACTERS_MAX = 64
FILE_BYTES_MAX = 16 * 1_048_576  # a membership list of some 50,000 brokers

Key = ec.EllipticCurvePrivateKey


class KeyPair(NamedTuple):
    """A certificate with its private key."""

    certificate: x509.Certificate
    key: Key


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def new_authority(network: str, now: float, days: int = AUTHORITY_DAYS) -> KeyPair:
    """Raises CertificateError for a name that no network can have."""
    if reason := why_no_network(network):
        raise CertificateError("", reason, "for example: acme")
    key = new_key()
    identity = Identity(network, IdentityKind.AUTHORITY, network)
    builder = _builder(identity, key, _named(identity), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return KeyPair(builder.sign(key, hashes.SHA256()), key)


def issue(
    authority: KeyPair,
    identity: Identity,
    now: float,
    *,
    hosts: Iterable[str] = (),
    days: int = CERTIFICATE_DAYS,
    key: Key | None = None,
) -> KeyPair:
    """A certificate. `hosts`: names and addresses for browsers; Pleach itself goes by the identity."""
    if reason := why_no_name(identity.name):
        raise CertificateError("", reason, "choose another name")
    key = key or new_key()
    builder = _builder(identity, key, authority.certificate.subject, now, days, hosts)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if identity.kind is IdentityKind.BROKER:
        purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(issuer, critical=False)
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    identity: Identity, key: Key, issuer: x509.Name, now: float, days: int, hosts: Iterable[str] = ()
) -> x509.CertificateBuilder:
    start = datetime.fromtimestamp(now, UTC)
    names = [x509.UniformResourceIdentifier(str(identity)), *map(_host, hosts)]
    return (
        x509.CertificateBuilder()
        .subject_name(_named(identity))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - EARLIER)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _named(identity: Identity) -> x509.Name:
    """For people; programs read the identity."""
    text = f"{identity.kind} {identity.name}"[:COMMON_NAME_CHARACTERS_MAX]
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, identity.network),
            x509.NameAttribute(NameOID.COMMON_NAME, text),
        ]
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        pass
    try:
        return x509.DNSName(text)
    except ValueError:
        raise CertificateError("", f"{text!r} is no host", "give a name in ASCII, or an address") from None


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


# What is read of a certificate -----------------------------------------------------------------------------------


def certificate_of(der: bytes) -> x509.Certificate:
    """Of the other end of a connection. Raises TlsError."""
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError as error:
        raise TlsError(f"no certificate: {error}", "make one with `pleach certs`") from None


def serial_of(certificate: x509.Certificate) -> str:
    """In hexadecimal, as the membership list has it."""
    return f"{certificate.serial_number:x}"


def expiry_of(certificate: x509.Certificate) -> float:
    """When a certificate expires, in seconds since 1970."""
    return certificate.not_valid_after_utc.timestamp()


def public_bytes(key: Key | ec.EllipticCurvePublicKey) -> bytes:
    """The public key, as the membership list has it (SPKI)."""
    public = key.public_key() if isinstance(key, ec.EllipticCurvePrivateKey) else key
    return public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


# Files -----------------------------------------------------------------------------------------------------------


def write_private(path: Path, data: bytes) -> None:
    """Readable by its owner only, from its first byte on; a file that is there is replaced as a whole."""
    partial = path.with_name(f".{path.name}.new")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    partial.replace(path)


def write_public(path: Path, data: bytes) -> None:
    """A file that is there is replaced as a whole."""
    partial = path.with_name(f".{path.name}.new")
    partial.write_bytes(data)
    partial.replace(path)


def certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: Key | Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def read_bytes(path: Path) -> bytes:
    """Raises CertificateError."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        remedy = "check the path, and that this user may read it"
        raise CertificateError(str(path), error.strerror or str(error), remedy) from None
    if len(data) > FILE_BYTES_MAX:
        raise CertificateError(str(path), f"more than {FILE_BYTES_MAX:,} bytes", "give another file")
    return data


def read_certificate(path: Path) -> x509.Certificate:
    """Raises CertificateError."""
    try:
        return x509.load_pem_x509_certificate(read_bytes(path))
    except ValueError as error:
        raise CertificateError(str(path), f"no certificate: {error}", "make one with `pleach certs`") from None


def read_key(path: Path) -> Key:
    """Raises CertificateError."""
    try:
        key = serialization.load_pem_private_key(read_bytes(path), password=None)
    except (ValueError, TypeError) as error:
        raise CertificateError(str(path), f"no private key: {error}", "make one with `pleach certs`") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(str(path), "no key on the curve P-256", "make one with `pleach certs`")
    return key
