"""Live events as a stream: limits, triggers, restarts, and everything that can be wrong."""

from types import MappingProxyType

import pytest
from pyspark.errors import StreamingQueryException

from pleach.client import blocking
from pleach.spark.source import register
from support.live.broker_process import chain, eventually, processes

pytestmark = pytest.mark.spark
NONE = MappingProxyType({})


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    with processes() as start:
        yield chain(start, tmp_path_factory.mktemp("brokers"), durable=True, extra=("--heartbeat=0.3",))


class Stream:
    def __init__(self, spark, brokers, place, name="", options=NONE, **more):
        register(spark)
        addresses = ",".join(broker.ready["client"] for broker in brokers)
        given = {"brokers": addresses, "name": name, "patience": "20", **more, **options}
        self._frame = spark.readStream.format("pleach").options(**given).load()
        self._place = str(place / "checkpoint")
        self.batches = {}

    def run(self):
        """All that there is now; returns it."""
        before = len(self.numbers())
        writer = self._frame.writeStream.foreachBatch(self._take).option("checkpointLocation", self._place)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(60)
        return self.numbers()[before:]

    def _take(self, rows, number):
        self.batches[number] = sorted(int(row.attributes["n"]) for row in rows.collect())

    def numbers(self):
        return [n for number in sorted(self.batches) for n in self.batches[number]]


def publish(broker, *numbers, **attributes):
    with blocking.BlockingClient(broker.ready["client"]) as client:
        for n in numbers:
            client.publish({"n": n, **attributes}, b"payload")


def test_what_was_published_while_nobody_read_is_there_once(spark, brokers, tmp_path):
    stream = Stream(spark, brokers, tmp_path, "pauses", filter="n >= 10")
    assert stream.run() == []  # from here on the brokers keep it
    for first in (0, 20):
        publish(brokers[2], *range(first, first + 20))
        wanted = [n for n in range(first, first + 20) if n >= 10]
        arrived = []
        eventually(lambda: arrived.extend(stream.run()) or len(arrived) >= len(wanted))  # noqa: B023
        assert arrived == wanted
    assert stream.run() == []


def test_a_limit_makes_batches_of_at_most_so_many_rows(spark, brokers, tmp_path):
    stream = Stream(spark, brokers, tmp_path, "limit", filter="n >= 0", maxRowsPerBatch="10")
    stream.run()
    publish(brokers[0], *range(35))
    assert stream.run() == list(range(35))
    assert max(len(batch) for batch in stream.batches.values()) <= 10


def test_rows_have_all_that_an_event_has(spark, brokers, tmp_path):
    stream = Stream(spark, brokers, tmp_path, "columns", filter="n = 77")
    rows = []
    stream._take = lambda frame, _: rows.extend(frame.collect())
    stream.run()
    publish(brokers[0], 77, flag=True)
    eventually(lambda: stream.run() or rows)
    (row,) = rows
    assert row.id == f"{row.publisher}/{row.incarnation}/{row.sequence}"
    assert (row.attributes, bytes(row.payload)) == ({"n": "77", "flag": "true"}, b"payload")


def failure(stream):
    with pytest.raises(StreamingQueryException) as caught:
        stream.run()
    return str(caught.value)


def test_a_second_stream_of_the_same_name_ends_the_first_one_with_a_reason(spark, brokers, tmp_path):
    first = Stream(spark, brokers, tmp_path / "1", "twice", filter="n >= 0")
    first.run()
    Stream(spark, brokers, tmp_path / "2", "twice", filter="n >= 0").run()
    assert "another of this name has come since" in failure(first)


def test_another_filter_than_the_checkpoints_is_refused(spark, brokers, tmp_path):
    Stream(spark, brokers, tmp_path, "changed", filter="n >= 0").run()
    assert "filter or split are not those" in failure(Stream(spark, brokers, tmp_path, "changed", filter="n >= 1"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"filter": "n >"}, "column 4"),
        ({"brokers": "127.0.0.1:1", "patience": "0"}, "no broker answers (127.0.0.1:1"),
    ],
)
def test_bad_options_say_what_is_wrong(spark, brokers, tmp_path, options, said):
    stream = Stream(spark, brokers, tmp_path, options={"name": "bad", **options})
    assert said in failure(stream)
