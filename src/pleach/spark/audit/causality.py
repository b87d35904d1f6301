"""Causal order: the causal past of a client is that of all events that it got, over any number of hops.

This needs a fold over a whole run, not a join: the causal past of an event is known only when all records before it
are read. So the deliveries of a run pass in order through the reference's own `ClientHistory`, one task per run.
Joins and aggregates first remove deliveries that cannot matter, which on most traces are nearly all:

- a *talker* publishes after it has got something; only their events have a past with events of others;
- a *source* is a publisher from whom a talker got something; only of sources can others know;
- a *hearer* gets something from a talker; only hearers, and talkers, can know of what they have not got.

What remains is: to talkers, from talkers, and from sources to hearers. Clients without any talker before them know of a
publisher what they got from it, and what FIFO says is all there is to say. See docs/decisions/0013-audit-on-spark.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pleach.spark.audit.dataframes import batches_of, kept, rows_of
from pleach.spark.audit.findings import Cause, findings, nothing_found
from pleach.spark.audit.publications import SHIFT
from pleach.spark.lake import spark_schema
from pleach.trace.ledger import NEVER, ClientHistory, Mark, Past
from pleach.trace.verdict import Rule

NO_PAST: Past = {}
READ = ["run", "index", "delivery", "client", "publisher", "event", "incarnation", "sequence", "awaited"]
COLUMNS = {"run": "string", "index": "int64", "witness": "string"}


def causal(delivered: DataFrame, tried: DataFrame, settled: DataFrame) -> DataFrame:
    """Deliveries that come after an effect of theirs. `settled` are those that another rule has taken."""
    taken = settled.where(f.col("rule").isNotNull()).select("run", "index")
    others = f.col("real") & (f.col("publisher") != f.col("client"))
    counted = delivered.where(others).join(f.broadcast(taken), ["run", "index"], "left_anti")
    pairs = kept(counted.groupBy("run", "publisher", "client").agg(f.min("index").alias("first")))
    published = tried.where(f.col("attempt").isNotNull())
    talkers = kept(_talkers(pairs, published))
    twins = settled.where(f.col("rule").isNull()).select("run", "publisher", "client")
    if talkers.isEmpty() and twins.isEmpty():
        return nothing_found(delivered.sparkSession)
    chosen = kept(_that_matter(pairs, talkers).union(twins).distinct())
    mattering = counted.join(chosen, ["run", "publisher", "client"], "left_semi")
    found = _folded(mattering, published.join(talkers, ["run", "publisher"], "left_semi"))
    rows = delivered.join(f.broadcast(found), ["run", "index"])
    return findings(rows, Rule.CAUSAL, f.lit(Cause.GOT_EFFECT), other=f.col("witness"))


def _talkers(pairs: DataFrame, published: DataFrame) -> DataFrame:
    """Clients that publish after they got something: run, publisher."""
    got = pairs.groupBy("run", f.col("client").alias("publisher")).agg(f.min("first").alias("first"))
    last = published.groupBy("run", "publisher").agg(f.max("index").alias("last"))
    return got.join(last, ["run", "publisher"]).where(f.col("first") < f.col("last")).select("run", "publisher")


def _that_matter(pairs: DataFrame, talkers: DataFrame) -> DataFrame:
    """The pairs of publisher and client whose deliveries can carry, or contradict, knowledge of others."""
    as_client = talkers.withColumnRenamed("publisher", "client")
    to_talkers = pairs.join(as_client, ["run", "client"], "left_semi").select("run", "publisher", "client")
    from_talkers = pairs.join(talkers, ["run", "publisher"], "left_semi").select("run", "publisher", "client")
    sources = to_talkers.select("run", "publisher").distinct()
    hearers = from_talkers.select("run", "client").distinct()
    between = pairs.join(sources, ["run", "publisher"], "left_semi").join(hearers, ["run", "client"], "left_semi")
    return to_talkers.union(from_talkers).union(between.select("run", "publisher", "client"))


def _folded(mattering: DataFrame, carrying: DataFrame) -> DataFrame:
    """All that matters of a run in one task, in order."""
    awaited = mattering.groupBy("run", f.col("published").alias("index")).agg(f.count("*").alias("awaited"))
    sent = carrying.join(awaited, ["run", "index"]).select(
        "run", "index", f.lit(0).alias("delivery"), f.lit("").alias("client"), *READ[4:]
    )
    got = mattering.withColumn("delivery", f.lit(1)).withColumn("awaited", f.lit(0).cast("bigint")).select(*READ)
    together = sent.union(got)
    return together.repartition("run").sortWithinPartitions("run", "index").mapInArrow(_judged, spark_schema(COLUMNS))


class _Told(NamedTuple):
    event: str
    publisher: str
    mark: Mark
    past: Past


def _judged(batches: Iterator[Any]) -> Iterator[Any]:
    by_run = (of_run for _, of_run in groupby(rows_of(batches), key=itemgetter(0)))
    return batches_of((row for of_run in by_run for row in _breaches(of_run)), COLUMNS)


def _breaches(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str, int, str]]:
    """The rows of one run in order; memory is what clients know, and the events of talkers that are under way."""
    clients: dict[str, ClientHistory] = {}
    under_way: dict[str, tuple[Past, int]] = {}  # what an event carries, and how many are still to get it
    for run, index, delivery, name, publisher, event, incarnation, sequence, awaited in rows:
        whose = name if delivery else publisher
        client = clients.get(whose)
        if client is None:
            client = clients[whose] = ClientHistory(whose)
        if not delivery:
            under_way[event] = (client.current_past(), awaited)
            continue
        mark = (incarnation + SHIFT, sequence + SHIFT)
        if mark <= client.past.get(publisher, NEVER):
            yield run, index, client.learnt_from[publisher]
        client.learn(_Told(event, publisher, mark, _carried(under_way, event)))


def _carried(under_way: dict[str, tuple[Past, int]], event: str) -> Past:
    past, left = under_way.get(event, (NO_PAST, 0))
    if left > 1:
        under_way[event] = (past, left - 1)
    else:
        under_way.pop(event, None)
    return past
