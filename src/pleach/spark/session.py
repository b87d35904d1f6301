"""The one place that makes Spark sessions.

Rule 1: what the JVM must know when it starts (Java, memory, addresses, logging) is settled before the first session;
        the JVM outlives `stop()`.
Rule 2: a session is never changed behind the back of whoever uses it: another master needs another session.
Rule 3: on one machine nothing listens to the outside.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pleach.errors import MissingPartError, SettingsError, SparkError
from pleach.spark.java import find_java, java_home_for_spark
from pleach.spark.package_zip import package_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
DRIVER_MEMORY_MAX_MB = 8_192
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
QUIET_AND_PLAIN = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",  # where a file has checksums
}
FIRST_LINES = 3  # of what Spark says when it cannot start


def spark_session(
    master: str = "local[*]", *, app: str = "pleach", settings: Mapping[str, str] = NO_SETTINGS
) -> SparkSession:
    """A session on `master`; the one that is there, if it is on the same master.

    `settings` are Spark's own, and win over ours. They count for a new session only.
    """
    sql = load_spark()
    running = sql.SparkSession.getActiveSession()
    if running is not None:
        return _checked(running, master)
    builder = sql.SparkSession.builder.appName(app).master(master)
    for name, value in {**default_settings(master), **settings}.items():
        builder = builder.config(name, value)
    with _environment(_java_environment(master)):
        session: SparkSession = _started(builder, master)
    if not is_local(master):
        session.sparkContext.addPyFile(str(package_zip()))
    return session


def load_spark() -> Any:
    """`pyspark.sql`, or MissingPartError with the command that brings it."""
    try:
        import pandas as pd  # noqa: F401, PLC0415 optional parts, and slow to load
        import pyarrow as pa  # noqa: F401, PLC0415
        from pyspark import sql  # noqa: PLC0415
    except ImportError as error:
        raise MissingPartError(f"{error.name} is not installed: pip install 'pleach[spark]'") from None
    return sql


def is_local(master: str) -> bool:
    """Everything in one process: no executors to which anything would have to be shipped."""
    return master == "local" or master.startswith("local[")


def default_settings(master: str) -> dict[str, str]:
    logging = f"-Dlog4j2.configurationFile={(Path(__file__).with_name('log4j2.properties')).as_uri()}"
    chosen = {
        **QUIET_AND_PLAIN,
        "spark.driver.memory": f"{_driver_memory_mb()}m",
        "spark.driver.extraJavaOptions": logging,
        "spark.pyspark.python": sys.executable,
    }
    if _on_this_machine(master):
        chosen |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return chosen


def _on_this_machine(master: str) -> bool:
    return master.startswith("local") or f"//{LOOPBACK}:" in master or "//localhost:" in master


def _driver_memory_mb() -> int:
    """Half of the machine, up to a bound that an audit of 20 million deliveries is at ease with."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    return min(physical // 2, DRIVER_MEMORY_MAX_MB)


def _java_environment(master: str) -> dict[str, str]:
    chosen = {"JAVA_HOME": str(java_home_for_spark(find_java())), "PYSPARK_PYTHON": sys.executable}
    if _on_this_machine(master):
        chosen["SPARK_LOCAL_IP"] = LOOPBACK
    return chosen


@contextmanager
def _environment(chosen: Mapping[str, str]) -> Iterator[None]:
    """Spark reads these while it starts; other children of this process keep what the user has set."""
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _started(builder: Any, master: str) -> Any:
    try:
        return builder.getOrCreate()
    except Exception as error:  # whatever a JVM, a gateway or a cluster can come up with
        said = " ".join(str(error).splitlines()[:FIRST_LINES])
        raise SparkError(
            f"no Spark session on master {master!r}: {said}; `pleach doctor` says what is installed, "
            "and --master local[*] works without a cluster"
        ) from error


def _checked(running: SparkSession, master: str) -> SparkSession:
    found = running.sparkContext.master
    if found != master:
        raise SettingsError("master", f"this process has a session on {found} already", f"stop it, or use {found}")
    return running
