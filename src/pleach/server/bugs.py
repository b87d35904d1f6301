"""What a broker process does about a bug of its own: it says so, and ends.

A machine that has raised what it never raises on purpose is in a state that nobody knows. Going on would mean to commit
and to send what a half-done step left behind. Ending is what `kill -9` does, and that a broker survives: what was
acknowledged is on its disk, nothing of the unfinished batch is, and nobody has seen any of it. The price is that a
message which finds a bug finds it again after the restart, until somebody mends it or sends its sender away; an
operator sees a process that ends, and nobody sees a wrong routing table.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Any

EXIT_BUG = 72

log = logging.getLogger(__name__)


def end_on_bugs(loop: asyncio.AbstractEventLoop) -> None:
    """From now on an exception that nobody expected ends the process, whichever callback or task it comes from."""
    loop.set_exception_handler(_judge)


def watched(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that does not fail in silence."""
    task = asyncio.create_task(work)
    task.add_done_callback(_report)
    return task


def _report(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        task.get_loop().call_exception_handler({"message": f"{task.get_coro()!r} failed", "exception": error})


def _judge(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    is_page = "client_connected_cb" in context["message"]  # the operators' port: no state of the broker's
    if isinstance(error, Exception) and not isinstance(error, OSError) and not is_page:
        log.critical("a bug ends this process: %s", context["message"], exc_info=error)
        logging.shutdown()
        os._exit(EXIT_BUG)
    loop.default_exception_handler(context)
