"""Draws for a search, by the name of their stream: the same wherever they are made, and in whatever order."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import count
from typing import TypeAlias

Draws: TypeAlias = Iterator[float]  # each at least 0 and less than 1

_BITS = 53  # that a float holds exactly


def draws(stream: str) -> Draws:
    key = blake2b(stream.encode(), digest_size=32).digest()
    for number in count():
        digest = blake2b(number.to_bytes(8, "little"), key=key, digest_size=8).digest()
        yield (int.from_bytes(digest, "little") >> (64 - _BITS)) / (1 << _BITS)
