"""Tokens by which readers prove that a client lets them read: the broker's Hello to the client has one.

A token is derived from a secret of the broker, the client's name and its epoch, so that none has to be kept. The secret
lies in the broker's store, and goes wherever that goes; a broker without one has a new secret, and a new epoch, at each
start.
"""

from __future__ import annotations

import os
from hashlib import sha256
from hmac import digest

from pleach.core.messages import Node
from pleach.server.storage.store import Store

SECRET_BYTES = 32
TOKEN_DIGITS = 32
KEY = "reader_secret"


def new_secret() -> dict[str, str]:
    """What a store is made with, besides settings."""
    return {KEY: os.urandom(SECRET_BYTES).hex()}


class ReaderTokens:
    def __init__(self, store: Store | None) -> None:
        kept = store.made_with(new_secret()) if store is not None else new_secret()
        self._secret = bytes.fromhex(kept[KEY])

    def of(self, client: Node, epoch: int) -> str:
        return digest(self._secret, f"{epoch}/{client}".encode(), sha256).hex()[:TOKEN_DIGITS]
