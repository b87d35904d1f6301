"""Traces of any length, made by Spark as fast as it can count: right by construction, with errors where wanted.

Time goes in slots. In slot s event s is published and acknowledged, and each seat's client gets the event that was
published LAGS[seat] slots before:

    slot s │ publish s │ publish_ack s │ seat 0 gets s - LAGS[0] │ seat 1 gets s - LAGS[1] │ …

Events go round among the publishers, and in blocks of as many among the topics. Each topic has a group of clients, one
in each seat; the one in seat 0 is a publisher itself, so that knowledge travels. A seat's lag never changes, so that
what is published later comes later: the trace is in causal order. Each row follows from its number; nothing is sorted.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from pleach.lake import WriteMode, code_version, open_run
from pleach.trace.parquet import COLUMNS
from pleach.trace.store import About, traces_in
from pleach.trace.verdict import Rule

SEATS = 10
TOPICS = 16
PUBLISHERS = 8
ROUND = TOPICS * PUBLISHERS  # slots after which publisher and topic come together again
LAGS = (100, *(137 + 3 * seat for seat in range(1, SEATS)))  # seat 0 learns of an event before the next round
SETTING_UP = 2 * SEATS * TOPICS  # records: each client subscribes, and is answered
WIDTH = 2 + SEATS  # records per slot
PRICES = 997
ROWS_PER_FILE = 2_000_000
SPOILT_SEAT = 1

# What one error of each sort brings, given the lags: each early event tells its client of six others, too.
PER_ERROR = {Rule.LOST: 3, Rule.DUPLICATE: 1, Rule.SPURIOUS: 1, Rule.FIFO: 1, Rule.CAUSAL: 13}


@dataclass(frozen=True)
class LongTrace:
    run: str
    slots: int
    errors: int = 0  # of each sort

    @property
    def rows(self) -> int:
        return SETTING_UP + (self.slots + max(LAGS) + 1) * WIDTH + 1

    def victims(self, sort: int) -> list[int]:
        """The events at which errors of a sort are planted: the second of a block of topic 0, all far apart."""
        rounds = (self.slots - 3 * ROUND) // ROUND
        step = rounds // (len(SORTS) * self.errors) if self.errors else 0
        assert step >= 2 or not self.errors, "a trace too short for so many errors"
        return [(number * len(SORTS) + sort) * step * ROUND + ROUND + 1 for number in range(self.errors)]


def write_long_traces(spark: SparkSession, lake: Path, *, deliveries: int, runs: int, errors: int = 0) -> None:
    """Runs with so many deliveries in all, and so many errors of each sort in each run."""
    lake.mkdir(parents=True, exist_ok=True)
    for number in range(runs):
        trace = LongTrace(f"long-{number}", deliveries // runs // SEATS, errors)
        scratch = Path(tempfile.mkdtemp(dir=lake, prefix=".long-"))
        try:
            records_of(spark, trace).write.mode("overwrite").parquet(str(scratch))
            about: About = {"scenario": "long trace", "seed": number, "code": code_version()}
            with open_run(traces_in(lake), trace.run, about, WriteMode.REPLACE) as writer:
                writer.adopt(sorted(scratch.glob("*.parquet")))
                writer.finish()
        finally:
            shutil.rmtree(scratch)


def records_of(spark: SparkSession, trace: LongTrace) -> DataFrame:
    """The records in their order, over as many partitions as it takes."""
    rows = spark.range(0, trace.rows, 1, max(1, trace.rows // ROWS_PER_FILE))
    row = f.col("id")
    slot, what = f.floor((row - SETTING_UP) / WIDTH), (row - SETTING_UP) % WIDTH
    lag = f.element_at(f.array(*map(f.lit, LAGS)), f.greatest(f.col("seat") + 1, f.lit(1)).cast("int"))
    placed = (
        rows.withColumn("what", f.when(row < SETTING_UP, row % 2).when(row == trace.rows - 1, -1).otherwise(what + 2))
        .withColumn("seat", f.when(row < SETTING_UP, f.floor(row / 2) % SEATS).otherwise(what - 2))
        .withColumn("due", f.when(f.col("what") > 3, slot - lag).otherwise(slot))
        .withColumn("number", _spoilt(trace, f.col("due"), f.col("seat")))
        .withColumn("topic", f.floor(f.col("number") / PUBLISHERS) % TOPICS)
        .withColumn("group", _group(trace))
    )
    return placed.where(_happens(trace)).select(*_columns(trace))


def _happens(trace: LongTrace) -> Column:
    """Whether a row is there at all: the event exists, the seat wants it, and nobody took it away."""
    exists = f.col("due").between(0, trace.slots - 1)
    wanted = (f.col("what") <= 3) | (f.col("due") % PRICES >= f.floor(f.col("seat") / 2))
    kept = ~(_spoilt_at(trace.victims(SORTS.index("lost"))) & (f.col("what") > 3))
    return (f.col("what") < 2) | (exists & wanted & kept)


def _group(trace: LongTrace) -> Column:
    """The group of a delivery's client: that of the topic, unless the event is misdirected."""
    setting_up = f.floor(f.col("id") / (2 * SEATS))
    astray = _spoilt_at(trace.victims(SORTS.index("misdirected"))) & (f.col("what") > 3)
    return f.when(f.col("id") < SETTING_UP, setting_up).otherwise((f.col("topic") + astray.cast("int")) % TOPICS)


def _spoilt_at(events: list[int]) -> Column:
    return f.col("due").isin(events) & (f.col("seat") == SPOILT_SEAT)


def _spoilt(trace: LongTrace, due: Column, seat: Column) -> Column:
    """The event that is delivered where `due` should be."""
    given = due
    for sort, distance, both in (
        ("doubled", ROUND, False),
        ("overtaken", ROUND, True),
        ("effect first", ROUND - 1, True),
    ):
        victims = trace.victims(SORTS.index(sort))
        others = [victim + distance for victim in victims]
        given = f.when(due.isin(others) & (seat == SPOILT_SEAT), due - distance).otherwise(given)
        if both:
            given = f.when(due.isin(victims) & (seat == SPOILT_SEAT), due + distance).otherwise(given)
    return f.when(f.col("what") > 3, given).otherwise(due)


SORTS = ("lost", "misdirected", "doubled", "overtaken", "effect first")


def _columns(trace: LongTrace) -> list[Column]:
    kinds = f.array(*map(f.lit, ("subscribe", "subscribe_ack", "publish", "publish_ack")))
    what, topic = f.col("what"), f.col("topic")
    kind = f.when(what == -1, "drain").when(what > 3, "deliver").otherwise(f.element_at(kinds, (what + 1).cast("int")))
    subscribing, is_event = what.isin(0, 1), what > 1
    publisher = f.concat(f.lit("p"), f.col("number") % PUBLISHERS)
    seated = f.when(f.col("seat") == 0, f.concat(f.lit("p"), f.col("group") % PUBLISHERS)).otherwise(
        f.concat(f.lit("c"), f.col("group"), f.lit("-"), f.col("seat"))
    )
    who = f.when(what == -1, "").when(what.isin(2, 3), publisher).otherwise(seated)
    event = f.concat(publisher, f.lit("/0/"), f.floor(f.col("number") / PUBLISHERS) + 1)
    wanted = f.concat(f.lit("topic = 't"), f.col("group"), f.lit("' AND price >= "), f.floor(f.col("seat") / 2))
    attributes = f.concat(f.lit('{"price":'), f.col("number") % PRICES, f.lit(',"topic":"t'), topic, f.lit('"}'))
    given = {
        "run": f.lit(trace.run),
        "at": f.col("id") / 1000.0,
        "node": who,
        "n": f.col("id"),
        "kind": kind,
        "event": f.when(is_event, event),
        "client": who,
        "subscription": f.when(subscribing, f.concat(f.lit("s"), f.col("group"))),
        "filter": f.when(what == 0, wanted),
        "attributes": f.when(is_event & (what != 3), attributes),
    }
    return [_column(name, kind, given) for name, kind in COLUMNS.items()]


def _column(name: str, kind: str, given: dict[str, Column]) -> Column:
    if kind == "int64":
        return given.get(name, f.lit(0)).cast("bigint").alias(name)
    return (
        given[name].alias(name) if kind == "double" else f.coalesce(given.get(name, f.lit("")), f.lit("")).alias(name)
    )
