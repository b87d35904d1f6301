"""Programs of this package in a process of their own, which finds `pleach` and `support` where this process does."""

import os
import sys


def command(module: str, *arguments: object) -> list[str]:
    """`command("support.spark.stream_driver", …)`: to be started with `environment()`."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
