"""A first look at the files: which runs are in them, and which lie there in their total order already.

A run that one process wrote as it went does. Its records are then numbered by their places alone, without sorting
anything: on the largest traces this is what makes an audit linear and parallel within one run. Whatever leaves a doubt
makes a run *disorderly*; sequence.py then sorts it as the reference would, and says what is wrong with it.

Files are looked at in chunks, each by itself; what adjoining chunks say is put together on the driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from pyspark.sql import SparkSession

from pleach.errors import TraceError
from pleach.lake.arrow import load_arrow
from pleach.spark.audit.sources import TraceFile
from pleach.trace.order import FOLLOWS_PUBLICATION
from pleach.trace.parquet import runs_in
from pleach.trace.records import RecordKind

CHUNK_ROWS = 1_000_000
OPEN_EVENTS_MAX = 10_000  # of an instant that goes on in the next chunk
LOOKED_AT = ["run", "at", "node", "n", "kind", "event"]
KINDS = frozenset(RecordKind)


class RunExtent(msgspec.Struct, frozen=True):
    """What a chunk says of a run: where its records lie, and how they begin and end."""

    run: str
    first: int  # place
    last: int
    rows: int
    orderly: bool
    head: float = 0.0  # time of the first record
    tail: float = 0.0
    nodes: dict[str, tuple[int, int]] = {}  # the first and the last n of each
    published_at_head: frozenset[str] = frozenset()  # in its first instant
    outcomes_at_tail: frozenset[str] = frozenset()  # events delivered or answered in its last instant


class Chunk(msgspec.Struct, frozen=True):
    path: str
    first: int
    row_groups: tuple[int, ...]
    plain: bool


class RunPlace(msgspec.Struct, frozen=True):
    """Where a run lies: records `first` to `first + rows - 1` of all if it is orderly."""

    run: str
    first: int
    rows: int
    orderly: bool


def inspect(spark: SparkSession, sources: Sequence[TraceFile]) -> list[RunPlace]:
    """All runs, in the order in which they begin."""
    chunks = [chunk for source in sources for chunk in _chunks(source)]

    def look(batches: Iterator[Any]) -> Iterator[Any]:
        arrow = load_arrow()
        for batch in batches:
            for number in batch.column("id").to_pylist():
                said = [msgspec.msgpack.encode(extent) for extent in look_at(chunks[number])]
                yield arrow.RecordBatch.from_pydict({"said": arrow.array(said, arrow.binary())})

    tasks = min(len(chunks), 4 * spark.sparkContext.defaultParallelism)
    answers = spark.range(0, len(chunks), 1, tasks).mapInArrow(look, "said binary").collect()
    return _merged(msgspec.msgpack.decode(bytes(answer.said), type=RunExtent) for answer in answers)


def _chunks(source: TraceFile) -> Iterator[Chunk]:
    if not source.plain:
        yield Chunk(str(source.path), source.first, tuple(range(len(source.row_groups))), plain=False)
        return
    first, rows, groups = source.first, 0, list[int]()
    for number, count in enumerate(source.row_groups):
        groups.append(number)
        rows += count
        if rows >= CHUNK_ROWS or number == len(source.row_groups) - 1:
            yield Chunk(str(source.path), first, tuple(groups), plain=True)
            first, rows, groups = first + rows, 0, []


def look_at(chunk: Chunk) -> list[RunExtent]:
    """What a chunk says of each run in it."""
    if not chunk.plain:
        return [RunExtent(run, chunk.first, chunk.first, 0, orderly=False) for run in sorted(_runs_of(chunk))]
    table = _read(chunk)
    if not table.num_rows:
        return []
    runs = _one_array(table["run"])
    codes = runs.indices.to_numpy()
    if (codes == codes[0]).all():
        return [_extent(runs.dictionary[int(codes[0])].as_py(), chunk.first, table)]
    order = np.argsort(codes, kind="stable")
    pieces = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    return [_part(chunk, table, rows, runs.dictionary[int(codes[rows[0]])].as_py()) for rows in pieces]


def _read(chunk: Chunk) -> Any:
    arrow = load_arrow()
    try:
        with arrow.parquet.ParquetFile(
            chunk.path, read_dictionary=["run", "node", "kind"], page_checksum_verification=True
        ) as file:
            return file.read_row_groups(list(chunk.row_groups), columns=LOOKED_AT).combine_chunks()
    except (OSError, arrow.ArrowException) as error:
        raise TraceError(f"{chunk.path}: cannot be read as Parquet: {error}") from None


def _runs_of(chunk: Chunk) -> frozenset[str]:
    return runs_in(Path(chunk.path))


def _one_array(column: Any) -> Any:
    """A column as one dictionary array without holes."""
    whole = column.unify_dictionaries().combine_chunks()
    plain = whole.chunk(0) if hasattr(whole, "chunk") else whole
    return plain if not plain.null_count else plain.cast("string").fill_null("").dictionary_encode()


def _part(chunk: Chunk, table: Any, rows: Any, run: str) -> RunExtent:
    """A run among others in one chunk, with the numbers of its rows; scattered, it is disorderly."""
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 != len(rows):
        return RunExtent(run, chunk.first + first, chunk.first + last, len(rows), orderly=False)
    return _extent(run, chunk.first + first, table.slice(first, len(rows)))


def _extent(run: str, first: int, table: Any) -> RunExtent:
    at = table["at"].to_numpy()
    rows = table.num_rows
    kinds, nodes = _one_array(table["kind"]), _one_array(table["node"])
    said = _numbers_by_node(nodes, table["n"].to_numpy())
    rising = bool(np.isfinite(at).all() and (np.diff(at) >= 0).all())
    events = table["event"]
    if not (rising and said is not None and KINDS.issuperset(kinds.dictionary.to_pylist())):
        return RunExtent(run, first, first + rows - 1, rows, orderly=False)
    kind_of = np.array(kinds.dictionary.to_pylist(), dtype=object)[kinds.indices.to_numpy()]
    instants = _Instants(at, kind_of, events)
    head, tail = instants.published_at_head(), instants.outcomes_at_tail()
    orderly = not instants.tangled() and len(head) + len(tail) <= OPEN_EVENTS_MAX
    return RunExtent(run, first, first + rows - 1, rows, orderly, float(at[0]), float(at[-1]), said, head, tail)


def _numbers_by_node(nodes: Any, n: Any) -> dict[str, tuple[int, int]] | None:
    """The first and last n of each node; None where the n of one falls."""
    codes = nodes.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    codes, n = codes[order], n[order]
    same = codes[1:] == codes[:-1]
    if (same & (n[1:] < n[:-1])).any():
        return None
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    ends = np.concatenate((starts[1:], [len(codes)])) - 1
    names = nodes.dictionary.to_pylist()
    return {names[codes[start]]: (int(n[start]), int(n[end])) for start, end in zip(starts, ends, strict=True)}


class _Instants:
    """Rule 4 within a chunk: in one instant, what became of an event comes after its publication."""

    def __init__(self, at: Any, kinds: Any, events: Any) -> None:
        self._at = at
        self._published = kinds == RecordKind.PUBLISH.value
        self._outcome = np.isin(kinds.astype(str), [kind.value for kind in FOLLOWS_PUBLICATION])
        self._events = events

    def published_at_head(self) -> frozenset[str]:
        return self._named(self._published & (self._at == self._at[0]))

    def outcomes_at_tail(self) -> frozenset[str]:
        return self._named(self._outcome & (self._at == self._at[-1]))

    def tangled(self) -> bool:
        """Looks only at publications that have an outcome of some event before them in their instant."""
        instant = np.cumsum(np.concatenate(([0], np.diff(self._at) > 0)))
        outcomes = np.cumsum(self._outcome)
        starts = np.searchsorted(instant, instant, side="left")
        before: Any = outcomes - np.where(starts > 0, outcomes[starts - 1], 0)
        doubtful = np.unique(instant[self._published & (before > 0)])
        rows = np.flatnonzero(np.isin(instant, doubtful) & (self._published | self._outcome))
        seen: set[tuple[int, str]] = set()
        for row, event in zip(rows.tolist(), self._events.take(rows).to_pylist(), strict=True):
            if not self._published[row]:
                seen.add((int(instant[row]), event))
            elif (int(instant[row]), event) in seen:
                return True
        return False

    def _named(self, chosen: Any) -> frozenset[str]:
        return frozenset(self._events.filter(chosen).to_pylist())


def _merged(extents: Iterable[RunExtent]) -> list[RunPlace]:
    by_run: dict[str, list[RunExtent]] = defaultdict(list)
    for extent in sorted(extents, key=lambda one: one.first):
        by_run[extent.run].append(extent)
    return [_placed(run, parts) for run, parts in by_run.items()]


def _placed(run: str, parts: Sequence[RunExtent]) -> RunPlace:
    rows = sum(part.rows for part in parts)
    orderly = all(part.orderly for part in parts) and _go_on(parts)
    return RunPlace(run, parts[0].first, rows, orderly)


def _go_on(parts: Sequence[RunExtent]) -> bool:
    """Whether each chunk takes up where the one before it ended, in place, time and numbers."""
    last: dict[str, int] = {}
    open_outcomes: frozenset[str] = frozenset()
    before: RunExtent | None = None
    for part in parts:
        if before is not None:
            if part.first != before.last + 1 or part.head < before.tail:
                return False
            if part.head == before.tail and open_outcomes & part.published_at_head:
                return False
        if any(first < last.get(node, first) for node, (first, _) in part.nodes.items()):
            return False
        last |= {node: end for node, (_, end) in part.nodes.items()}
        goes_on = before is not None and part.head == part.tail == before.tail
        open_outcomes = part.outcomes_at_tail | open_outcomes if goes_on else part.outcomes_at_tail
        before = part
    return True
