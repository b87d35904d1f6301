"""The stream reader: a subscription in the broker network, read in ranges that Spark may repeat.

    initialOffset   the beginning; without effects, since Spark repeats it after a failure of the first batch
    latestOffset    subscribes if needed; returns the end of each partition's session
    read            reads a range on an executor, again if the batch failed
    commit          lets brokers drop what was read

Each call opens and closes its connections, since Spark may end planners and workers at any time. Durable state is at
the brokers (the session, core/links/reading.py) and in the checkpoint (an offset: the position in the session of each
partition):

    {"version": 1}                                                          the beginning: not subscribed yet
    {"version": 1, "0": {"filter": "f3c1…", "place": {"broker": "a", "at": 57, …}}, "1": …}

A position names the epochs of client and broker, so that it stays unambiguous. The filter is stored as a digest: a
session keeps the subscription that it began with, even if the options change.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pleach.client.reader import Reader, ReadPosition
from pleach.errors import ConnectError, SettingsError
from pleach.spark.source.options import FORMAT, Share, StreamOptions
from pleach.spark.source.rows import RowSchema, SourceEvent

if TYPE_CHECKING:
    import pyarrow as pa

POLL_SECONDS_MAX = 1.0  # for a broker that does not answer: other partitions continue

log = logging.getLogger(__name__)


class Range(InputPartition):
    """What a task reads: payloads of one session, behind `after` and up to the place's."""

    def __init__(self, share: Share, place: ReadPosition, after: int) -> None:
        super().__init__(None)
        self.share = share
        self.place = place
        self.after = after


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        RowSchema(schema)  # so that a column that cannot be filled is named at once
        self._options = options
        self._schema = schema
        self._begun: list[ReadPosition] | None = None
        self._silent_since: dict[str, float] = {}  # partitions whose broker does not answer
        self._is_bounded = False
        self._target: list[ReadPosition] | None = None

    # Planning ------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's names, here and below
        return dict(BEGINNING)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        rows_max = self._options.rows_max
        return ReadMaxRows(rows_max) if rows_max else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The target is the end of the sessions when the first batch is planned; before that they are unknown."""
        self._is_bounded = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        shares = self._options.shares
        places = places_in(start, shares) or self._begin()
        if self._is_bounded and self._target is None:
            self._target = self._reached(places, 0)
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        return offset_of(shares, self._bounded(places, self._reached(places, rows_max)))

    def _begin(self) -> list[ReadPosition]:
        """Subscribe once, also if Spark asks again before the first batch is committed."""
        if self._begun is None:
            epoch = time.time_ns()
            self._begun = [self._reader(share).subscribe(share.filter, epoch) for share in self._options.shares]
        return self._begun

    def _reached(self, places: Sequence[ReadPosition], rows_max: int) -> list[ReadPosition]:
        share_of_rows = max(1, rows_max // len(places)) if rows_max else 0
        shares = self._options.shares
        return [self._look(share, place, share_of_rows) for share, place in zip(shares, places, strict=True)]

    def _look(self, share: Share, place: ReadPosition, rows_max: int) -> ReadPosition:
        """How far a partition goes; no further, for now, where its broker does not answer."""
        reader = self._reader(share, min(POLL_SECONDS_MAX, self._options.patience))
        try:
            here = reader.follow(place) if place.next_broker else place
            further = reader.reach(here, messages_max=rows_max)
        except ConnectError:
            since = self._silent_since.setdefault(share.name, time.monotonic())
            if time.monotonic() - since > self._options.patience:
                raise
            log.warning("%s: %s does not answer; its events follow when it does", share.name, place.broker)
            return place
        self._silent_since.pop(share.name, None)
        return further

    def _bounded(self, places: Sequence[ReadPosition], reached: Sequence[ReadPosition]) -> list[ReadPosition]:
        if self._target is None:
            return list(reached)
        return [_not_beyond(*each) for each in zip(places, reached, self._target, strict=True)]

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        shares = self._options.shares
        ends = places_in(end, shares)
        if ends is None:
            return []
        starts: Sequence[ReadPosition | None] = places_in(start, shares) or [None] * len(ends)
        ranges = [
            Range(share, place, _after(before, place))
            for share, before, place in zip(shares, starts, ends, strict=True)
        ]
        return [each for each in ranges if each.after < each.place.at]

    def commit(self, end: dict[str, Any]) -> None:
        """A failed confirmation is repeated with the next batch: confirmations are cumulative."""
        for share, place in zip(self._options.shares, places_in(end, self._options.shares) or (), strict=False):
            try:
                self._reader(share, POLL_SECONDS_MAX).confirm(place)
            except ConnectError as error:
                log.warning("%s: %s", share.name, error)

    def _reader(self, share: Share, patience: float | None = None) -> Reader:
        patience = self._options.patience if patience is None else patience
        return Reader(share.name, share.addresses, patience=patience, entry=self._options.entry.entry)

    # On executors --------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Range)
        place, reader = partition.place, self._reader(partition.share)
        events = (event for run in reader.events(place, partition.after, place.at) for event in run)
        return RowSchema(self._schema).batches(SourceEvent(event) for event in events)


def _after(before: ReadPosition | None, place: ReadPosition) -> int:
    """Where a range begins: where the former one ended, or where the session did."""
    return before.at if before is not None and is_same_session(before, place) else place.since


def _not_beyond(start: ReadPosition, reached: ReadPosition, target: ReadPosition) -> ReadPosition:
    if not is_same_session(reached, target) or (is_same_session(start, target) and start.at >= target.at):
        return start
    return min(reached, target, key=lambda place: place.at)


VERSION = 1
BEGINNING: Mapping[str, Any] = {"version": VERSION}
DIGEST_CHARACTERS = 16


class PartitionOffset(msgspec.Struct, frozen=True):
    filter: str
    place: ReadPosition


def digest(share: Share) -> str:
    return hashlib.sha256(share.filter.text.encode()).hexdigest()[:DIGEST_CHARACTERS]


def offset_of(shares: Sequence[Share], places: Sequence[ReadPosition]) -> dict[str, Any]:
    parts = (PartitionOffset(digest(share), place) for share, place in zip(shares, places, strict=True))
    return {**BEGINNING, **{str(number): msgspec.to_builtins(part) for number, part in enumerate(parts)}}


def places_in(offset: Mapping[str, Any], shares: Sequence[Share]) -> list[ReadPosition] | None:
    """The place in each partition; None at the beginning. Raises SettingsError where the options are others by now."""
    if offset.get("version") != VERSION:
        raise _wrong(f"the checkpoint is of version {offset.get('version')}; this Pleach knows {VERSION}")
    if len(offset) == 1:
        return None
    try:
        parts = [msgspec.convert(offset[str(number)], PartitionOffset) for number in range(len(offset) - 1)]
    except (KeyError, msgspec.ValidationError) as error:
        raise _wrong(f"the checkpoint holds no offset of ours ({error})") from None
    if [part.filter for part in parts] != [digest(share) for share in shares]:
        raise _wrong("filter or split are not those that the checkpoint was made with")
    return [part.place for part in parts]


def is_same_session(one: ReadPosition, other: ReadPosition) -> bool:
    return (one.broker, one.life, one.epoch) == (other.broker, other.life, other.epoch)


def _wrong(reason: str) -> SettingsError:
    remedy = "use the options that it was made with, or another checkpointLocation and another name"
    return SettingsError("checkpointLocation", reason, remedy, source=FORMAT)
