"""A cluster of Spark's own kind on this machine: a master and two workers, each a process; gone when the test is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from pleach.spark.java import find_java, java_home_for_spark
from support.ports import free_port

HOST = "127.0.0.1"
START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 30
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


@contextmanager
def cluster(folder: Path, workers: int = 2):
    """Yields the master's address once all workers have registered."""
    port = free_port()
    address = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        log = folder / "master.log"
        start(stack, log, MASTER, "--host", HOST, "--port", port, "--webui-port", 0)
        wait_for(log, "Starting Spark master at", 1)
        for number in range(workers):
            options = ("--host", HOST, "--cores", 1, "--memory", "1g", "--webui-port", 0)
            start(stack, folder / f"worker-{number}.log", WORKER, *options, "--work-dir", folder / "work", address)
        wait_for(log, "Registering worker", workers)
        yield address


def start(stack: ExitStack, log: Path, *command: object) -> None:
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home_for_spark(find_java())),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
    }
    environment.pop("PYTHONPATH", None)  # what executors run must come from the driver
    output = stack.enter_context(log.open("wb"))
    arguments = [str(home / "bin" / "spark-class"), *map(str, command)]
    process = subprocess.Popen(arguments, env=environment, stdout=output, stderr=subprocess.STDOUT)
    stack.callback(stop, process)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(log: Path, text: str, times: int) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while log.read_text(errors="replace").count(text) < times:
        assert time.monotonic() < deadline, f"{text!r} did not appear: {log.read_text(errors='replace')[-2000:]}"
        time.sleep(0.1)
