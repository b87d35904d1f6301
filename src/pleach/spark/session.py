"""Spark sessions.

Rule 1: settings of the JVM (Java, memory, addresses, logging) are fixed before the first session; the JVM survives
        `stop()`.
Rule 2: a session in use is never changed: another master needs another session.
Rule 3: on one machine all ports are on loopback.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pleach
from pleach.errors import MissingPartError, SettingsError, SparkError
from pleach.lake.manifest import write_whole
from pleach.spark.java import cache_folder, find_java, java_home_for_spark

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

    `settings` are Spark's own, and override ours. They apply to new sessions only.
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
    """Whether Spark runs in one process, without executors that need the package."""
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
    """Half of the memory, up to a bound that suffices for 20 million deliveries."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    return min(physical // 2, DRIVER_MEMORY_MAX_MB)


def _java_environment(master: str) -> dict[str, str]:
    chosen = {"JAVA_HOME": str(java_home_for_spark(find_java())), "PYSPARK_PYTHON": sys.executable}
    if _on_this_machine(master):
        chosen["SPARK_LOCAL_IP"] = LOOPBACK
    return chosen


@contextmanager
def _environment(chosen: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the start of Spark only; other child processes keep those of the user."""
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
    except Exception as error:  # of the JVM, the gateway or the cluster
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


# The sources of the package, which Spark copies to executors ----------------------------------------------------------


SHIPPED_SUFFIXES = frozenset({".py", ".toml", ".properties"})
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip can name: equal sources give equal bytes


def package_zip() -> Path:
    """A zip with this package, named after its content; made once per version of the sources."""
    root = Path(pleach.__file__).parent
    content = _zipped(root)
    path = cache_folder() / f"sources-{hashlib.sha256(content).hexdigest()[:16]}" / "pleach-sources.zip"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    return path


def _zipped(root: Path) -> bytes:
    sources = sorted(path for path in root.rglob("*") if path.suffix in SHIPPED_SUFFIXES)
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sources:
            name = (Path(root.name) / path.relative_to(root)).as_posix()
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return memory.getvalue()
