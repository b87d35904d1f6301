"""Every matching event arrives exactly once, while brokers are re-woven, killed and restarted, and the query too.

The slow ones: pytest tests/spark/test_stream_through_faults.py -m slow -n 0
"""

import json
import os
import signal
import subprocess
from contextlib import contextmanager

import pytest

from pleach.spark.source import register
from support.live.broker_process import chain, eventually, processes
from support.python_process import command, environment
from support.spark.live_load import Load

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


@pytest.mark.slow
@pytest.mark.spark
def test_a_broker_that_leaves_the_tree_sends_the_stream_to_another(spark, tmp_path):
    with processes() as start:
        a, b, c = chain(start, tmp_path, durable=True, extra=("--heartbeat=0.3",))
        query = Query(spark, tmp_path, f"{c.ready['client']},{b.ready['client']}")
        query.start()
        try:
            with Load(a.ready["client"]) as load:
                query.wait_for(50)
                code, said = c.post("/overlay/remove", json.dumps({"broker": "c"}))
                assert code == 200, said
                query.wait_for(50)
                load.stop()
                eventually(lambda: query.check() or len(query.numbers) >= len(load.matching()))
                query.finish()
        finally:
            query.stop()
        assert sorted(query.numbers) == load.matching()
        assert c.wait() == 0


@contextmanager
def driver(brokers, place):
    """A query in a process group of its own, Java and workers included; gone afterwards."""
    asked = command("support.spark.stream_driver", brokers, place)
    with (place / "driver.log").open("ab") as log:
        process = subprocess.Popen(
            asked, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, env=environment()
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdin.close()


def batches_done(place):
    return len(list((place / "checkpoint" / "commits").glob("[0-9]*")))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)  # five drivers in turn, each with a JVM of its own
def test_a_query_that_is_killed_at_any_moment_goes_on_from_its_checkpoint(spark, tmp_path):
    with processes() as start:
        a, b, c = chain(start, tmp_path, durable=True, extra=("--heartbeat=0.3",))
        brokers = ",".join(broker.ready["client"] for broker in (c, b))
        with driver(brokers, tmp_path):
            eventually(lambda: batches_done(tmp_path) > 0, seconds=240)
        with Load(a.ready["client"]) as load:
            for killed in (b, c, None):
                before = batches_done(tmp_path)
                with driver(brokers, tmp_path):
                    eventually(lambda: batches_done(tmp_path) > before + 2, seconds=240)  # noqa: B023
                    if killed is not None:
                        killed.kill()
                        killed.start()
            load.stop()
        with driver(brokers, tmp_path) as process:
            process.stdin.close()
            assert process.wait(240) == 0, (tmp_path / "driver.log").read_text()
        arrived = sorted(row.n for row in spark.read.json(str(tmp_path / "out")).collect())
        assert arrived == load.matching()
