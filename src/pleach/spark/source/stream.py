"""Live events as a stream: a subscription in the broker network, read in ranges that Spark may ask for again.

    initialOffset   the beginning; nothing happens yet, since Spark asks for it again after a failure of the first batch
    latestOffset    subscribes, if nobody has; says how far each partition's broker has something
    read            takes a range, on an executor; takes it again if the batch failed
    commit          the brokers need not keep it any longer

Each call makes the connections that it needs and closes them: Spark ends planners and workers as it likes. What lasts
is at the brokers (the session, core/links/reading.py) and in the checkpoint (the place, offsets.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pleach.client.reader import Reader, ReadPosition
from pleach.errors import ConnectError
from pleach.spark.source.offsets import BEGINNING, is_same_session, offset_of, places_in
from pleach.spark.source.options import Share, StreamOptions
from pleach.spark.source.rows import RowSchema, SourceEvent

if TYPE_CHECKING:
    import pyarrow as pa

LOOK_SECONDS_MAX = 1.0  # for a broker that is away: the other partitions go on meanwhile

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
        """What there is when the first batch is planned is the target: before that nobody knows the sessions."""
        self._is_bounded = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        shares = self._options.shares
        places = places_in(start, shares) or self._begin()
        if self._is_bounded and self._target is None:
            self._target = self._reached(places, 0)
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        return offset_of(shares, self._bounded(places, self._reached(places, rows_max)))

    def _begin(self) -> list[ReadPosition]:
        """Subscribe; once, however often Spark asks before it has written the first batch down."""
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
        reader = self._reader(share, min(LOOK_SECONDS_MAX, self._options.patience))
        try:
            here = reader.follow(place) if place.next_broker else place
            further = reader.reach(here, messages_max=rows_max)
        except ConnectError:
            since = self._silent_since.setdefault(share.name, time.monotonic())
            if time.monotonic() - since > self._options.patience:
                raise
            log.warning("%s: %s does not answer; its events come when it is back", share.name, place.broker)
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
        """A broker that cannot be told now is told with the next batch: confirmations say all up to a number."""
        for share, place in zip(self._options.shares, places_in(end, self._options.shares) or (), strict=False):
            try:
                self._reader(share, LOOK_SECONDS_MAX).confirm(place)
            except ConnectError as error:
                log.warning("%s: %s", share.name, error)

    def _reader(self, share: Share, patience: float | None = None) -> Reader:
        patience = self._options.patience if patience is None else patience
        return Reader(share.name, share.addresses, patience=patience)

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
