"""Where brokers are: `pleach://host:port,host2:port`, and how long to wait between attempts to reach them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from pleach.errors import AddressError

SCHEME = "pleach"
ADDRESSES_MAX = 64
BACKOFF_SECONDS_FIRST = 0.05
BACKOFF_SECONDS_MAX = 5.0

_source = random.SystemRandom()


class Address(NamedTuple):
    """As text: `host:port`, with brackets around a host of IPv6."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_addresses(text: str) -> tuple[Address, ...]:
    """One or more addresses; `pleach://` may be left out. Raises AddressError, naming the part that is wrong."""
    scheme, separator, rest = text.strip().rpartition("://")
    if separator and scheme != SCHEME:
        raise AddressError(f"{text!r}: the scheme is {scheme!r}; pleach://host:port is wanted")
    parts = [part.strip() for part in rest.rstrip("/").split(",")]
    if len(parts) > ADDRESSES_MAX:
        raise AddressError(f"{len(parts)} addresses; at most {ADDRESSES_MAX} are allowed")
    return tuple(dict.fromkeys(_address(part, text) for part in parts))


def _address(part: str, text: str) -> Address:
    try:
        split = urlsplit(f"//{part}")
        host, port = split.hostname, split.port
    except ValueError as error:
        raise AddressError(f"{text!r}: {part!r} is no address ({error}); host:port is wanted") from None
    if not host or not port or split.path or split.query or split.fragment or "@" in part:
        raise AddressError(f"{text!r}: {part!r} is no address; host:port is wanted, as in pleach://localhost:7000")
    return Address(host, port)


def backoff() -> Iterator[float]:
    """Seconds to wait before each further attempt: doubling, jittered so that clients do not come back in step."""
    bound = BACKOFF_SECONDS_FIRST
    while True:
        yield _source.uniform(bound / 2, bound)
        bound = min(2 * bound, BACKOFF_SECONDS_MAX)


def why(error: OSError) -> str:
    """asyncio's text for a failed connect is about its call; the system's is about what happened."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__
