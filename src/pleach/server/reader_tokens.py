"""Tokens by which readers prove that a client lets them read: the broker's Hello to the client has one.

A token is derived from a secret of the broker, the client's name and its epoch, so that none has to be kept. The secret
lies in the data directory; a broker without one has a new secret, and a new epoch, at each start.
"""

from __future__ import annotations

import os
from hashlib import sha256
from hmac import digest
from pathlib import Path

from pleach.core.messages import Node
from pleach.errors import StoreError

SECRET_BYTES = 32
TOKEN_DIGITS = 32
FILE = "reader-secret"


class ReaderTokens:
    def __init__(self, data_dir: str) -> None:
        self._secret = _secret_in(Path(data_dir)) if data_dir else os.urandom(SECRET_BYTES)

    def of(self, client: Node, epoch: int) -> str:
        return digest(self._secret, f"{epoch}/{client}".encode(), sha256).hex()[:TOKEN_DIGITS]


def _secret_in(folder: Path) -> bytes:
    """The secret of a data directory, made at its first start."""
    file = folder / FILE
    try:
        if not file.exists():
            made = folder / f"{FILE}.new"
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
                opened.write(os.urandom(SECRET_BYTES))
                opened.flush()
                os.fsync(opened.fileno())
            made.replace(file)
        secret = file.read_bytes()
    except OSError as error:
        raise StoreError(f"{file}: {error.strerror}; the broker must be able to read and write it") from None
    if len(secret) != SECRET_BYTES:
        raise StoreError(f"{file} is damaged: delete it; readers of streams then begin anew")
    return secret
