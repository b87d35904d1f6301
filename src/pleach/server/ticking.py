"""Ticks of a process: at times that are chosen anew after each, and behind what has arrived where one is late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

TICKS_PER_HEARTBEAT = 2
LATE_SECONDS = 0.001  # to receive what has arrived, after a tick that is late


async def keep_ticking(tick: Callable[[], None], pause: Callable[[], float]) -> None:
    """Until it is cancelled. `pause`: seconds until the next tick.

    A process that was late has not heard yet what others have sent meanwhile: nobody is taken for silent because of it.
    """
    while True:
        seconds = pause()
        due = time.monotonic() + seconds
        await asyncio.sleep(seconds)
        if time.monotonic() > due + seconds:
            await asyncio.sleep(LATE_SECONDS)
        tick()
