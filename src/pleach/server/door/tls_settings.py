"""The settings `[tls]`: where the certificate, its key, the authority's certificate and the membership list are.

[tls]                                [tls]
directory = "certs/brokers/a"        certificate = "/etc/ssl/a.pem"  and key, authority, members
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

FILES = {"certificate": "certificate.pem", "key": "key.pem", "authority": "authority.pem", "members": "members.json"}


class TlsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files by name win over those of the directory."""

    directory: str = ""  # as `pleach certs broker` has made it
    certificate: str = ""  # this broker's, in PEM
    key: str = ""  # of that certificate
    authority: str = ""  # the certificate of the network's authority
    members: str = ""  # the membership list, with its signature beside it (.sig)

    def path(self, key: str) -> str:
        """Of one of FILES; empty where nothing is said about it."""
        told: str = getattr(self, key)
        return told or (str(Path(self.directory) / FILES[key]) if self.directory else "")


def tls_complaints(tls: TlsSettings) -> Iterator[tuple[str, str, str]]:
    """The files themselves are read, and checked, when the broker starts (transport_security.py)."""
    for key in FILES:
        if not tls.path(key):
            yield f"tls.{key}", "missing", "give it, or tls.directory as `pleach certs broker` has made it"
