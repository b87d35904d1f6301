"""A snapshot: what the dashboard shows at one moment, as plain data: the contract between the server and page/*.js.

What is None is not known, and is not sent. Everything that has a name is a table by name, so that a change of one entry
is a small JSON merge patch (RFC 7396): null deletes, tables merge, the rest is replaced.

A snapshot has no nulls of its own: `plain` leaves them out. Then `merged(old, difference(old, new)) == new`, always.
page/merge.js is `merged` for browsers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from pleach.core.messages import Node

SEPARATOR = "\n"  # between the two names of a link; no name contains it


class Kind(StrEnum):
    LIVE = "live"
    SIMULATED = "simulated"
    REPLAY = "replay"


class SourceInfo(msgspec.Struct, frozen=True):
    """Where the snapshot comes from. `can`: what may be asked of it; `trouble`: why it may be out of date."""

    kind: Kind
    title: str
    can: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()  # of a lake
    trouble: str = ""


class Broker(msgspec.Struct, frozen=True):
    """`answers`: whether its operators' port does; `trouble`: why it is not ready, or does not answer."""

    zone: str = ""
    answers: bool = True
    trouble: str = ""
    durable: bool = False
    operation: str = ""  # that it is locked for
    clients: int = 0
    held: int = 0
    queued_bytes: int = 0
    admin: str = ""
    machine: str = ""  # where it runs, if it has standbys
    copies: Mapping[str, str] = {}  # machines that have its data, and what each lacks; empty: nothing
    is_covered: bool = True  # as many copies as it shall have
    under_way: Mapping[str, str] = {}  # operations that it takes part in, and what each waits for


class Link(msgspec.Struct, frozen=True):
    """`there`, `back`: bytes per second from a to b, and from b to a. `round_trip`: seconds until confirmed."""

    a: Node
    b: Node
    up: bool = True
    there: float = 0.0
    back: float = 0.0
    queued_there: int = 0
    queued_back: int = 0
    round_trip: float | None = None
    relay: Node = ""  # the broker that passes it on; empty: it is direct


class Client(msgspec.Struct, frozen=True):
    broker: Node
    up: bool = True
    queued: int = 0
    subscriptions: int = 0


class Step(msgspec.Struct, frozen=True):
    at: float
    broker: Node
    phase: str


class Operation(msgspec.Struct, frozen=True):
    """A reconfiguration of one link or broker, as its brokers report it."""

    what: str
    brokers: tuple[Node, ...]
    state: str
    asked_at: float
    ended_at: float | None = None
    reason: str = ""
    held: int | None = None
    flooded: int | None = None
    steps: Mapping[str, Step] = {}


class RunStep(msgspec.Struct, frozen=True):
    text: str
    state: str  # waiting, running, done, refused, unknown
    reason: str = ""


class Run(msgspec.Struct, frozen=True):
    """A plan that is, or was, carried out from the dashboard."""

    title: str
    state: str  # running, done, incomplete
    started_at: float
    steps: Mapping[str, RunStep] = {}


class Notice(msgspec.Struct, frozen=True):
    """Something that happened to a broker or a link, besides operations."""

    at: float
    text: str
    is_bad: bool = False


class Counters(msgspec.Struct, frozen=True):
    """Since each broker's start; of a replay, up to the moment shown. Rates are per second."""

    published: int = 0
    delivered: int = 0
    refused: int = 0
    publish_rate: float = 0.0
    deliver_rate: float = 0.0


class Snapshot(msgspec.Struct, frozen=True):
    source: SourceInfo
    at: float
    brokers: Mapping[Node, Broker] = {}
    links: Mapping[str, Link] = {}
    clients: Mapping[Node, Client] = {}
    operations: Mapping[str, Operation] = {}
    runs: Mapping[str, Run] = {}
    notices: Mapping[str, Notice] = {}
    counters: Counters = Counters()


def link_key(a: Node, b: Node) -> str:
    return f"{a}{SEPARATOR}{b}" if a < b else f"{b}{SEPARATOR}{a}"


def plain(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as JSON values, without those that are None."""
    known: dict[str, Any] = _without_nulls(msgspec.to_builtins(snapshot))
    return known


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := difference(before, value):
                patch[name] = inner
        elif before != value or name not in old:
            patch[name] = value
    return patch


def merged(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a patch, as browsers do."""
    result = dict(old)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = merged(result[name], value)
        else:
            result[name] = value
    return result


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
