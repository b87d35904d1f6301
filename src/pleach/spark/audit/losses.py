"""Lost events: owed to a subscription, not delivered to its client by the final drain, and not excused.

publications × subscriptions ──► owed ── got? ──► missed ── why owed? ──► lost
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pleach.spark.audit.dataframes import kept
from pleach.spark.audit.findings import COLUMNS, Cause, nothing_found
from pleach.trace.verdict import Ordering, Rule

REASONS = (Cause.NOT_ENDED, Cause.DRAINED, Cause.OVERTAKEN)  # in order of precedence
KEYS = ["run", "event", "index", "client"]


def losses(
    delivered: DataFrame, tried: DataFrame, subscribed: DataFrame, runs: DataFrame, drains: DataFrame
) -> DataFrame:
    """`runs` has each run's final drain and ordering, `drains` all drains; runs without any are not judged."""
    given = _accepted(delivered, tried, runs)
    missed = kept(_missed(_owed(given, subscribed), delivered))
    if missed.isEmpty():
        return nothing_found(missed.sparkSession)
    excused = missed.where(f.col("ended").isNotNull())
    in_row = excused.where(f.col("ordering") != Ordering.NONE.value)
    reasons = (
        _because(missed.where(f.col("ended").isNull()), Cause.NOT_ENDED)
        .union(_because(_drained(excused, drains), Cause.DRAINED))
        .union(_because(_overtaken(in_row, delivered), Cause.OVERTAKEN))
    )
    # The reference asks the subscriptions in the order of filter and acknowledgement, and takes the first reason.
    rank = f.struct("turn", "turn_index", "rank")
    reason = reasons.groupBy(*KEYS).agg(f.min_by(f.struct("cause", "name"), rank).alias("why"))
    turn = missed.groupBy(*KEYS, "at", "accepted_at", "final").agg(f.min(f.struct("turn", "turn_index")).alias("turns"))
    return (
        turn.join(reason, KEYS)
        .select(
            "run",
            f.lit(Rule.LOST.value).alias("rule"),
            "client",
            "event",
            f.col("why.cause").alias("cause"),
            "index",
            "at",
            f.col("at").alias("published_at"),
            "accepted_at",
            f.lit("").alias("other"),
            f.col("why.name").alias("name"),
            f.col("final").alias("moment"),
            f.col("turns.turn").alias("turn"),
            f.col("turns.turn_index").alias("turn_index"),
        )
        .select(*COLUMNS)
    )


def _because(missed: DataFrame, cause: Cause) -> DataFrame:
    rank = f.lit(REASONS.index(cause)).alias("rank")
    return missed.select(*KEYS, "turn", "turn_index", rank, f.lit(cause).alias("cause"), "name").distinct()


def _accepted(delivered: DataFrame, tried: DataFrame, runs: DataFrame) -> DataFrame:
    """Publications that the network had accepted before the final drain: acknowledged, or delivered once."""
    given_out = (
        delivered.where(f.col("real"))
        .groupBy("run", "event", f.col("published").alias("index"))
        .agg(f.min("index").alias("given"), f.min("at").alias("given_at"))
    )
    known = tried.where(f.col("attempt").isNotNull() & (f.size("matching") > 0)).join(f.broadcast(runs), "run")
    joined = known.join(given_out, ["run", "event", "index"], "left")
    return (
        joined.withColumn("accepted", f.least("acknowledged", "given"))
        .withColumn("accepted_at", f.least("acknowledged_at", "given_at"))
        .where((f.col("accepted") < f.col("final")) & (f.col("index") < f.col("final")))
        .drop("acknowledged")
    )


def _owed(given: DataFrame, subscribed: DataFrame) -> DataFrame:
    """Each publication with each subscription that was acknowledged, matching and not ended when it was published."""
    event = ("run", "event", "index", "at", "publisher", "incarnation", "sequence", "accepted", "accepted_at")
    each = given.withColumn("number", f.explode("matching")).select(*event, "number", "final", "ordering")
    open_then = (f.col("acknowledged") < f.col("index")) & (f.col("index") < f.coalesce("ended", f.lit(1 << 62)))
    wants = f.col("own") | (f.col("publisher") != f.col("client"))
    owed = each.join(f.broadcast(subscribed), ["run", "number"]).where(open_then & wants)
    return (
        owed.withColumn("ended", f.when(f.col("ended") < f.col("final"), f.col("ended")))
        .withColumn("turn", f.col("filter"))
        .withColumn("turn_index", f.col("acknowledged"))
        .withColumn("name", f.when(f.col("name") != "", f.col("name")).otherwise(f.col("filter")))
    )


def _missed(owed: DataFrame, delivered: DataFrame) -> DataFrame:
    got = delivered.where(f.col("real")).select("run", "event", "client", f.col("index").alias("got"))
    missing = owed.join(
        got.hint("shuffle_hash"),
        (owed["run"] == got["run"])
        & (owed["event"] == got["event"])
        & (owed["client"] == got["client"])
        & (got["got"] < owed["final"]),
        "left_anti",
    )
    return missing.drop("own", "acknowledged", "over")


def _drained(excused: DataFrame, drains: DataFrame) -> DataFrame:
    between = (
        (excused["run"] == drains["run"])
        & (excused["accepted"] < drains["drain"])
        & (drains["drain"] < excused["ended"])
    )
    return excused.join(f.broadcast(drains), between, "left_semi")


def _overtaken(excused: DataFrame, delivered: DataFrame) -> DataFrame:
    """Before it ended, the subscription brought the same or a later event of the publisher."""
    later = delivered.where(f.col("real")).select(
        "run",
        "client",
        "publisher",
        "matching",
        f.col("index").alias("got"),
        f.struct("incarnation", "sequence").alias("later"),
    )
    asked = excused.withColumn("mark", f.struct("incarnation", "sequence"))
    after = (
        (f.col("asked") < f.col("got"))
        & (f.col("got") < f.col("ended"))
        & (f.col("later") >= f.col("mark"))
        & f.array_contains("matching", f.col("number"))
    )
    return later.join(f.broadcast(asked), ["run", "client", "publisher"]).where(after)
