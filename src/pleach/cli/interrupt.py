"""Commands that run until they are interrupted: SIGINT, SIGTERM and a terminal that closes end them in good order."""

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

    heeded = _heeded()

    def interrupt() -> None:
        for number in heeded:
            loop.remove_signal_handler(number)
        task.cancel()

    for number in heeded:
        loop.add_signal_handler(number, interrupt)
    await asyncio.wait([task])
    if task.cancelled():
        return False
    task.result()
    return True


def _heeded() -> tuple[signal.Signals, ...]:
    """Who was started with `nohup` shall outlive its terminal."""
    is_alone = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM) if is_alone else (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
