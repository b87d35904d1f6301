"""What Spark says when a job fails, as one of our errors: pages of Java and Python become a line and a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pleach.errors import SparkError, TraceError

OURS = re.compile(r"pleach\.errors\.(?:TraceError|LakeError): (.+)")  # raised on an executor
UNREADABLE = re.compile(r"FAILED_READ_FILE[^\n]*?(file:[^\s]+?\.parquet)")
CHARACTERS_MAX = 400


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Raises TraceError where the input is to blame, SparkError otherwise."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        said = str(error)
        ours, unreadable = OURS.search(said), UNREADABLE.search(said)
        if ours:
            raise TraceError(ours[1].strip()) from None
        if unreadable:
            raise TraceError(f"{unreadable[1]}: its data are damaged; make the run anew, or leave it out") from None
        first = " ".join(said.split())[:CHARACTERS_MAX]
        raise SparkError(
            f"{doing} failed: {first}; more memory (spark.driver.memory) or fewer runs may help"
        ) from error
