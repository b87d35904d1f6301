"""The audit on Spark says what the reference says, violation by violation, of traces that are wrong in all ways."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pleach.lake.arrow import arrow_type
from pleach.spark.audit.job import audit
from pleach.trace import Rule, VerdictOutcome, judge, read_traces
from pleach.trace.parquet import COLUMNS
from support.spark.traces_with_errors import spoilt
from support.thorough import FACTOR

TRACES = 200 * FACTOR


def table(records):
    return pa.table(
        {name: pa.array([getattr(one, name) for one in records], arrow_type(kind)) for name, kind in COLUMNS.items()}
    )


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Most runs one after the other in a file of many row groups; the rest shuffled, in other people's types."""
    folder = tmp_path_factory.mktemp("spoilt")
    runs = [spoilt(seed) for seed in range(20_000, 20_000 + TRACES)]
    in_order = [record for number, records in enumerate(runs) if number % 5 for record in records]
    pq.write_table(table(in_order), folder / "in-order.parquet", row_group_size=20_000)
    scattered = [record for number, records in enumerate(runs) if not number % 5 for record in records]
    random.Random(1).shuffle(scattered)
    half = len(scattered) // 2
    pq.write_table(table(scattered[:half]), folder / "scattered.parquet")
    pq.write_table(table(scattered[half:]).drop_columns(["peer", "bytes"]), folder / "scattered-foreign.parquet")
    return folder


@pytest.mark.spark
def test_both_oracles_agree_on_every_run_and_violation(spark, traces):
    expected = {run: judge(records) for run, records in read_traces(traces)}
    found = audit(spark, traces).verdicts
    assert [verdict.run for verdict in found] == sorted(expected, key=[one.run for one in found].index)
    for verdict in found:
        assert verdict == expected[verdict.run]
    assert len(expected) == TRACES
    # The traces are worth their name: every rule is broken often, and some runs are of no use.
    assert min(sum(verdict.count(rule) for verdict in expected.values()) for rule in Rule) > TRACES // 20
    outcomes = [verdict.outcome for verdict in expected.values()]
    assert min(outcomes.count(outcome) for outcome in VerdictOutcome) > TRACES // 50
