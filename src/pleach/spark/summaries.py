"""Summaries of samples: means over seeds with their 95% confidence intervals, quantiles over all samples.

The mean of a case is the mean of its seeds' means, since runs are independent and samples within a run are not; the
interval is Student's for that many seeds. Sums run over sorted values: the same samples give the same bits, however
they are spread over files and partitions.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

POINT = ("case", "metric")  # the key of a summary
QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}

# Student's t, 97.5%, for 1 … 30 degrees of freedom; beyond, the expansion below is right to five places.
T_TABLE = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139),
    *(2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963),
    *(2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272),
)
Z = 1.959963985  # the normal distribution's
T_EXPANSION = (  # Cornish and Fisher: over n, n², n³
    (Z**3 + Z) / 4,
    (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96,
    (3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z) / 384,
)

assert all(a > b for a, b in pairwise((*T_TABLE, Z)))


def summarise(samples: DataFrame) -> DataFrame:
    """From (case, seed, metric, value) to one row per case and metric, in order."""
    return means(samples).join(quantiles(samples), list(POINT)).orderBy(*POINT)


def means(samples: DataFrame) -> DataFrame:
    """Columns seeds, mean, low, high."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - slow to load

    of_seeds = samples.groupBy(*POINT, "seed").agg(_sorted_mean(f.collect_list("value")).alias("mean"))
    lists = of_seeds.groupBy(*POINT).agg(f.array_sort(f.collect_list("mean")).alias("means"))
    centred = lists.withColumn("seeds", f.size("means")).withColumn("mean", _sorted_mean(f.col("means")))
    half = centred.withColumn("half", _half_width(f.col("means"), f.col("mean"), f.col("seeds")))
    return half.select(
        *POINT,
        f.col("seeds").cast("long").alias("seeds"),
        "mean",
        (f.col("mean") - f.col("half")).alias("low"),
        (f.col("mean") + f.col("half")).alias("high"),
    )


def quantiles(samples: DataFrame) -> DataFrame:
    """Columns samples, minimum, p50, p95, p99, maximum. Between two samples a quantile is interpolated."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    return samples.groupBy(*POINT).agg(
        f.count("value").alias("samples"),
        f.min("value").alias("minimum"),
        *(f.percentile("value", f.lit(share)).alias(name) for name, share in QUANTILES.items()),
        f.max("value").alias("maximum"),
    )


def student_t(freedom: Column) -> Column:
    """The 97.5% quantile of Student's distribution with that many degrees of freedom."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    table = f.array(*map(f.lit, T_TABLE))
    expansion = f.lit(Z)
    for power, factor in enumerate(T_EXPANSION, start=1):
        expansion = expansion + f.lit(factor) / f.pow(freedom, f.lit(power))
    return f.when(freedom <= len(T_TABLE), f.get(table, freedom.cast("int") - 1)).otherwise(expansion)


def _sorted_mean(values: Column) -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415

    return f.aggregate(f.array_sort(values), f.lit(0.0), lambda total, value: total + value) / f.size(values)


def _half_width(values: Column, mean: Column, count: Column) -> Column:
    """Of the interval around a mean of sorted values; not a number where there is one value only."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    squares = f.aggregate(values, f.lit(0.0), lambda total, value: total + f.pow(value - mean, f.lit(2.0)))
    freedom = f.greatest(count - 1, f.lit(1))  # Spark may work out both branches: none may divide by zero
    spread = f.sqrt(squares / freedom / count)
    return f.when(count > 1, student_t(freedom) * spread).otherwise(f.lit(float("nan")))
