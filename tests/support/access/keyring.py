"""Principals for tests: a key file for each, and an access file that knows them."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from pleach.access.keys import public_text
from pleach.net.client_login import NO_LOGIN, ClientLogin, client_login
from pleach.server.door.settings import AccessSettings


class Keyring:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._keys: dict[str, Ed25519PrivateKey] = {}
        self.file = directory / "access.toml"
        self.settings = AccessSettings(str(self.file))

    def key(self, principal: str) -> Path:
        """The file with the principal's private key."""
        file = self._directory / f"{principal}.pem"
        if principal not in self._keys:
            self._keys[principal] = Ed25519PrivateKey.generate()
            file.write_bytes(self._keys[principal].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return file

    def login(self, principal: str) -> ClientLogin:
        """What a client logs in with; nothing for the empty name."""
        return client_login(self.key(principal), None) if principal else NO_LOGIN

    def write(self, head: str = "", **principals: str) -> None:
        """The access file: lines of TOML for each principal, besides its key."""
        parts = [head]
        for name, lines in principals.items():
            self.key(name)
            parts.append(f"[principals.{name}]\nkey = '{public_text(self._keys[name])}'\n{lines}\n")
        self.file.write_text("\n".join(parts))
