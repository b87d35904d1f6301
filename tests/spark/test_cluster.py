"""The same job on a standalone master with two workers gives the same rows."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from test_audit_agrees import table

from pleach.trace import Verdict, judge, read_traces
from support.spark.standalone import cluster
from support.spark.traces_with_errors import spoilt

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 600
TRACES = 40

ON_THE_CLUSTER = """
import sys
import msgspec
from pleach.spark.audit.job import audit
from pleach.spark.session import spark_session

def where(batches):
    import pleach, pyarrow as pa
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [pleach.__file__]})

spark = spark_session(sys.argv[1])
rows = spark.range(0, 8, 1, 4).mapInArrow(where, "file string").distinct().collect()
print(*(row.file for row in rows))
for verdict in audit(spark, sys.argv[2]).verdicts:
    print(msgspec.json.encode(verdict).decode())
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(2 * SECONDS_MAX)
def test_a_cluster_gives_the_same_verdicts_with_code_that_came_from_the_driver(tmp_path):
    traces = tmp_path / "traces"
    traces.mkdir()
    runs = [spoilt(seed) for seed in range(30_000, 30_000 + TRACES)]
    pq.write_table(table([record for records in runs for record in records]), traces / "all.parquet")
    expected = {name: judge(records) for name, records in read_traces(traces)}
    with cluster(tmp_path) as master:
        command = [sys.executable, "-c", ON_THE_CLUSTER, master, str(traces)]
        said = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False, cwd=ROOT)
    assert said.returncode == 0, said.stderr
    where, *verdicts = said.stdout.splitlines()
    assert all("pleach-sources.zip" in file for file in where.split()), where
    found = [msgspec.json.decode(verdict, type=Verdict) for verdict in verdicts]
    assert {verdict.run: verdict for verdict in found} == expected
