"""Rows as events: each row of a batch once, however often the batch is done."""

import json
import shutil
import threading

import pytest
from pyspark.errors import PySparkException

from pleach.client.reader import Reader
from pleach.core.events.language import parse_filter
from pleach.net.addresses import parse_addresses
from pleach.spark.source import register
from support.live.broker_process import BrokerProcess, eventually, processes

pytestmark = pytest.mark.spark

EVERYTHING = parse_filter("TRUE")


class Taker:
    """Sees everything that is published at a broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._reader = Reader("taker", parse_addresses(broker.ready["client"]), patience=20.0)
        self._place = self._reader.subscribe(EVERYTHING, 1)
        self.events = []

    def look(self):
        further = self._reader.reach(self._place)
        for run in self._reader.events(further, self._place.at, further.at):
            self.events += run
        self._place = further
        return self.events

    def numbers(self):
        return sorted(event.attributes["n"] for event in self.look())


@pytest.fixture
def broker(tmp_path):
    with processes() as start:
        yield start("a", tmp_path, durable=True)


@pytest.fixture
def taker(broker):
    return Taker(broker)


def options(broker, **more):
    return {"brokers": broker.ready["client"], "name": "sink", "patience": "20", **more}


def test_rows_are_published_with_their_types(spark, broker, taker):
    register(spark)
    frame = spark.sql(
        "SELECT 7L AS n, 2.5D AS price, true AS is_new, 'IBM' AS symbol, CAST(NULL AS STRING) AS none, "
        "CAST('raw' AS BINARY) AS payload, map('region', 'eu') AS attributes"
    )
    frame.write.format("pleach").options(**options(broker)).mode("append").save()
    (event,) = taker.look()
    assert event.attributes == {"n": 7, "price": 2.5, "is_new": True, "symbol": "IBM", "region": "eu"}
    assert (event.payload, event.id.publisher) == (b"raw", "sink.0")


def test_every_partition_publishes_each_row_once_and_a_second_save_publishes_again(spark, broker, taker):
    register(spark)
    frame = spark.range(0, 1_000, 1, 3).withColumnRenamed("id", "n")
    for times in (1, 2):
        frame.write.format("pleach").options(**options(broker)).mode("append").save()
        assert taker.numbers() == sorted(times * list(range(1_000)))


def run_batches(spark, broker, place, rows):
    """A stream over files: one batch per file, to the end."""
    source = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 1).json(str(place / "in"))
    writer = source.writeStream.format("pleach").options(**options(broker))
    query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination(60)
    assert query.exception() is None


def test_a_batch_that_is_done_again_after_it_was_published_publishes_nothing(spark, broker, taker, tmp_path):
    register(spark)
    (tmp_path / "in").mkdir()
    for number in range(2):
        rows = "\n".join(json.dumps({"n": 100 * number + n}) for n in range(100))
        (tmp_path / "in" / f"{number}.json").write_text(rows)
    run_batches(spark, broker, tmp_path, 200)
    assert taker.numbers() == list(range(200))
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    for kept in (tmp_path / "checkpoint" / "commits").glob(f"*{commits[-1].name}*"):
        kept.unlink()  # as if the driver had died before it wrote down that the last batch is done
    run_batches(spark, broker, tmp_path, 200)
    assert taker.numbers() == list(range(200))
    (tmp_path / "in" / "2.json").write_text('{"n": 200}')
    run_batches(spark, broker, tmp_path, 201)
    assert taker.numbers() == list(range(201))
    shutil.rmtree(tmp_path / "checkpoint")
    run_batches(spark, broker, tmp_path, 201)  # another query: other work
    assert taker.numbers() == sorted(2 * list(range(201)))


def test_a_broker_that_is_killed_during_the_write_has_each_row_once(spark, broker, taker):
    register(spark)
    frame = spark.range(0, 60_000, 1, 2).withColumnRenamed("id", "n")

    def kill_in_the_middle():
        eventually(lambda: len(taker.look()) > 2_000)
        broker.kill()
        broker.start()

    killing = threading.Thread(target=kill_in_the_middle)
    killing.start()
    frame.write.format("pleach").options(**options(broker)).mode("append").save()
    killing.join()
    assert taker.numbers() == list(range(60_000))


@pytest.mark.parametrize(
    ("query", "more", "said"),
    [
        ("SELECT double('NaN') AS price", {}, "row 1 of partition 0 of the write cannot be published"),
        ("SELECT now() AS at", {}, "cast it to a string"),
        ("SELECT 1 AS n", {"brokers": "127.0.0.1:1", "patience": "0"}, "no broker answers"),
    ],
)
def test_what_cannot_be_published_says_why_and_nothing_is(spark, broker, taker, query, more, said):
    register(spark)
    writer = spark.sql(query).write.format("pleach").options(**options(broker, **more)).mode("append")
    with pytest.raises(PySparkException, match=said):
        writer.save()
    assert taker.look() == []
