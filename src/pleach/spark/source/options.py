"""The options of `format("pleach")`, checked once, with a remedy in each error.

Names of options are case-insensitive, as in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from pleach.access.principals import full_name
from pleach.core.events.complement import divided
from pleach.core.events.event import PUBLISHER_BYTES_MAX
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.errors import AddressError, FilterError, SettingsError
from pleach.net.addresses import Address, parse_addresses
from pleach.net.client_login import Entry, client_login
from pleach.server.settings import NAME_BYTES_MAX

FORMAT = 'format("pleach")'
PATIENCE_SECONDS = 60.0
SPLITS_MAX = 64
ENTRY = ("tls", "key", "tokenFile", "tenant")  # options, in the order of EntryOptions
SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})  # options of Spark itself
SUFFIX_BYTES_MAX = 64  # of a client's name, for the suffix of a partition
assert NAME_BYTES_MAX <= PUBLISHER_BYTES_MAX


class BatchOptions(msgspec.Struct, frozen=True):
    path: str
    filter: Filter


class Share(NamedTuple):
    """What one partition of a stream subscribes to, under which name, and where it looks for its broker first."""

    name: str
    filter: Filter
    addresses: tuple[Address, ...]


class EntryOptions(msgspec.Struct, frozen=True):
    """How tasks come in at brokers. Files are read on executors, for each connection."""

    tls: str = ""  # directory of certificates; empty: no TLS
    key: str = ""  # file of an Ed25519 key
    token_file: str = ""
    tenant: str = ""

    @property
    def entry(self) -> Entry:
        file = Path(self.token_file)
        token = (lambda: file.read_text(encoding="utf-8").strip()) if self.token_file else None
        return Entry(self.tls or None, client_login(self.key or None, token))


class StreamOptions(msgspec.Struct, frozen=True):
    shares: tuple[Share, ...]
    rows_max: int  # in a batch; 0: no limit
    patience: float  # seconds
    entry: EntryOptions = EntryOptions()


class SinkOptions(msgspec.Struct, frozen=True):
    name: str
    addresses: tuple[Address, ...]
    patience: float
    order_by: tuple[str, ...]
    entry: EntryOptions = EntryOptions()


def batch_options(given: Mapping[str, str]) -> BatchOptions:
    options = _known(given, ("path", "filter"))
    path = options.get("path", "")
    if not path:
        raise _wrong("path", "missing", "name a folder of traces, or a Parquet file: .load(path)")
    return BatchOptions(path, _filter(options.get("filter", "TRUE"), "filter"))


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    options = _known(given, ("brokers", "name", "filter", "split", "maxRowsPerBatch", "patience", *ENTRY))
    name, addresses = _name(options), _addresses(options)
    wanted = _filter(options.get("filter", "TRUE"), "filter")
    texts = split_texts(options.get("split", ""))
    if len(texts) > SPLITS_MAX:
        raise _wrong("split", f"{len(texts)} parts", f"at most {SPLITS_MAX} are possible")
    rows_max = int(_number(options, "maxrowsperbatch", 0))
    return StreamOptions(_shares(name, addresses, wanted, texts), rows_max, _patience(options), _entry(options))


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    options = _known(given, ("brokers", "name", "patience", "orderBy", *ENTRY))
    columns = tuple(part.strip() for part in options.get("orderby", "").split(",") if part.strip())
    return SinkOptions(_name(options), _addresses(options), _patience(options), columns, _entry(options))


def split_texts(text: str) -> list[str]:
    """The filters between semicolons; semicolons within quotes belong to a filter."""
    parts, quote = [""], ""
    for character in text:
        if character in "'\"" and quote in ("", character):
            quote = "" if quote else character
        if character == ";" and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _shares(name: str, addresses: tuple[Address, ...], wanted: Filter, texts: list[str]) -> tuple[Share, ...]:
    if not texts:
        return (Share(name, wanted, addresses),)
    try:
        filters = divided(wanted, [_filter(text, "split") for text in texts])
    except FilterError as error:
        if error.text:
            raise
        raise _wrong("split", error.reason, "split by one attribute, or into fewer parts") from None
    turns = (number % len(addresses) for number in range(len(filters)))
    rotated = ((*addresses[turn:], *addresses[:turn]) for turn in turns)
    return tuple(Share(f"{name}.{n}", f, a) for n, (f, a) in enumerate(zip(filters, rotated, strict=True)))


def _known(given: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    options = {key.lower(): value for key, value in given.items() if key.lower() not in SPARKS_OWN}
    known = {name.lower() for name in names}
    for key in sorted(options):
        if key not in known:
            raise _wrong(key, "no such option here", f"known are {', '.join(names)}")
    return options


def _name(options: Mapping[str, str]) -> str:
    name = options.get("name", "")
    if not name:
        raise _wrong("name", "missing", "give the stream a unique name: brokers store its session under it")
    if len(name.encode()) > NAME_BYTES_MAX - SUFFIX_BYTES_MAX or not name.isprintable():
        limit = NAME_BYTES_MAX - SUFFIX_BYTES_MAX
        raise _wrong("name", f"{name[:20]!r}… is no name", f"1 to {limit} bytes of printable text")
    return full_name(options.get("tenant", ""), name)


def _entry(options: Mapping[str, str]) -> EntryOptions:
    return EntryOptions(*(options.get(name.lower(), "") for name in ENTRY))


def _addresses(options: Mapping[str, str]) -> tuple[Address, ...]:
    text = options.get("brokers", "")
    if not text:
        raise _wrong("brokers", "missing", "give the addresses for clients of one or more: host:port,host:port")
    try:
        return parse_addresses(text)
    except AddressError as error:
        raise _wrong("brokers", str(error), "correct it") from None


def _filter(text: str, option: str) -> Filter:
    try:
        return parse_filter(text)
    except FilterError as error:
        raise FilterError(f"option {option!r}: {error.reason}", text=error.text or text, column=error.column) from None


def _patience(options: Mapping[str, str]) -> float:
    return _number(options, "patience", PATIENCE_SECONDS)


def _number(options: Mapping[str, str], key: str, default: float) -> float:
    text = options.get(key, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise _wrong(key, f"{text!r} is no number", "0 or more is wanted")
    return value


def _wrong(key: str, reason: str, remedy: str) -> SettingsError:
    return SettingsError(f"option {key!r}", reason, remedy, source=FORMAT)
