"""Means, intervals and quantiles in SQL, beside values worked out by other means."""

from math import isnan, sqrt
from random import Random
from statistics import fmean, stdev

import pytest
from pyspark.sql import functions as f

from pleach.spark.summaries import student_t, summarise

pytestmark = pytest.mark.spark

SCHEMA = "case string, seed long, metric string, value double"

# Quantiles of Student's distribution at 97.5%, from printed tables.
T_KNOWN = {1: 12.7062, 2: 4.3027, 4: 2.7764, 9: 2.2622, 19: 2.0930, 30: 2.0423, 31: 2.0395, 40: 2.0211, 49: 2.0096}
T_KNOWN |= {60: 2.0003, 99: 1.9842, 100: 1.9840, 999: 1.9623, 100_000: 1.9600}


def test_student_s_quantiles(spark):
    freedoms = spark.createDataFrame([(n,) for n in T_KNOWN], "n long")
    found = {row.n: row.t for row in freedoms.select("n", student_t(f.col("n")).alias("t")).collect()}
    assert found == pytest.approx(T_KNOWN, abs=6e-5)


def test_a_mean_is_that_of_the_seeds_and_quantiles_those_of_all_samples(spark):
    samples = {0: [1.0, 2.0, 3.0], 1: [10.0], 2: [4.0, 4.0]}
    rows = [("c", seed, "m", value) for seed, values in samples.items() for value in values]
    (row,) = summarise(spark.createDataFrame(rows, SCHEMA)).collect()
    means = [2.0, 10.0, 4.0]
    half = 4.302653 * stdev(means) / sqrt(3)
    assert (row.seeds, row.samples) == (3, 6)
    assert row.mean == pytest.approx(fmean(means))
    assert (row.low, row.high) == (pytest.approx(fmean(means) - half), pytest.approx(fmean(means) + half))
    assert (row.minimum, row.p50, row.maximum) == (1.0, 3.5, 10.0)
    assert row.p95 == pytest.approx(8.5)


def test_one_seed_has_no_interval(spark):
    (row,) = summarise(spark.createDataFrame([("c", 0, "m", 5.0)], SCHEMA)).collect()
    assert row.mean == 5.0
    assert isnan(row.low)
    assert isnan(row.high)


def test_the_same_samples_give_the_same_bits_however_they_are_spread(spark):
    draw = Random(1)
    rows = [(f"c{n % 3}", n % 7, "m", draw.lognormvariate(0, 8)) for n in range(500)]
    whole = summarise(spark.createDataFrame(rows, SCHEMA).coalesce(1)).collect()
    for partitions in (3, 8):
        draw.shuffle(rows)
        spread = spark.createDataFrame(rows, SCHEMA).repartition(partitions)
        assert summarise(spread).collect() == whole
    assert [row.case for row in whole] == ["c0", "c1", "c2"]
