"""Identities: who a certificate belongs to, as the URI among its alternative names says.

    pleach://acme/broker/a        pleach://acme/client/alice        pleach://acme/operator/oscar

A name may contain any printable character; what a URI cannot have is percent-encoded.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import quote, unquote

from cryptography import x509

from pleach.errors import TlsError

SCHEME = "pleach://"
NETWORK = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
NAME_BYTES_MAX = 255


class IdentityKind(StrEnum):
    AUTHORITY = "authority"
    BROKER = "broker"
    CLIENT = "client"
    OPERATOR = "operator"


class Identity(NamedTuple):
    """As text: its URI."""

    network: str
    kind: IdentityKind
    name: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.network}/{self.kind}/{quote(self.name, safe='/')}"


def identity_in(certificate: x509.Certificate) -> Identity:
    """Raises TlsError where there is no identity, or more than one."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        texts = [text for text in names.get_values_for_type(x509.UniformResourceIdentifier) if text.startswith(SCHEME)]
    except (x509.ExtensionNotFound, ValueError):
        texts = []
    if len(texts) != 1:
        raise TlsError(f"a certificate with {len(texts)} names of Pleach, not one", "make one with `pleach certs`")
    return parse_identity(texts[0])


def parse_identity(text: str) -> Identity:
    """Raises TlsError."""
    network, _, rest = text.removeprefix(SCHEME).partition("/")
    kind, _, quoted = rest.partition("/")
    name = unquote(quoted, errors="replace")
    is_kind = kind in IdentityKind.__members__.values()
    if not text.startswith(SCHEME) or not is_kind or why_no_network(network) or why_no_name(name):
        raise TlsError(f"{text!r} is no identity", "pleach://NETWORK/KIND/NAME is wanted")
    return Identity(network, IdentityKind(kind), name)


def why_no_network(text: str) -> str:
    """Empty for what can be the name of a network."""
    return "" if NETWORK.fullmatch(text) else f"{text!r} is no network: 1 to 63 of a–z, 0–9, dots and hyphens"


def why_no_name(text: str) -> str:
    """Empty for what can be the name of a broker or a principal."""
    is_name = 0 < len(text.encode()) <= NAME_BYTES_MAX and text.isprintable() and not text.startswith("/")
    return "" if is_name else f"{text!r} is no name: 1 to {NAME_BYTES_MAX} bytes of printable text"
