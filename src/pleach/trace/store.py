"""Traces on disk: one Parquet file per run when we write, any number of runs and files when we read.

The same records give the same bytes. Rows are in order of arrival; reading restores the total order
(order.py) over all files of a run, since others may write one file per node.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from pleach.errors import TraceError
from pleach.trace.order import total_order
from pleach.trace.parquet import COLUMNS, load_arrow, records_in, runs_in
from pleach.trace.records import Record

SUFFIX = ".parquet"
ROW_GROUP_ROWS = 131_072
COMPRESSION, COMPRESSION_LEVEL = "zstd", 3


def write_trace(records: Sequence[Record], directory: Path | str, run: str) -> Path:
    """Writes `<directory>/<run>.parquet`; nobody ever sees half of it. An older one is replaced."""
    arrow = load_arrow()
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

    One run at a time is in memory, or those that share files. Raises TraceError, naming file and column, at
    what cannot be read, and where there is nothing to read.
    """
    empty = True
    for files in _sharing_runs(_files(Path(path))):
        records: dict[str, list[Record]] = defaultdict(list)
        for file in files:
            for record in records_in(file):
                records[record.run].append(record)
        for run in list(records):
            empty = False
            yield run, total_order(records.pop(run))
    if empty:
        raise TraceError(f"{path}: there are no records in it")


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


def _sharing_runs(files: Sequence[Path]) -> list[list[Path]]:
    """The files in groups, so that no run is in two of them; files and groups keep their order."""
    leader: dict[Path, Path] = {}  # of each file, towards the first file of its group
    first_with: dict[str, Path] = {}
    for file in files:
        leader[file] = file
        for run in sorted(runs_in(file)):
            low, high = sorted((_first(leader, first_with.setdefault(run, file)), _first(leader, file)))
            leader[high] = low
    groups: dict[Path, list[Path]] = defaultdict(list)
    for file in files:
        groups[_first(leader, file)].append(file)
    return list(groups.values())


def _first(leader: dict[Path, Path], file: Path) -> Path:
    while leader[file] != file:
        leader[file] = file = leader[leader[file]]
    return file
