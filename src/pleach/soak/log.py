"""The log of a soak: JSON lines, written as things happen, from which a run can be repeated.

The first line has the settings. Then one line when an action begins and one when it has ended, one for each minute, and
one for whatever was wrong. Times are seconds since the load began.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self, TypeAlias

import msgspec

from pleach.errors import InvalidInputError
from pleach.soak.actions import Action
from pleach.soak.settings import SoakSettings


class EntryBase(msgspec.Struct, frozen=True, kw_only=True, tag_field="is"):
    pass


class Header(EntryBase, frozen=True, tag="soak"):
    settings: SoakSettings


class Began(EntryBase, frozen=True, tag="began"):
    """`homes`: the machines of the brokers by then."""

    at: float
    n: int
    action: Action
    homes: dict[str, str]


class Ended(EntryBase, frozen=True, tag="ended"):
    """`outcome`: `done`, or why not."""

    at: float
    n: int
    outcome: str
    seconds: float


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """Of events, since the beginning; latencies are those of the last minute. `found`: violations by rule."""

    published: int
    deliveries: int
    waiting: int
    oldest: float
    remembered: int
    found: dict[str, int]
    latency_p50: float
    latency_p99: float


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What all machines use together."""

    machines: int
    processes: int
    memory_bytes: int
    files: int
    disk_bytes: int


class Minute(EntryBase, frozen=True, tag="minute"):
    """`own_memory_bytes`: of the soak's process: clients, switch, judge."""

    at: float
    flow: Flow
    used: Usage
    brokers: int
    own_memory_bytes: int


class Wrong(EntryBase, frozen=True, tag="wrong"):
    """A violation, a process that ended by itself, or a network that does not become whole."""

    at: float
    what: str


class Finished(EntryBase, frozen=True, tag="finished"):
    """The verdict, once all is quiet."""

    at: float
    outcome: str
    unusable: str
    published: int
    deliveries: int
    subscriptions: int
    found: dict[str, int]


Entry: TypeAlias = Header | Began | Ended | Minute | Wrong | Finished


class SoakLog:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)
        self._encoder = msgspec.json.Encoder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, entry: Entry) -> None:
        self._file.write(self._encoder.encode(entry) + b"\n")


def read_log(path: Path) -> list[Entry]:
    """Raises InvalidInputError. The last line of a run that was killed may be incomplete, and is left out."""
    return list(_entries(path))


def _entries(path: Path) -> Iterator[Entry]:
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror}; give the log of a soak") from None
    decoder = msgspec.json.Decoder(Entry)
    for number, line in enumerate(lines, start=1):
        try:
            entry = decoder.decode(line)
        except msgspec.DecodeError as error:
            if number == len(lines) and not line.endswith(b"\n"):
                return
            raise InvalidInputError(f"{path}:{number}: no line of a soak's log: {error}") from None
        if number == 1 and not isinstance(entry, Header):
            raise InvalidInputError(f"{path}: its first line has no settings; give the log of a soak")
        yield entry


def settings_in(entries: Sequence[Entry]) -> SoakSettings:
    header = entries[0] if entries else None
    if not isinstance(header, Header):
        raise InvalidInputError("the log is empty: it has no settings")
    return header.settings
