"""The audit on Spark: speed, growth with the length of the trace, and memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from pleach.bench.measurement import Measurement

RUNS = 4
TENFOLD = 10
LINEAR = 0.8  # of the speed that it has on a tenth
MEMORY_MB_MAX = 16_384


def run(*, quick: bool, seed: int) -> Iterator[Measurement]:  # noqa: ARG001 the same trace each time
    from pleach.spark.session import load_spark, spark_session  # noqa: PLC0415 an optional part, and slow to load

    load_spark()
    from pleach.bench.long_traces import write_long_traces  # noqa: PLC0415

    spark = spark_session()
    large, errors = (500_000, 1) if quick else (20_000_000, 3)
    seconds = {}
    with tempfile.TemporaryDirectory(prefix="pleach-bench-") as scratch:
        for deliveries in (large // TENFOLD, large):
            lake = Path(scratch) / str(deliveries)
            write_long_traces(spark, lake, deliveries=deliveries, runs=RUNS, errors=errors)
            seconds[deliveries] = _judged(spark, lake, errors)
    case = f"{large:,} deliveries in {RUNS} runs"
    ratio = TENFOLD * seconds[large // TENFOLD] / seconds[large]
    rate = large / seconds[large]
    yield Measurement("audit", case, rate, "deliveries/s", "a tenth of them", ratio, LINEAR, ratio >= LINEAR)
    peak = _peak_mb(spark)
    yield Measurement(
        "audit", case, peak, "MB in the JVM at most", "the bar", MEMORY_MB_MAX / peak, 1.0, peak <= MEMORY_MB_MAX
    )


def _judged(spark: Any, lake: Path, errors: int) -> float:
    """Seconds; the audit must find what was planted, and nothing else."""
    from pleach.bench.long_traces import PER_ERROR  # noqa: PLC0415
    from pleach.spark.audit.job import audit  # noqa: PLC0415

    start = perf_counter()
    verdicts = audit(spark, lake).verdicts
    taken = perf_counter() - start
    for verdict in verdicts:
        assert {rule: verdict.count(rule) for rule in PER_ERROR} == {rule: n * errors for rule, n in PER_ERROR.items()}
    assert len(verdicts) == RUNS
    return taken


def _peak_mb(spark: Any) -> float:
    process = spark.sparkContext._gateway.proc  # noqa: SLF001 Spark does not say otherwise
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
