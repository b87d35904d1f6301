"""Replay of a recorded run: the network after each record (`TraceState`), as frames for the page.

The tree is that of the run's outline; a trace without one shows the links that something was sent over. It changes with
every operation that is done. A frame is the patch of its snapshot to the one before; there is one for each
step of a reconfiguration, one for each fault, and some at even intervals. Rates are those of these intervals.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pleach.core.events.algebra import overlaps
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_internal
from pleach.core.messages import Node, asked_name
from pleach.core.overlay.plans import Link
from pleach.core.overlay.plans.topology import link
from pleach.errors import InvalidInputError, TraceError
from pleach.lake.manifest import load_manifest
from pleach.scenario.initial_tree import OUTLINE, InitialTree, read_initial_tree
from pleach.scenario.overlay_steps import ASKED, added, removed
from pleach.trace import Record, RecordKind, judge, total_order
from pleach.trace.parquet import count_rows, records_in, runs_in
from pleach.trace.store import trace_files
from pleach.web.drafts import Draft
from pleach.web.forms import DashboardRequest
from pleach.web.snapshot import (
    Broker,
    Client,
    Counters,
    Kind,
    Notice,
    Operation,
    Snapshot,
    SourceInfo,
    Step,
    difference,
    link_key,
    plain,
)
from pleach.web.snapshot import Link as LinkShown

NOTICES_MAX = 60
OPERATIONS_MAX = 60
EVEN_FRAMES = 300
EVENTFUL_FRAMES_MAX = 1_500
ENTRIES_MAX = 150_000  # links in all frames together: larger trees have fewer of them
SECONDS_MIN = 1e-9  # of a step: a run may be over at once
EVENTFUL = frozenset({RecordKind.STATE, RecordKind.FAULT})
TAKEN = re.compile(r"\S+ (\S+): (.*)")  # `KIND OPERATION: PHASE`
MARKED = "Marked"
FROM_CLIENTS = frozenset({"Attach", "Publish", "Subscribe", "Unsubscribe"})
BETWEEN_BROKERS = frozenset({"Forward", "Install", "Installed", "Withdraw", MARKED})


def inferred(records: Iterable[Record]) -> InitialTree:
    """The tree that a run began with, as far as records tell: links that carried something, and were not made later."""
    links: dict[Link, None] = {}
    made: set[Link] = set()
    homes: dict[Node, Node] = {}
    for record in records:
        pair = link(record.node, record.peer)
        if record.kind == RecordKind.SEND and record.message in BETWEEN_BROKERS and pair not in made:
            links[pair] = None
        elif record.kind == RecordKind.SEND and record.message in FROM_CLIENTS:
            homes.setdefault(record.node, record.peer)
        elif (asked := ASKED.fullmatch(record.detail)) and (new := added(record.node, asked[2])):
            made.add(link(*new))
    brokers = sorted({name for link in links for name in link} | {*homes.values()})
    return InitialTree(tuple(brokers), tuple(links), homes)


@dataclass
class RecordedOperation:
    what: str
    broker: Node
    asked_at: float
    ended_at: float | None = None
    state: str = "running"
    reason: str = ""
    flooded: int = 0
    steps: dict[str, Step] = field(default_factory=dict)


class Traffic:
    """What was counted and sent up to a record, and the rates of the last interval."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self.sent: Counter[tuple[Node, Node]] = Counter()  # bytes, since the rates were read
        self.rates: Counter[tuple[Node, Node]] = Counter()
        self._read: Counter[str] = Counter()
        self._publish_rate = self._deliver_rate = 0.0

    def read_rates(self, seconds: float) -> None:
        """What was sent since the last call is what the next frames show."""
        self.rates = Counter({pair: round(count / seconds) for pair, count in self.sent.items()})
        self.sent = Counter()
        self._publish_rate = round((self.count["publish_ack"] - self._read["publish_ack"]) / seconds, 1)
        self._deliver_rate = round((self.count["deliver"] - self._read["deliver"]) / seconds, 1)
        self._read = Counter(self.count)

    @property
    def counters(self) -> Counters:
        return Counters(
            published=self.count["publish_ack"],
            delivered=self.count["deliver"],
            refused=self.count["publish_fail"],
            publish_rate=self._publish_rate,
            deliver_rate=self._deliver_rate,
        )


class TraceState:
    """The network as a trace tells it, up to the last record that was taken."""

    def __init__(self, outline: InitialTree, *, has_sends: bool) -> None:
        self.brokers = dict.fromkeys(outline.brokers)
        self.links = {link_key(a, b): link(a, b) for a, b in outline.links}
        self.homes = dict(outline.homes)
        self._has_sends = has_sends
        self._down: set[str] = set()
        self._silent: set[Node] = set()
        self._subscriptions: Counter[Node] = Counter()
        self._operations: dict[str, RecordedOperation] = {}
        self._locked: dict[Node, str] = {}
        self._notices: dict[str, Notice] = {}
        self.traffic = Traffic()

    # Records ---------------------------------------------------------------------------------------------------

    def take(self, record: Record) -> None:
        match record.kind:
            case RecordKind.SEND:
                self._send(record)
            case RecordKind.STATE:
                self._state(record)
            case RecordKind.FAULT:
                self._fault(record)
            case RecordKind.SUBSCRIBE:
                self._subscriptions[record.who] += 1
            case RecordKind.UNSUBSCRIBE_ACK:
                self._subscriptions[record.who] -= 1
            case RecordKind.PUBLISH_ACK | RecordKind.DELIVER | RecordKind.PUBLISH_FAIL:
                self.traffic.count[record.kind] += 1

    def _send(self, record: Record) -> None:
        if record.message in FROM_CLIENTS and record.peer in self.brokers:
            self.homes[record.node] = record.peer
        if record.message == MARKED and (operation := self._operations.get(self._locked.get(record.node, ""))):
            operation.flooded += 1
        self.traffic.sent[record.node, record.peer] += record.bytes

    def _state(self, record: Record) -> None:
        if asked := ASKED.fullmatch(record.detail):
            self._told(asked[1], asked[2], record)
        elif record.node and (taken := TAKEN.fullmatch(record.detail)):
            name = asked_name(taken[1])
            operation = self._operations.get(name)
            if operation is not None:
                operation.steps[str(len(operation.steps))] = Step(record.at, record.node, taken[2])
                self._locked[record.node] = name

    def _told(self, name: str, text: str, record: Record) -> None:
        """The first record of an operation says what it is, the next one how it ended."""
        operation = self._operations.get(name)
        if operation is None:
            self._operations[name] = RecordedOperation(text, record.node, record.at)
            while len(self._operations) > OPERATIONS_MAX:
                del self._operations[next(iter(self._operations))]
            return
        operation.ended_at = record.at
        operation.state, operation.reason = ("done", "") if text == "done" else ("refused", text)
        self._locked = {broker: other for broker, other in self._locked.items() if other != name}
        if text == "done":
            self._change(operation)

    def _change(self, operation: RecordedOperation) -> None:
        if new := added(operation.broker, operation.what):
            self.brokers.update(dict.fromkeys(new))
            self.links[link_key(*new)] = link(*new)
        if gone := removed(operation.what):
            self.links.pop(link_key(*gone), None)
        match operation.what.split(" "):
            case ["remove_broker", broker]:
                self.brokers.pop(broker, None)
                self.links = {key: ends for key, ends in self.links.items() if broker not in ends}

    def _fault(self, record: Record) -> None:
        word = record.detail.partition(" ")[0]
        named = {f"{x}-{y}": (a, b) for a, b in self.links.values() for x, y in ((a, b), (b, a))}
        ends = named.get(record.peer)
        match word:
            case "crash":
                self._silent.add(record.node)
            case "restart":
                self._silent.discard(record.node)
            case "cut" if ends:
                self._down.add(link_key(*ends))
            case "heal" if ends:
                self._down.discard(link_key(*ends))
        text = f"{record.node or record.peer or 'network'}: {record.detail}"
        number = str(len(self._notices))
        if len(self._notices) < NOTICES_MAX:
            self._notices[number] = Notice(record.at, text, is_bad=word not in ("restart", "heal"))

    # Pictures --------------------------------------------------------------------------------------------------

    def snapshot(self, source: SourceInfo, at: float) -> Snapshot:
        clients = Counter(self.homes.values())
        return Snapshot(
            source=source,
            at=at,
            brokers={name: self._broker(name, clients[name]) for name in sorted(self.brokers)},
            links={key: self._link(key, a, b) for key, (a, b) in sorted(self.links.items())},
            clients={
                client: Client(home, subscriptions=max(0, self._subscriptions[client]))
                for client, home in sorted(self.homes.items())
            },
            operations={name: self._operation(operation) for name, operation in self._operations.items()},
            notices=dict(self._notices),
            counters=self.traffic.counters,
        )

    def _broker(self, name: Node, clients: int) -> Broker:
        is_silent = name in self._silent
        trouble = "it has crashed" if is_silent else ""
        return Broker(answers=not is_silent, trouble=trouble, operation=self._locked.get(name, ""), clients=clients)

    def _link(self, key: str, a: Node, b: Node) -> LinkShown:
        up = key not in self._down and not {a, b} & self._silent
        return LinkShown(a, b, up=up, there=self.traffic.rates[a, b], back=self.traffic.rates[b, a])

    def _operation(self, operation: RecordedOperation) -> Operation:
        return Operation(
            what=operation.what,
            brokers=(),
            state=operation.state,
            asked_at=operation.asked_at,
            ended_at=operation.ended_at,
            reason=operation.reason,
            flooded=operation.flooded if self._has_sends else None,
            steps=dict(operation.steps),
        )


def replay_of(run: str, records: Sequence[Record], outline: InitialTree | None) -> dict[str, Any]:
    """What page/replay.js plays. `records` are in total order."""
    began, ended = records[0].at, records[-1].at
    tree = outline or inferred(records)
    state = TraceState(tree, has_sends=any(record.kind == RecordKind.SEND for record in records))
    source, verdict = SourceInfo(Kind.REPLAY, run), _verdict(records)
    even = max(20, min(EVEN_FRAMES, ENTRIES_MAX // max(1, len(tree.links))))
    step = max((ended - began) / even, SECONDS_MIN)
    frames: list[dict[str, Any]] = []
    shown: dict[str, Any] = {}
    taken, due = 0, began
    for moment in _moments(records, began, step, even):
        while taken < len(records) and records[taken].at <= moment:
            state.take(records[taken])
            taken += 1
        if moment >= due:
            state.traffic.read_rates(step)
            due += step
        now = {**plain(state.snapshot(source, moment)), "verdict": verdict}
        frames.append({"at": moment, "patch": difference(shown, now)})
        shown = now
    return {"run": run, "from": began, "to": ended, "frames": frames}


def _moments(records: Sequence[Record], began: float, step: float, even: int) -> list[float]:
    evenly = {began + i * step for i in range(even)} | {records[-1].at}
    eventful = list(dict.fromkeys(record.at for record in records if record.kind in EVENTFUL))
    return sorted(evenly | {*eventful[:EVENTFUL_FRAMES_MAX]})


def _verdict(records: Sequence[Record]) -> dict[str, Any]:
    judged = judge(records).to_dict()
    return {name: judged[name] for name in ("outcome", "found", "unusable", "ordering")}


RECORDS_MAX = 1_000_000  # of one run: half a minute, and a gigabyte


class TraceSource:
    """Runs of a lake that the dashboard replays; each is read when a page asks for it.

    Raises TraceError at once where there is nothing to replay.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, list[Path]] = {}
        for file in trace_files(path):
            for run in sorted(runs_in(file)):
                self._files.setdefault(run, []).append(file)
        if not self._files:
            raise TraceError(f"{path}: there are no records in it")

    async def snapshot(self) -> Snapshot:
        """Only the names of the runs: the page plays a replay."""
        return Snapshot(SourceInfo(Kind.REPLAY, str(self._path), runs=tuple(sorted(self._files))), 0.0)

    async def draft(self, request: DashboardRequest) -> Draft:
        raise InvalidInputError(f"{type(request).__name__.lower()}: what is recorded cannot be changed")

    async def detail(self, broker: Node) -> dict[str, Any]:
        raise InvalidInputError(f"{broker}: a trace has no status of brokers")

    async def interested(self, wanted: Filter) -> dict[Node, list[str]]:
        """Clients of all runs that subscribed at any time."""
        return await asyncio.to_thread(self._interested, wanted)

    def _interested(self, wanted: Filter) -> dict[Node, list[str]]:
        files = sorted({file for files in self._files.values() for file in files})
        found: dict[Node, set[str]] = {}
        for record in (record for file in files for record in records_in(file, kind=RecordKind.SUBSCRIBE)):
            if overlaps(parse_internal(record.filter), wanted):
                found.setdefault(record.who, set()).add(record.filter)
        return {client: sorted(found[client]) for client in sorted(found)}

    async def replay(self, run: str) -> dict[str, Any]:
        if run not in self._files:
            raise InvalidInputError(f"{self._path} has no run {run!r}")
        return await asyncio.to_thread(self._replay, run)

    def _replay(self, run: str) -> dict[str, Any]:
        files = self._files[run]
        rows = sum(map(count_rows, files))
        if rows > RECORDS_MAX:
            raise TraceError(f"{run}: {rows:,} records are too many; a replay takes {RECORDS_MAX:,}; record no sends")
        records: list[Record] = [record for file in files for record in records_in(file) if record.run == run]
        return replay_of(run, total_order(records), _outline(files[0]))


def _outline(file: Path) -> InitialTree | None:
    manifest = load_manifest(file.parent)
    return read_initial_tree(str(manifest.about.get(OUTLINE, ""))) if manifest else None
