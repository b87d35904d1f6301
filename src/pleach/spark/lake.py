"""The lake in Spark: the files that manifests list, read with the declared schema of their table.

Spark reads files, not folders: other files in a folder are ignored, and names of runs come from rows, not from paths.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from pleach.errors import LakeError
from pleach.lake import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPARK_TYPES = {"string": "string", "int64": "bigint", "double": "double", "bool": "boolean", "binary": "binary"}


def spark_schema(columns: Mapping[str, str]) -> str:
    """The declared columns in Spark's spelling."""
    return ", ".join(f"`{name}` {_spark_type(kind)}" for name, kind in columns.items())


def read_table(
    spark: SparkSession, table: Table, runs: Collection[str] | None = None, *, unfinished: bool = False
) -> DataFrame:
    """The rows of these runs, or of all that are finished; raises LakeError if a file differs from its manifest."""
    files = table.files(runs, unfinished=unfinished)
    reader = spark.read.schema(spark_schema(table.columns))
    if not files:
        return spark.createDataFrame([], spark_schema(table.columns))
    return reader.parquet(*map(str, files))


def _spark_type(kind: str) -> str:
    if kind.startswith("list<"):
        return f"array<{_spark_type(kind.removeprefix('list<').removesuffix('>'))}>"
    if kind not in SPARK_TYPES:
        raise LakeError(f"a column of type {kind!r} cannot be in a lake; {', '.join(SPARK_TYPES)} and lists can")
    return SPARK_TYPES[kind]
