"""Recorded events through Spark: what does not match stays in the source, and no use of a DataFrame spoils another."""

import pytest
from pyspark.errors import PySparkException

from pleach.spark.source import events, register
from pleach.spark.source.options import batch_options
from pleach.spark.source.register import BatchReader, PleachSource
from pleach.trace import Record, write_trace

pytestmark = pytest.mark.spark

COUNT = 200


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Two runs, each with other records among the events."""
    place = tmp_path_factory.mktemp("lake")
    for run in ("r1", "r2"):
        records = [
            Record(run, float(n), "p", n, kind, event=f"p/0/{n}", attributes=f'{{"price":{n % 100},"kind":"{kind}"}}')
            for n in range(1, COUNT + 1)
            for kind in ("publish", "publish_ack")
        ]
        write_trace(records, place, run)
    return str(place)


def prices(frame):
    return sorted(int(row.attributes["price"]) for row in frame.collect())


def expected(threshold):
    return sorted(2 * [n % 100 for n in range(1, COUNT + 1) if n % 100 > threshold])


def test_events_that_match_with_all_that_is_recorded_of_them(spark, lake):
    frame = events(spark, lake, filter="price > 97")
    assert prices(frame) == expected(97)
    row = frame.orderBy("run", "at").first()
    assert (row.run, row.at, row.id, row.publisher, row.incarnation, row.sequence) == ("r1", 98.0, "p/0/98", "p", 0, 98)
    assert row.attributes == {"price": "98", "kind": "publish"}


def test_only_what_matches_leaves_the_source(spark, lake):
    register(spark)
    schema = spark.createDataFrame([], "price double").schema
    reader = BatchReader(batch_options({"path": lake, "filter": "price > 97"}), schema)
    left = [row["price"] for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert sorted(left) == expected(97)
    assert len(left) == 8 < 4 * COUNT


def test_spark_sees_no_more_rows_than_match(spark, lake):
    frame = events(spark, lake, filter="price > 97")
    plan = frame._jdf.queryExecution().executedPlan()
    frame._jdf.queryExecution().toRdd().count()
    scan = plan.collectLeaves().head()
    assert scan.metrics().apply("numOutputRows").value() == 8


def test_columns_of_the_users_choice(spark, lake):
    register(spark)
    frame = spark.read.format("pleach").schema("price double, kind string, sequence bigint, absent boolean").load(lake)
    assert frame.filter("price = 99").select("kind", "absent").distinct().collect() == [("publish", None)]
    assert frame.filter("sequence = 150").first().price == 50.0


def test_a_frame_that_is_used_twice_gives_the_right_rows_each_time(spark, lake):
    frame = events(spark, lake, filter="price > 90")
    narrow = frame.filter("cast(attributes['price'] as int) > 95")
    for _ in range(2):
        assert prices(narrow) == expected(95)
        assert prices(frame) == expected(90)
    frame.createOrReplaceTempView("recorded")
    assert spark.sql("SELECT count(*) AS n FROM recorded WHERE sequence > 195").first().n == 8
    assert spark.sql("SELECT count(*) AS n FROM recorded").first().n == len(expected(90))
    assert prices(events(spark, lake, filter="price > 98")) == expected(98)


def test_nothing_is_pushed_down_behind_the_users_back():
    """Spark keeps the first plan: rows of a second use would be missing."""
    assert "pushFilters" not in vars(BatchReader)
    assert PleachSource.name() == "pleach"


@pytest.mark.parametrize(
    ("path", "options", "said"),
    [
        ("lake", {"filter": "price >"}, "column 8"),
        ("lake", {"colour": "red"}, "no such option here"),
        ("missing", {}, "there is no such file or folder"),
    ],
)
def test_bad_input_says_what_is_wrong(spark, lake, path, options, said):
    register(spark)
    with pytest.raises(PySparkException, match=said):
        spark.read.format("pleach").options(**options).load(lake if path == "lake" else path).collect()
