"""Commands that run until they are interrupted, by SIGINT, SIGTERM or SIGHUP, and then end in an orderly way."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def run_until_interrupted(work: Coroutine[Any, Any, None], *, cancels: int = 1) -> bool:
    """True if the work ended by itself. A signal cancels it, so that connections are closed; a second one kills.

    `cancels`: so many signals cancel before one kills, for work that has something to finish after the first.
    """
    return asyncio.run(_watched(work, cancels))


async def _watched(work: Coroutine[Any, Any, None], cancels: int) -> bool:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)

    handled = _handled()

    def interrupt() -> None:
        nonlocal cancels
        cancels -= 1
        if not cancels:
            for number in handled:
                loop.remove_signal_handler(number)
        task.cancel()

    for number in handled:
        loop.add_signal_handler(number, interrupt)
    await asyncio.wait([task])
    if task.cancelled():
        return False
    task.result()
    return True


def _handled() -> tuple[signal.Signals, ...]:
    """Without SIGHUP if it is ignored, as under `nohup`."""
    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return (signal.SIGINT, signal.SIGTERM) if is_ignored else (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
