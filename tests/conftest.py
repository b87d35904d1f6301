"""What all tests share: one Spark session for the whole run, and modules that are compiled once."""

import os

import pytest

# Where Python may not keep what it compiles, each of the hundreds of processes that tests start compiles the package.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session tuned for small data; tests that take it are marked `spark`, so that others start no JVM."""
    from pleach.spark.session import spark_session  # noqa: PLC0415

    session = spark_session(
        "local[2]",
        app="pleach tests",
        settings={
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",  # compiling costs more than it saves here
            "spark.driver.memory": "1g",
            "spark.driver.defaultJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )
    yield session
    session.stop()
