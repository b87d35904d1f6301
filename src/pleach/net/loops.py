"""The event loop of a process: uvloop's where it is installed (`pip install 'pleach[live]'`), asyncio's otherwise."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

COLLECTOR_THRESHOLD = 50_000  # objects made before the collector looks at the young ones; 700 by default

T = TypeVar("T")


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, on the fastest loop there is."""
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def relax_collector() -> None:
    """For a process that only is a broker: events hold no cycles, and looking for some at each 700th costs a tenth."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTOR_THRESHOLD)
