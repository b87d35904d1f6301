"""A query in a process of its own, to be killed: live events into files, from a checkpoint, until it is told to end.

python tests/support/spark/stream_driver.py BROKERS FOLDER        ends with its standard input, once all is read
"""

from __future__ import annotations

import sys

from pleach.spark.session import spark_session
from pleach.spark.source import register


def main(brokers: str, folder: str) -> None:
    spark = spark_session("local[2]", settings={"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"})
    register(spark)
    options = {"brokers": brokers, "name": "driver", "filter": "price >= 50", "split": "region = 'eu'"}
    stream = spark.readStream.format("pleach").options(**options).schema("n bigint").load()
    writer = stream.writeStream.format("json").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(processingTime="100 milliseconds").start(f"{folder}/out")
    sys.stdin.read()
    query.processAllAvailable()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
