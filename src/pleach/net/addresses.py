"""Addresses of brokers: `pleach://host:port,host2:port`, and the back-off between attempts to reach them.

Hosts and ports are told apart here and nowhere else.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from pleach.errors import AddressError, SettingsError

SCHEME = "pleach"
ADDRESSES_MAX = 64
PORT_MAX = 65_535
PORT_DIGITS_MAX = 5
BACKOFF_SECONDS_FIRST = 0.05
BACKOFF_SECONDS_MAX = 5.0

_source = random.SystemRandom()


class Address(NamedTuple):
    """As text: `host:port`, with brackets around a host of IPv6."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class BrokerAddresses(msgspec.Struct, frozen=True):
    """Where a broker is found by clients, by brokers and by operators, as it says itself."""

    client: str = ""
    peer: str = ""
    admin: str = ""


def parse_addresses(text: str) -> tuple[Address, ...]:
    """One or more addresses; `pleach://` may be left out. Raises AddressError, naming the part that is wrong."""
    scheme, separator, rest = text.strip().rpartition("://")
    if separator and scheme != SCHEME:
        raise AddressError(f"{text!r}: the scheme is {scheme!r}; pleach://host:port is wanted")
    parts = [part.strip() for part in rest.rstrip("/").split(",")]
    if len(parts) > ADDRESSES_MAX:
        raise AddressError(f"{len(parts)} addresses; at most {ADDRESSES_MAX} are allowed")
    return tuple(dict.fromkeys(_address(part, text) for part in parts))


def parse_address(text: str, *, key: str) -> Address:
    """One address of a setting or request named `key`; port 0 is one to listen at. Raises SettingsError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_port = bool(colon) and port.isascii() and port.isdigit() and len(port) <= PORT_DIGITS_MAX
    if not is_port or not is_host(host) or int(port) > PORT_MAX:
        raise SettingsError(key, f"{text!r} is no address", "write HOST:PORT, for example 127.0.0.1:7100")
    return Address(host, int(port))


def is_host(text: str) -> bool:
    """Whether this can be the name of a host, or its number; not whether there is one."""
    try:
        return bool(text.encode("idna")) and text.isprintable() and not any(each in " /@[]" for each in text)
    except UnicodeError:  # an empty label, as in a..b, or one that is too long
        return False


@contextmanager
def unreachable_if_no_host(host: str) -> Iterator[None]:
    """Raises OSError where a host cannot even be asked for: the libraries raise other errors then."""
    try:
        yield
    except ValueError as error:
        raise OSError(f"{host!r} is no host: {error}") from None


def one_address(text: str) -> Address:
    """Where one is meant, and no list. Raises AddressError."""
    address, *others = parse_addresses(text)
    if others:
        raise AddressError(f"{text!r}: {1 + len(others)} addresses; one is wanted")
    return address


def host_of(text: str) -> str:
    """What stands before the port, in lower case, if there is one, and if it can be one; else empty."""
    try:
        return _parts(text)[0]
    except ValueError:
        return ""


def is_loopback(text: str) -> bool:
    """Whether an address to listen at is reached from this machine only; what is no address counts as well."""
    host = host_of(text)
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host in ("", "localhost")


def _address(part: str, text: str) -> Address:
    try:
        host, port = _parts(part)
    except ValueError as error:
        raise AddressError(f"{text!r}: {part!r} is no address ({error}); host:port is wanted") from None
    if not is_host(host) or not port:
        raise AddressError(f"{text!r}: {part!r} is no address; host:port is wanted, as in pleach://localhost:7000")
    return Address(host, port)


def _parts(text: str) -> tuple[str, int]:
    """Empty and 0 for what is not there. Raises ValueError."""
    split = urlsplit(f"//{text}")
    host, port = split.hostname or "", split.port or 0
    is_more = bool(split.path or split.query or split.fragment or "@" in text)
    return ("", 0) if is_more else (host, port)


def backoff() -> Iterator[float]:
    """Seconds to wait before each further attempt: doubling, jittered so that clients do not come back in step."""
    bound = BACKOFF_SECONDS_FIRST
    while True:
        yield _source.uniform(bound / 2, bound)
        bound = min(2 * bound, BACKOFF_SECONDS_MAX)


def spelled(peername: object) -> str:
    """The other end of a socket, as the system tells it."""
    match peername:
        case (str(host), int(port), *_):
            return str(Address(host, port))
        case _:
            return str(peername)


def why(error: OSError) -> str:
    """asyncio's text for a failed connect is about its call; the system's is about what happened."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__
