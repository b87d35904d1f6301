"""Runs of a lake, for the dashboard to replay: read with pyarrow, one at a time, when somebody wants to see one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pleach.core.events.algebra import overlaps
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_internal
from pleach.core.messages import Node
from pleach.errors import InvalidInputError, TraceError
from pleach.lake.manifest import load_manifest
from pleach.scenario.initial_tree import OUTLINE, InitialTree, read_initial_tree
from pleach.trace import Record, RecordKind, total_order
from pleach.trace.parquet import count_rows, records_in, runs_in
from pleach.trace.store import trace_files
from pleach.web.draft import Draft
from pleach.web.film import film_of
from pleach.web.picture import Kind, Picture, Source
from pleach.web.wishes import Wish

RECORDS_MAX = 1_000_000  # of one run: half a minute, and a gigabyte


class TraceSource:
    """Raises TraceError at once where there is nothing to replay."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, list[Path]] = {}
        for file in trace_files(path):
            for run in sorted(runs_in(file)):
                self._files.setdefault(run, []).append(file)
        if not self._files:
            raise TraceError(f"{path}: there are no records in it")

    async def look(self) -> Picture:
        """Nothing moves by itself: the page plays a film."""
        return Picture(Source(Kind.REPLAY, str(self._path), runs=tuple(sorted(self._files))), 0.0)

    async def draft(self, wish: Wish) -> Draft:
        raise InvalidInputError(f"{type(wish).__name__.lower()}: what is recorded cannot be changed")

    async def detail(self, broker: Node) -> dict[str, Any]:
        raise InvalidInputError(f"{broker}: a trace does not tell more")

    async def interested(self, wanted: Filter) -> dict[Node, list[str]]:
        """Of all runs: whoever subscribed, then or later."""
        return await asyncio.to_thread(self._interested, wanted)

    def _interested(self, wanted: Filter) -> dict[Node, list[str]]:
        files = sorted({file for files in self._files.values() for file in files})
        found: dict[Node, set[str]] = {}
        for record in (record for file in files for record in records_in(file, kind=RecordKind.SUBSCRIBE)):
            if overlaps(parse_internal(record.filter), wanted):
                found.setdefault(record.who, set()).add(record.filter)
        return {client: sorted(found[client]) for client in sorted(found)}

    async def film(self, run: str) -> dict[str, Any]:
        if run not in self._files:
            raise InvalidInputError(f"{self._path} has no run {run!r}")
        return await asyncio.to_thread(self._film, run)

    def _film(self, run: str) -> dict[str, Any]:
        files = self._files[run]
        rows = sum(map(count_rows, files))
        if rows > RECORDS_MAX:
            raise TraceError(f"{run}: {rows:,} records are too many; a replay takes {RECORDS_MAX:,}; record no sends")
        records: list[Record] = [record for file in files for record in records_in(file) if record.run == run]
        return film_of(run, total_order(records), _outline(files[0]))


def _outline(file: Path) -> InitialTree | None:
    manifest = load_manifest(file.parent)
    return read_initial_tree(str(manifest.about.get(OUTLINE, ""))) if manifest else None
