"""Commands that run until they are interrupted: SIGINT and SIGTERM end them in good order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def run_until_interrupted(work: Coroutine[Any, Any, None]) -> bool:
    """Whether the work came to its own end. A signal cancels it, so that connections are closed; a second one kills."""
    return asyncio.run(_watched(work))


async def _watched(work: Coroutine[Any, Any, None]) -> bool:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)

    def interrupt() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    await asyncio.wait([task])
    if task.cancelled():
        return False
    task.result()
    return True
