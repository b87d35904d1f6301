"""Every matching event arrives exactly once, while brokers are re-woven, killed and restarted, and the query too."""

import json

import pytest
from broker_process import chain, eventually, processes
from live_load import Load

from pleach.spark.source import register

FILTER = "price >= 50"
SPLIT = "region = 'eu'; region = 'us'"


class Query:
    """A stream into a table of batches: one that is done again takes the place of the former."""

    def __init__(self, spark, place, brokers, **options):
        register(spark)
        given = {"brokers": brokers, "name": "stream", "filter": FILTER, **options}
        self._stream = spark.readStream.format("pleach").options(**given).schema("n bigint, region string").load()
        self._checkpoint = str(place / "checkpoint")
        self._batches = {}
        self._query = None

    @property
    def numbers(self):
        return [n for batch in list(self._batches.values()) for n in batch]

    def start(self):
        writer = self._stream.writeStream.foreachBatch(self._take).option("checkpointLocation", self._checkpoint)
        self._query = writer.trigger(processingTime="100 milliseconds").start()
        eventually(lambda: self.check() or self._batches)  # the first one is there once the network knows the stream

    def _take(self, rows, number):
        self._batches[number] = [row.n for row in rows.collect()]

    def stop(self):
        self._query.stop()
        self._query.awaitTermination(60)

    def finish(self):
        """All that there is, and nothing twice that would come later."""
        self._query.processAllAvailable()
        self.stop()

    def wait_for(self, more):
        wanted = len(self.numbers) + more
        eventually(lambda: self.check() or len(self.numbers) >= wanted)

    def check(self):
        if not self._query.isActive:
            raise self._query.exception()


@pytest.mark.spark
def test_every_matching_event_arrives_once_through_a_swap_a_kill_and_a_restart(spark, tmp_path):
    with processes() as start:
        a, b, c = chain(start, tmp_path, durable=True, extra=("--heartbeat=0.3",))
        brokers = ",".join(broker.ready["client"] for broker in (b, c, a))
        query = Query(spark, tmp_path, brokers, split=SPLIT)
        query.start()
        try:
            with Load(a.ready["client"]) as load:
                query.wait_for(50)
                code, said = a.post("/overlay/swap", json.dumps({"a": "a", "b": "b", "c": "c"}))
                assert code == 200, said
                query.wait_for(50)
                b.kill()
                load.wait_for(100)
                b.start()
                query.wait_for(100)
                query.stop()
                load.wait_for(200)
                query.start()
                query.wait_for(100)
                c.kill()
                c.start()
                query.wait_for(50)
                load.stop()
                eventually(lambda: query.check() or len(query.numbers) >= len(load.matching()))
                query.finish()
        finally:
            query.stop()
        assert sorted(query.numbers) == load.matching()
