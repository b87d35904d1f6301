"""A reader of one Parquet file as records: strict about content, liberal about column types.

Accepted besides our own schema: `attributes` as a map or a struct; any width of integer and float;
dictionaries and large strings; nulls for what does not apply; the optional columns missing; the run in a
folder named `run=…`, as Spark writes it. In a map of texts a value that reads as a JSON number, boolean,
quoted text or `{"$bytes": …}` is that, and any other value is the text itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from pleach.core.events.event import check_attributes
from pleach.errors import InvalidInputError, TraceError
from pleach.lake.arrow import load_arrow
from pleach.trace.records import BYTES_KEY, Record, attributes_from, attributes_text

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
MAY_BE_MISSING = frozenset({"peer", "message", "bytes", "detail"})
MAY_NOT_BE_NULL = frozenset({"run", "at", "n", "kind"})
PARTITION = "run="  # a folder name that stands for the column
BATCH_ROWS = 65_536


def count_rows(path: Path) -> int:
    arrow = load_arrow()
    with _unreadable_as_trace_error(path):
        return int(arrow.parquet.read_metadata(path).num_rows)


def runs_in(path: Path) -> frozenset[str]:
    if "run" not in _columns_of(path):
        return frozenset({_run_of_folder(path)})
    batches = _batches(path, ["run"])
    return frozenset(run for batch in batches for run in _values(path, "run", batch.column(0)))


def records_in(path: Path, *, kind: str = "") -> Iterator[Record]:
    """The file's records, row by row; all, or those of one kind."""
    present = _columns_of(path)
    names = [name for name in COLUMNS if name in present]
    for whole in _batches(path, names):
        batch = _of_kind(whole, kind) if kind else whole
        given = {name: _values(path, name, batch.column(name)) for name in names}
        columns = [given.get(name) or [_missing(path, name)] * len(batch) for name in COLUMNS]
        yield from map(Record, *columns)


def _of_kind(batch: Any, kind: str) -> Any:
    from pyarrow import compute  # noqa: PLC0415 an optional part

    return batch.filter(compute.equal(batch.column("kind"), kind))


def _columns_of(path: Path) -> frozenset[str]:
    """The names of a file's columns, once all that we need are found to be there and of the right type."""
    arrow = load_arrow()
    with _unreadable_as_trace_error(path):
        schema = arrow.parquet.read_schema(path)
    for name in COLUMNS:
        if name in schema.names:
            _check_type(path, name, schema.field(name).type)
        else:
            _missing(path, name)
    return frozenset(schema.names)


def _batches(path: Path, names: list[str]) -> Iterator[Any]:
    arrow = load_arrow()
    with _unreadable_as_trace_error(path), arrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
        yield from file.iter_batches(BATCH_ROWS, columns=names)


@contextmanager
def _unreadable_as_trace_error(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, load_arrow().ArrowException) as error:
        raise TraceError(f"{path}: cannot be read as Parquet: {error}") from None


def _missing(path: Path, name: str) -> str | int:
    """The default of a column that a file does not have, if it may be missing."""
    if name == "run":
        return _run_of_folder(path)
    if name not in MAY_BE_MISSING:
        raise TraceError(f"{path}: column {name!r} is missing; {', '.join(COLUMNS)} are wanted")
    return 0 if COLUMNS[name] == "int64" else ""


def _run_of_folder(path: Path) -> str:
    for folder in path.parts[-2::-1]:
        if folder.startswith(PARTITION):
            return unquote(folder.removeprefix(PARTITION))
    raise TraceError(f"{path}: column 'run' is missing, and no folder named {PARTITION}… stands for it")


def _check_type(path: Path, name: str, found: Any) -> None:
    types = load_arrow().types
    plain = found.value_type if types.is_dictionary(found) else found
    is_text = types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain)
    is_number = types.is_integer(plain) or types.is_floating(plain)
    is_nested = types.is_map(plain) or types.is_struct(plain)
    fits = is_text if COLUMNS[name] == "string" else is_number
    if not (fits or types.is_null(plain) or (name == "attributes" and is_nested)):
        raise TraceError(f"{path}: column {name!r} is of type {found}; {COLUMNS[name]} is wanted")


def _values(path: Path, name: str, column: Any) -> list[Any]:
    arrow = load_arrow()
    if name in MAY_NOT_BE_NULL and column.null_count:
        raise TraceError(f"{path}: column {name!r} has {column.null_count} nulls; every record needs it")
    if arrow.types.is_nested(column.type):
        return [_attributes(path, value) for value in column.to_pylist()]
    try:
        flat = column.cast(arrow.type_for_alias(COLUMNS[name]))
    except arrow.ArrowException as error:
        raise TraceError(f"{path}: column {name!r} cannot be read as {COLUMNS[name]}: {error}") from None
    if COLUMNS[name] != "string":
        return list(flat.fill_null(0).to_pylist())
    encoded = flat.fill_null("").dictionary_encode()  # so that equal texts are one object
    texts = encoded.dictionary.to_pylist()
    return [texts[place] for place in encoded.indices.to_pylist()]


def _attributes(path: Path, value: Any) -> str:
    """A map (pairs) or struct (a dict with nulls for what is not there) as JSON."""
    pairs = value.items() if isinstance(value, Mapping) else value or ()
    attributes = {name: _scalar(item) for name, item in pairs if item is not None}
    try:
        check_attributes(attributes)
    except InvalidInputError as error:
        raise TraceError(f"{path}: column 'attributes': {error}") from None
    return attributes_text(attributes) if attributes else ""


def _scalar(item: Any) -> Any:
    if not isinstance(item, str):
        return item
    try:
        value = msgspec.json.decode(item)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return item
    match value:
        case str() | bool() | int() | float():
            return value
        case dict() if list(value) == [BYTES_KEY]:
            return attributes_from(f'{{"x":{item}}}')["x"]
        case _:
            return item
