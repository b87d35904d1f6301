"""Flows: how many events go from which broker to which set of brokers, counted over all events of a trace.

Records of clients do not name a broker. A client starts at the broker of the run's outline, and is then at the broker
that it last moved to or sent a message to, in the order of its own records.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as f

from pleach.core.optimise.cost import Flow
from pleach.core.optimise.sightings import in_order
from pleach.errors import TraceError
from pleach.trace.records import RecordKind

FROM_CLIENTS = ("Attach", "Publish", "Subscribe", "Unsubscribe")  # messages that go to a client's broker only
HOMES_SCHEMA = "run string, who string, home string"
FLOWS_MAX = 200_000
UNPLACED_SHOWN = 5


def at_brokers(records: DataFrame, homes: DataFrame) -> DataFrame:
    """Publications and deliveries, with the broker at which each took place; null where nothing tells.

    `homes`: where clients begin, by HOMES_SCHEMA.
    """
    who = f.when(f.col("client") != "", f.col("client")).otherwise(f.col("node"))
    rows = records.select("run", who.alias("who"), "n", "kind", "event", _home().alias("home"))
    needed = rows.where(_is_kind(RecordKind.PUBLISH, RecordKind.DELIVER) | f.col("home").isNotNull())
    begun = homes.select("run", "who", f.lit(0).alias("n"), f.lit("").alias("kind"), f.lit("").alias("event"), "home")
    so_far = Window.partitionBy("run", "who").orderBy("n").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    placed = needed.unionByName(begun).withColumn("broker", f.last("home", ignorenulls=True).over(so_far))
    return placed.where(_is_kind(RecordKind.PUBLISH, RecordKind.DELIVER)).select(
        "run", "event", "kind", "who", "broker"
    )


def _home() -> Column:
    """What a record says of where its client is from now on; null for most."""
    moved = f.regexp_extract("detail", r"^from .* to (.*)$", 1)
    to_broker = _is_kind(RecordKind.SEND) & f.col("message").isin(*FROM_CLIENTS)
    return f.when(_is_kind(RecordKind.MOVE), moved).when(to_broker, f.col("peer"))


def _is_kind(*kinds: RecordKind) -> Column:
    return f.col("kind").isin(*(kind.value for kind in kinds))


def by_event(placed: DataFrame) -> DataFrame:
    """Of every event that was published: the publisher's broker, and the others where it was delivered, sorted."""
    published = f.when(_is_kind(RecordKind.PUBLISH), f.col("broker"))
    delivered = f.when(_is_kind(RecordKind.DELIVER), f.col("broker"))
    events = placed.groupBy("run", "event").agg(
        f.max(published).alias("publisher"), f.collect_set(delivered).alias("consumers")
    )
    others = f.array_sort(f.array_remove("consumers", f.col("publisher")))
    return events.where(f.col("publisher").isNotNull()).select("run", "event", "publisher", others.alias("subscribers"))


def counted(events: DataFrame) -> DataFrame:
    """Events that go from one broker to the same others, together."""
    return events.groupBy("publisher", "subscribers").agg(f.count("*").alias("events"))


def flows_in(placed: DataFrame) -> tuple[Flow, ...]:
    """All flows, in an order of their own. Raises TraceError where they cannot be known."""
    _refuse_unplaced(placed)
    rows = placed.transform(by_event).transform(counted).limit(FLOWS_MAX + 1).collect()
    if len(rows) > FLOWS_MAX:
        raise TraceError(f"more than {FLOWS_MAX:,} sets of brokers share events; plan from fewer runs (--run)")
    return tuple(sorted(map(_flow, rows), key=in_order))


def _flow(row: Row) -> Flow:
    return Flow(row["publisher"], frozenset(row["subscribers"]), float(row["events"]))


def _refuse_unplaced(placed: DataFrame) -> None:
    lost = placed.where(f.col("broker").isNull()).select("run", "who").distinct()
    found = lost.orderBy("run", "who").limit(UNPLACED_SHOWN).collect()
    if found:
        names = ", ".join(f"{row['who']} (run {row['run']})" for row in found)
        raise TraceError(f"the broker of these clients is unknown: {names}; record sends, or leave the run out")
