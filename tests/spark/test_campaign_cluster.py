"""The same results from a standalone master with two workers as from one machine's cores."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from pleach.lake.arrow import load_arrow
from pleach.spark.java import find_java, java_home_for_spark
from pleach.spark.results import Results
from support.ports import free_port

WAIT_SECONDS_MAX = 120
RUN_SECONDS_MAX = 300

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]


@contextmanager
def running(*command):
    """A process of Spark's own, with all that it starts, until the end of the test."""
    spark_home = Path(pyspark.__file__).parent
    home = str(java_home_for_spark(find_java()))
    environment = {**os.environ, "JAVA_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        [spark_home / "bin" / "spark-class", *map(str, command)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(port):
    bound = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert time.monotonic() < bound
            time.sleep(0.1)
        else:
            return


def run_hops(lake, master):
    command = [sys.executable, "-c", "from pleach.cli.main import run; run()", "lab", "run", "hops", "--json"]
    places = ["--size", "quick", "--lake", lake, "--master", master]
    done = subprocess.run([*command, *places], capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run"] == 30


def rows(lake):
    """Everything but how long it took."""
    arrow = load_arrow()
    parts = Results(lake, "main", "hops").folder.glob("part-*.parquet")
    tables = [arrow.parquet.read_table(part).drop_columns(["seconds"]) for part in parts]
    return sorted(json.dumps(row, sort_keys=True) for row in arrow.concat_tables(tables).to_pylist())


def test_a_standalone_master_gives_the_same_rows(tmp_path):
    port, ui = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        deploy = "org.apache.spark.deploy"
        stack.enter_context(
            running(f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", ui)
        )
        wait_for(port)
        for number in range(2):
            worker = (f"{deploy}.worker.Worker", "--cores", 1, "--memory", "1g", "--host", "127.0.0.1")
            stack.enter_context(running(*worker, "--work-dir", tmp_path / f"worker{number}", master))
        run_hops(tmp_path / "cluster", master)
    run_hops(tmp_path / "local", "local[2]")
    assert rows(tmp_path / "cluster") == rows(tmp_path / "local")
