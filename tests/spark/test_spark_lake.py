"""Tables of a lake as Spark reads them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pleach.errors import LakeError
from pleach.lake import Table, open_run
from pleach.spark.lake import read_table, spark_schema

COLUMNS = {"seed": "int64", "values": "list<double>", "ok": "bool", "run": "string"}


@pytest.fixture
def table(tmp_path):
    return Table(tmp_path, "results", COLUMNS)


def write(table, run, *seeds, finish=True):
    with open_run(table, run, {}) as writer:
        for seed in seeds:
            writer.append_columns({"seed": [seed], "values": [[0.5, 1.5]], "ok": [True], "run": [run]})
        if finish:
            writer.finish()


@pytest.mark.spark
def test_only_what_manifests_vouch_for_is_read(spark, table):
    write(table, "007", 1, 2)
    write(table, "half", 3, finish=False)
    pq.write_table(pa.table({"seed": [9]}), table.folder / "run=007" / "part-00009.parquet")
    rows = read_table(spark, table).orderBy("seed").collect()
    assert [(row.seed, row.values, row.ok, row.run) for row in rows] == [
        (1, [0.5, 1.5], True, "007"),
        (2, [0.5, 1.5], True, "007"),
    ]
    assert read_table(spark, table, unfinished=True).count() == 3


@pytest.mark.spark
def test_some_runs_of_many_and_none_at_all(spark, table):
    assert read_table(spark, table).collect() == []
    write(table, "a", 1)
    write(table, "b", 2)
    assert [row.seed for row in read_table(spark, table, ["b"]).collect()] == [2]
    with pytest.raises(LakeError, match="no finished run 'c'"):
        read_table(spark, table, ["c"])


def test_types_that_a_lake_does_not_know_are_refused():
    assert spark_schema(COLUMNS) == "`seed` bigint, `values` array<double>, `ok` boolean, `run` string"
    with pytest.raises(LakeError, match="of type 'int8' cannot be in a lake"):
        spark_schema({"x": "int8"})
