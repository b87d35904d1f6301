"""Random numbers for a search, determined by the name of their stream: the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import count
from typing import TypeAlias

Draws: TypeAlias = Iterator[float]  # each in [0, 1)

_BITS = 53  # of a float's mantissa


def draws(stream: str) -> Draws:
    key = blake2b(stream.encode(), digest_size=32).digest()
    for number in count():
        digest = blake2b(number.to_bytes(8, "little"), key=key, digest_size=8).digest()
        yield (int.from_bytes(digest, "little") >> (64 - _BITS)) / (1 << _BITS)
