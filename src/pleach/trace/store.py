"""Traces as Parquet files: one file per run when we write, any number of runs and files when we read.

What we write is the schema of `COLUMNS`, rows in order of arrival, the same bytes for the same records. What we read may come from
others: `attributes` as JSON, as a map or as a struct, any width of integer and float, optional columns missing, nulls for
what does not apply, the run in a folder named `run=…` as Spark writes it. In a map of texts a value that reads as a JSON
number, boolean, quoted text or `{"$bytes": …}` is that, anything else is the text itself.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from pleach.errors import MissingPartError, TraceError
from pleach.trace.order import total_order
from pleach.trace.records import BYTES_KEY, Record, attributes_text

COLUMNS = {
    "run": "string",
    "at": "double",
    "node": "string",
    "n": "int64",
    "kind": "string",
    "event": "string",
    "client": "string",
    "subscription": "string",
    "filter": "string",
    "attributes": "string",
    "peer": "string",
    "message": "string",
    "bytes": "int64",
    "detail": "string",
}
OPTIONAL = frozenset({"peer", "message", "bytes", "detail"})
SUFFIX = ".parquet"
ROW_GROUP_ROWS = 131_072
COMPRESSION, COMPRESSION_LEVEL = "zstd", 3
PARTITION = "run="  # the folder name that stands for the column


def write_trace(records: Sequence[Record], directory: Path | str, run: str) -> Path:
    """Writes `<directory>/<run>.parquet`; nobody ever sees half of it. An older trace of that run is replaced."""
    arrow = _arrow()
    if not run or run.startswith((".", "_")) or "/" in run or os.sep in run:
        raise TraceError(f"run {run!r} cannot name a file: leave out slashes, and a dot or underscore in front")
    stranger = next((record.run for record in records if record.run != run), None)
    if stranger is not None:
        raise TraceError(f"a record of run {stranger!r} among those of run {run!r}: write each run by itself")
    columns = {
        name: arrow.array([getattr(record, name) for record in records], type=arrow.type_for_alias(kind))
        for name, kind in COLUMNS.items()
    }
    path = Path(directory) / f"{run}{SUFFIX}"
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    arrow.parquet.write_table(
        arrow.table(columns),
        unfinished,
        compression=COMPRESSION,
        compression_level=COMPRESSION_LEVEL,
        row_group_size=ROW_GROUP_ROWS,
    )
    unfinished.replace(path)
    return path


def read_traces(path: Path | str) -> Iterator[tuple[str, list[Record]]]:
    """The runs in a file, or in all Parquet files under a folder, each with its records in total order.

    One run at a time is in memory, or those that share files. Raises TraceError, with file and column, at what cannot be read.
    """
    files = [_TraceFile(_arrow(), file) for file in _files(Path(path))]
    empty = True
    for group in _sharing_runs(files):
        records: dict[str, list[Record]] = defaultdict(list)
        for file in group:
            for record in file.records():
                records[record.run].append(record)
        for run, found in records.items():
            empty = False
            yield run, total_order(found)
    if empty:
        raise TraceError(f"{path}: the files hold no records")


def _arrow() -> Any:
    try:
        import pyarrow as arrow  # noqa: PLC0415 an optional part, and slow to load
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise MissingPartError("traces are Parquet files, which need pyarrow: pip install 'pleach[trace]'") from None
    return arrow


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TraceError(f"{path}: there is no such file or folder")
    inside = (file.relative_to(path) for file in path.rglob(f"*{SUFFIX}"))
    visible = [file for file in inside if not any(part.startswith((".", "_")) for part in file.parts)]
    if not visible:
        raise TraceError(f"{path}: the folder holds no {SUFFIX} files")
    return [path / file for file in sorted(visible)]


def _sharing_runs(files: Iterable[_TraceFile]) -> list[list[_TraceFile]]:
    """The files in groups, so that no run is in two groups."""
    group_of: dict[str, list[_TraceFile]] = {}
    groups: dict[int, list[_TraceFile]] = {}
    for file in files:
        runs = file.runs()
        joined = {id(group_of[run]): group_of[run] for run in runs if run in group_of}
        group, *others = joined.values() if joined else ([],)
        groups[id(group)] = group
        group.append(file)
        for other in others:
            group.extend(groups.pop(id(other)))
            runs |= {run for run, its_group in group_of.items() if its_group is other}
        group_of.update(dict.fromkeys(runs, group))
    return [sorted(group) for group in groups.values()]


class _TraceFile:
    """One Parquet file whose schema has been checked."""

    def __init__(self, arrow: Any, path: Path) -> None:
        self._arrow = arrow
        self._path = path
        try:
            self._file = arrow.parquet.ParquetFile(path)
        except (OSError, arrow.ArrowException) as error:
            raise TraceError(f"{path}: cannot be read as Parquet: {error}") from None
