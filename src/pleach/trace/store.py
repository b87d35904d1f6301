"""Traces on disk: runs of a lake when we write, any Parquet files, of any number of runs, when we read.

The same records give the same bytes. Rows are in order of arrival; reading restores the total order
(order.py) over all files of a run, since others may write one file per node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from pleach.errors import TraceError
from pleach.lake import Table, WriteMode, code_version, open_run
from pleach.lake.arrow import load_arrow
from pleach.lake.manifest import FILE_NAME as MANIFEST
from pleach.lake.manifest import load_manifest
from pleach.trace.order import total_order
from pleach.trace.parquet import COLUMNS, count_rows, records_in, runs_in
from pleach.trace.records import Record

SUFFIX = ".parquet"
TRACES = "traces"  # the table of a lake that they are in
OTHER_TABLES = frozenset({"results"})  # in the same lake

About: TypeAlias = Mapping[str, str | int | float | bool]
NOTHING: About = MappingProxyType({})


def traces_in(lake: Path | str) -> Table:
    return Table(Path(lake), TRACES, COLUMNS)


def write_trace(records: Sequence[Record], lake: Path | str, run: str, *, about: About = NOTHING) -> Path:
    """One run of the lake's traces, complete or not at all. An older one of that name is replaced.

    `about` says where it comes from, as scenario and seed; the version of the code is added. Returns its file.
    """
    load_arrow()
    if not run:
        raise TraceError("a run needs a name")
    stranger = next((record.run for record in records if record.run != run), None)
    if stranger is not None:
        raise TraceError(f"a record of run {stranger!r} among those of run {run!r}: write each run by itself")
    columns = {name: [getattr(record, name) for record in records] for name in COLUMNS}
    with open_run(traces_in(lake), run, {**about, "code": code_version()}, WriteMode.REPLACE) as writer:
        path = writer.append_columns(columns)
        writer.finish()
    return path


def read_traces(path: Path | str) -> Iterator[tuple[str, list[Record]]]:
    """The runs in a file, or in all Parquet files under a folder, each with its records in total order.

    One run at a time is in memory, or those that share files. Raises TraceError, naming file and column, at
    what cannot be read, and where there is nothing to read.
    """
    empty = True
    for files in _sharing_runs(trace_files(path)):
        records: dict[str, list[Record]] = defaultdict(list)
        for file in files:
            for record in records_in(file):
                records[record.run].append(record)
        for run in list(records):
            empty = False
            yield run, total_order(records.pop(run))
    if empty:
        raise TraceError(f"{path}: there are no records in it")


def trace_files(path: Path | str) -> list[Path]:
    """The files of a trace, or under a folder of traces, or of a lake's traces; what a manifest lists is checked.

    Other people's files need no manifest. Where there is one it decides, and runs that are not complete are left out.
    """
    path = Path(path)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TraceError(f"{path}: there is no such file or folder")
    visible = [file for file in sorted(path.rglob(f"*{SUFFIX}")) if _is_trace(file.relative_to(path))]
    vouched = _vouched(path)
    chosen = [file for file in visible if file in vouched or not _has_manifest(file)]
    if not chosen:
        unfinished = " that belong to a complete run" if visible else ""
        raise TraceError(f"{path}: the folder holds no {SUFFIX} files{unfinished}")
    return chosen


def rows_in(files: Sequence[Path]) -> int:
    """How many records the files hold; raises TraceError at one that cannot be read."""
    return sum(map(count_rows, files))


def _is_trace(inside: Path) -> bool:
    """Whether a file in the folder is neither hidden nor of another table of the lake."""
    parts = inside.parts
    return not OTHER_TABLES.intersection(parts[:1]) and not any(part.startswith((".", "_")) for part in parts)


def _vouched(path: Path) -> set[Path]:
    """The files that the manifests of complete runs list."""
    files: set[Path] = set()
    for folder in sorted(file.parent for file in path.rglob(MANIFEST) if _is_trace(file.parent.relative_to(path))):
        manifest = load_manifest(folder)
        if manifest and manifest.complete:
            files.update(Table(folder.parent.parent, folder.parent.name, COLUMNS).checked(manifest))
    return files


def _has_manifest(file: Path) -> bool:
    return (file.parent / MANIFEST).is_file()


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
