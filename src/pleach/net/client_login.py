"""How a client logs in where its certificate does not say who it is: by a key, or by a token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pleach.access.keys import load_private_key, signed_text
from pleach.core.links.frames import Challenge, Login, LoginKind
from pleach.errors import AccessError
from pleach.net.own_tls import TlsFiles


class ClientLogin(msgspec.Struct, frozen=True):
    """`token` is called for each connection, so that an expired one is replaced."""

    key: Ed25519PrivateKey | None = None
    token: Callable[[], str] | None = None

    @property
    def awaits_challenge(self) -> bool:
        """Whether Hello has to wait for the broker's challenge."""
        return self.key is not None

    def opening(self, node: str) -> Login | None:
        """What is sent first; None: a Hello."""
        if self.key is not None:
            return Login(LoginKind.KEY, node, self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        if self.token is not None:
            return Login(LoginKind.TOKEN, node, self.token().encode())
        return None

    def answer(self, challenge: Challenge, certificate: bytes, node: str) -> Login:
        """`certificate`: of the broker, DER; empty without TLS."""
        assert self.key is not None
        return Login(LoginKind.PROOF, node, self.key.sign(signed_text(challenge.nonce, certificate, node)))


NO_LOGIN = ClientLogin()


class Entry(msgspec.Struct, frozen=True):
    """How a client comes in: with TLS or without, and by which log-in."""

    tls: TlsFiles | None = None
    login: ClientLogin = NO_LOGIN


PLAIN = Entry()


def client_login(key: str | Path | None, token: str | Callable[[], str] | None) -> ClientLogin:
    """`key`: a file. `token`: a token, or a function that returns one. Raises AccessError."""
    if key is not None and token is not None:
        raise AccessError("both a key and a token", "give one of them")
    if key is not None:
        try:
            return ClientLogin(key=load_private_key(Path(key).read_bytes()))
        except OSError as error:
            raise AccessError(f"{key} cannot be read: {error.strerror}", "give the file of an Ed25519 key") from None
    if token is None:
        return NO_LOGIN
    return ClientLogin(token=token if callable(token) else lambda: token)
