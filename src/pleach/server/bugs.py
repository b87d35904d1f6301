"""Unexpected exceptions: a broker process logs them and ends.

After an exception that is not raised on purpose the state of a machine is unknown, and going on would commit and send
the result of half a step. Ending is what `kill -9` does, and brokers survive that: what was acknowledged is on disk,
nothing of the unfinished batch is, and nobody has seen any of it. The price is that a message that triggers a bug does
so again after the restart, until the bug is fixed or the sender is gone; but no routing table becomes wrong.
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
    """From now on an unexpected exception ends the process, whichever callback or task it comes from."""
    loop.set_exception_handler(_judge)


def watched(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task whose exception is reported."""
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
