"""Signals of a process: SIGTERM and SIGINT ask it to stop, SIGHUP to read its settings again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable


def on_signals(stop: Callable[[], None], reload: Callable[[], None]) -> None:
    """From now on, in the running loop; they replace the handlers before them."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reload)
