"""Jobs on Spark: sessions, the lake of traces and results, campaigns, audits, streams.

Imports any room below it: client/ for streams, operate/ for the control loop, trace/, lake/ and core/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def events(spark: SparkSession, path: str, *, filter: str = "TRUE") -> DataFrame:  # noqa: A002 - as the option is named
    """Recorded events that match a filter, filtered at the source."""
    from pleach.spark import source  # noqa: PLC0415 pyspark is slow to load, and optional

    return source.events(spark, path, filter=filter)
