"""Results between two steps of an audit: computed once, and kept on the executors that computed them."""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame


def kept(rows: DataFrame) -> DataFrame:
    """The rows, computed now. What led to them is forgotten, or every later plan would drag it along."""
    return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
