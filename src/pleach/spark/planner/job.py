"""The planning job: from a lake to the traffic, its tree, a cheaper one, and the plan between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as f

from pleach.core.messages import Node
from pleach.core.optimise.cost import Flow
from pleach.core.optimise.exchange_order import ExchangeOrder
from pleach.core.optimise.prices import Prices
from pleach.core.optimise.reference import lower_bound
from pleach.core.optimise.search import Problem, Rank, SearchEnd, SearchResult, SearchTask, best_of, searched
from pleach.core.optimise.sightings import in_order
from pleach.core.overlay.plans.difference import TreeDifference
from pleach.core.overlay.plans.topology import Topology
from pleach.errors import TraceError
from pleach.scenario.initial_tree import OUTLINE, InitialTree, read_initial_tree, tree_after
from pleach.spark.audit.dataframes import batches_of, kept, rows_of
from pleach.spark.audit.job import partitioned
from pleach.spark.audit.sources import read_records, sources_of
from pleach.spark.job_errors import explained
from pleach.spark.lake import spark_schema
from pleach.spark.planner.options import PlannerOptions
from pleach.trace.records import RecordKind
from pleach.trace.store import trace_files, traces_in

KINDS = tuple(
    kind.value for kind in (RecordKind.PUBLISH, RecordKind.DELIVER, RecordKind.SEND, RecordKind.MOVE, RecordKind.STATE)
)
NEEDED = ("run", "at", "node", "n", "kind", "event", "client", "peer", "message", "detail")
STEPS = ("reading the lake", "counting traffic", "searching")

OnStep = Callable[[str, float], None]  # what, and how much of it is done, from 0 to 1


@dataclass(frozen=True)
class Planned:
    """`yardstick`: the cost with a separate tree per event (S1 §5.6), a lower bound."""

    problem: Problem
    ends: tuple[SearchEnd, ...]  # of all starts
    order: ExchangeOrder
    yardstick: float

    @property
    def events(self) -> float:
        return sum(flow.events for flow in self.problem.flows)


@dataclass(frozen=True)
class TracedTraffic:
    """`tree`: at the end of the runs."""

    flows: tuple[Flow, ...]
    tree: Topology


def traffic_of(
    spark: SparkSession,
    lake: Path,
    runs: Collection[str] = (),
    tree: Topology | None = None,
    on_step: OnStep = lambda _name, _share: None,
) -> TracedTraffic:
    """What the runs tell, all of them if none is named. Raises TraceError where they do not say enough.

    `tree`: where it is known better than from the runs.
    """
    sources = sources_of(trace_files(lake))
    with explained("planning"), partitioned(spark, sum(source.rows for source in sources)):
        on_step(STEPS[0], 0.0)
        records = kept(_chosen(read_records(spark, sources), runs))
        outlines = _outlines(lake, runs)
        known = tree or _tree(outlines, records)
        homes = [(run, who, home) for run, begun in outlines.items() for who, home in sorted(begun.homes.items())]
        on_step(STEPS[1], 0.0)
        flows = flows_in(at_brokers(records, spark.createDataFrame(homes, HOMES_SCHEMA)))
    _refuse_unknown(flows, known)
    return TracedTraffic(flows, known)


def planned(
    spark: SparkSession,
    traffic: TracedTraffic,
    prices: Prices,
    options: PlannerOptions,
    on_step: OnStep = lambda _name, _share: None,
) -> Planned:
    """The best tree that many searches find, and the way to it."""
    problem = Problem(traffic.flows, prices.costs(traffic.tree.brokers), options.degree_max)
    task = SearchTask(problem, traffic.tree, options.seed)
    with explained("the search"):
        ends = searched_on_spark(spark, task, options.starts, lambda done: on_step(STEPS[2], done / options.starts))
    return concluded(task, ends, options)


def concluded(task: SearchTask, ends: Sequence[SearchEnd], options: PlannerOptions) -> Planned:
    best = best_of(end.found for end in ends)
    order = ExchangeOrder.of(task.current, best.tree, task.problem, exchanges_max=options.exchanges_max)
    return Planned(task.problem, tuple(ends), order, lower_bound(task.problem.flows, task.problem.costs))


# What the lake says -------------------------------------------------------------------------------------------------


def _chosen(records: DataFrame, runs: Collection[str]) -> DataFrame:
    """The records that tell of traffic, of clients' brokers, and of the tree."""
    needed = records.where(f.col("kind").isin(*KINDS)).select(*NEEDED)
    return needed.where(f.col("run").isin(*sorted(runs))) if runs else needed


def _outlines(lake: Path, runs: Collection[str]) -> dict[str, InitialTree]:
    """By run; of those that have one."""
    known = {each.run: read_initial_tree(str(each.about.get(OUTLINE, ""))) for each in traces_in(lake).runs()}
    missing = sorted(set(runs) - known.keys())
    if missing:
        raise TraceError(f"{lake}: has no finished run {missing[0]!r}; it has {', '.join(sorted(known)) or 'none'}")
    return {run: begun for run, begun in known.items() if begun and (not runs or run in runs)}


def _tree(outlines: dict[str, InitialTree], records: DataFrame) -> Topology:
    """The one tree that all runs have ended with."""
    if not outlines:
        raise TraceError("the tree of the runs is unknown; give --via or --tree")
    told = records.where((f.col("kind") == RecordKind.STATE.value) & f.col("detail").startswith("operation "))
    notes: dict[str, list[tuple[Node, str]]] = {run: [] for run in outlines}
    for row in told.orderBy("run", "at", "node", "n").select("run", "node", "detail").collect():
        notes.setdefault(row["run"], []).append((row["node"], row["detail"]))
    trees = {run: tree_after(begun, notes[run]) for run, begun in sorted(outlines.items())}
    (first, tree), *others = trees.items()
    for run, other in others:
        if other != tree:
            difference = TreeDifference.of(planned=tree, found=other)
            raise TraceError(
                f"run {run!r} ended with another tree than {first!r} ({difference}); name one (--run), or --tree"
            )
    return tree


def _refuse_unknown(flows: Sequence[Flow], tree: Topology) -> None:
    if not flows:
        raise TraceError("nothing was published in these runs; choose others (--run)")
    for name in sorted({member for flow in flows for member in flow.members} - {*tree.brokers}):
        raise TraceError(f"clients were at broker {name!r}, which is not in the tree; leave that run out (--run)")


# The search over executors, one task per start ------------------------------------------------------------------------


STARTS_PER_CORE = 4  # in one job; progress is reported after each job
COLUMNS = {"number": "int64", "excess": "int64", "cost": "double", "links": "list<string>"}


def searched_on_spark(
    spark: SparkSession, task: SearchTask, starts: int, on_done: Callable[[int], None] = lambda _done: None
) -> list[SearchEnd]:
    """In the order of their numbers. `on_done`: how many there are so far."""
    at_once = STARTS_PER_CORE * spark.sparkContext.defaultParallelism
    ends: list[SearchEnd] = []
    for first in range(0, starts, at_once):
        last = min(first + at_once, starts)
        numbers = spark.range(first, last, 1, last - first)
        rows = numbers.mapInArrow(partial(_carry_out, task), spark_schema(COLUMNS)).collect()
        ends += [_end(task, *row) for row in rows]
        on_done(last)
    return sorted(ends, key=lambda end: end.number)


def _carry_out(task: SearchTask, batches: Iterator[Any]) -> Iterator[Any]:
    return batches_of((_row(searched(task, number)) for (number,) in rows_of(batches)), COLUMNS)


def _row(end: SearchEnd) -> tuple[int, int, float, list[str]]:
    rank, tree = end.found
    return end.number, rank.excess, rank.cost, [name for link in tree.links for name in link]


def _end(task: SearchTask, number: int, excess: int, cost: float, names: list[str]) -> SearchEnd:
    links = zip(names[::2], names[1::2], strict=True)
    return SearchEnd(number, SearchResult(Rank(excess, cost), Topology.of(links, task.current.brokers)))


# Flows: how many events go from which broker to which set of brokers --------------------------------------------------

FROM_CLIENTS = ("Attach", "Publish", "Subscribe", "Unsubscribe")  # messages that go to a client's broker only
HOMES_SCHEMA = "run string, who string, home string"
FLOWS_MAX = 200_000
UNPLACED_SHOWN = 5


def at_brokers(records: DataFrame, homes: DataFrame) -> DataFrame:
    """Publications and deliveries, with the broker at which each took place; null where nothing tells.

    Records of clients do not name a broker. A client starts at its broker in `homes` (HOMES_SCHEMA), and is then at
    the broker that it last moved to or sent a message to, in the order of its own records.
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
