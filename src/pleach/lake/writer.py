"""Appends to a run, part by part.

open_run ──► append ──► append ──► … ──► finish
                └─ each part is committed when `append` returns; a kill loses the one under way, no other
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from pleach.errors import LakeError
from pleach.lake.arrow import arrow_type, load_arrow
from pleach.lake.manifest import Manifest, Part, columns_of, load_manifest, remedy, run_folder, save_manifest
from pleach.lake.table import Table, difference

LOCK_NAME = "_lock"
SUFFIX = ".parquet"
ROW_GROUP_ROWS = 131_072
COMPRESSION, COMPRESSION_LEVEL = "zstd", 3
PARTS_MAX = 99_999  # of one run: their names sort as their numbers do


class WriteMode(StrEnum):
    NEW = "new"  # the run must not be there
    APPEND = "append"  # goes on with what is there, if it comes from the same source
    REPLACE = "replace"  # what is there stays readable until the new run is finished


@contextmanager
def open_run(
    table: Table, run: str, about: Mapping[str, str | int | float | bool], mode: WriteMode = WriteMode.NEW
) -> Iterator[RunWriter]:
    """A writer for a run. Whoever leaves without `finish` can go on later with APPEND."""
    folder = run_folder(table.folder, run)
    folder.mkdir(parents=True, exist_ok=True)
    lock = _lock(folder)
    try:
        before = load_manifest(folder)
        fresh = Manifest(table.name, run, dict(table.columns), about=dict(about))
        yield RunWriter(folder, _start(folder, before, fresh, mode), before)
    finally:
        os.close(lock)


class RunWriter:
    def __init__(self, folder: Path, manifest: Manifest, before: Manifest | None) -> None:
        self._arrow = load_arrow()
        self._folder = folder
        self._before = before
        self._replaces = before is not None and not set(before.parts) <= set(manifest.parts)
        self.manifest = manifest
        if not self._replaces:  # or what the folder says stays so until the end
            save_manifest(folder, manifest)

    def append(self, rows: Any) -> Path:
        """Commits an Arrow table as one more part; its columns must be those of the table."""
        given, declared = columns_of(rows.schema), self.manifest.columns
        if given != declared:
            raise LakeError(f"{self._folder}: {difference(given, declared)}; nothing was written")
        path = self._folder / self._free_name()
        unfinished = path.with_name(f".{path.name}")
        self._arrow.parquet.write_table(
            rows.select(list(declared)),
            unfinished,
            compression=COMPRESSION,
            compression_level=COMPRESSION_LEVEL,
            row_group_size=ROW_GROUP_ROWS,
            write_page_checksum=True,  # a bit that flips on disk is found, not judged
        )
        _sync(unfinished)
        unfinished.replace(path)
        self._commit(Part(path.name, rows.num_rows, path.stat().st_size))
        return path

    def adopt(self, files: Sequence[Path]) -> None:
        """Commits files that somebody else wrote, Spark for one, as parts; they are moved. Same file system, please."""
        added = []
        for file in files:
            footer = self._arrow.parquet.read_metadata(file)
            given, declared = columns_of(footer.schema.to_arrow_schema()), self.manifest.columns
            if given != declared:
                raise LakeError(f"{file}: {difference(given, declared)}; nothing was taken over")
            added.append((file, footer.num_rows))
        for file, rows in added:
            path = self._folder / self._free_name()
            _sync(file)
            file.replace(path)
            self._commit(Part(path.name, rows, path.stat().st_size))

    def append_columns(self, columns: Mapping[str, Any]) -> Path:
        """The same for plain lists, one per column."""
        kinds = self.manifest.columns
        arrays = {name: self._arrow.array(columns[name], type=arrow_type(kind)) for name, kind in kinds.items()}
        return self.append(self._arrow.table(arrays))

    def finish(self) -> None:
        """The run is complete: from now on it is read."""
        self.manifest = msgspec.structs.replace(self.manifest, complete=True)
        save_manifest(self._folder, self.manifest)
        kept = {part.name for part in self.manifest.parts}
        for stale in sorted(self._folder.glob(f"*{SUFFIX}")):
            if stale.name not in kept:
                stale.unlink()  # of a run that this one replaces, or of a writer that died before its commit

    def _commit(self, part: Part) -> None:
        self.manifest = msgspec.structs.replace(self.manifest, parts=(*self.manifest.parts, part))
        if not self._replaces:
            save_manifest(self._folder, self.manifest)

    def _free_name(self) -> str:
        """A number above all that are listed or were: files that readers may have open are never written over."""
        taken = (*self.manifest.parts, *(self._before.parts if self._before else ()))
        number = max((_number(part.name) for part in taken), default=-1) + 1
        if number > PARTS_MAX:
            raise LakeError(f"{self._folder}: has {number:,} parts, and no more can be named; write larger ones")
        return f"part-{number:05}{SUFFIX}"


def _number(name: str) -> int:
    digits = name.removeprefix("part-").removesuffix(SUFFIX)
    return int(digits) if digits.isdecimal() else -1


def _start(folder: Path, before: Manifest | None, fresh: Manifest, mode: WriteMode) -> Manifest:
    """The manifest to go on from, given what is there."""
    if before is None or mode is WriteMode.REPLACE:
        return fresh
    if mode is WriteMode.NEW:
        state = "there already" if before.complete else "begun and not finished"
        raise LakeError(f"{folder}: is {state}; append to it, replace it, or remove it")
    if before.columns != fresh.columns:
        raise LakeError(f"{folder}: {difference(before.columns, fresh.columns)}; {remedy(folder)}")
    if before.about != fresh.about:
        raise LakeError(f"{folder}: {_other_source(before.about, fresh.about)}; {remedy(folder)}")
    return msgspec.structs.replace(before, complete=False)


def _other_source(found: Mapping[str, object], wanted: Mapping[str, object]) -> str:
    names = [name for name in (*wanted, *found) if found.get(name) != wanted.get(name)]
    return f"comes from {names[0]} {found.get(names[0])!r}, not {wanted.get(names[0])!r}; the two must not be mixed"


def _lock(folder: Path) -> int:
    """A lock that the kernel takes back when its holder is gone, however that comes about."""
    handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise LakeError(f"{folder}: another process is writing this run; wait for it, or name the run apart") from None
    return handle


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
