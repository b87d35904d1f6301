"""Results between two steps of an audit: computed once and cached on executors."""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame


def kept(rows: DataFrame) -> DataFrame:
    """The rows, computed now, without their lineage, which every later plan would repeat."""
    return rows.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
