"""Signals to a command: the first cancels its work; with more cancels, the work may finish in between."""

import asyncio
import signal

from pleach.cli.interrupt import run_until_interrupted


def interrupted(*, cancels):
    """What the work got to; it signals itself, and goes on after the first."""
    reached = []

    async def work():
        try:
            signal.raise_signal(signal.SIGTERM)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            reached.append("told")
            if cancels == 1:
                raise
            asyncio.current_task().uncancel()
        try:
            signal.raise_signal(signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            reached.append("told again")

    assert not run_until_interrupted(work(), cancels=cancels)
    return reached


def test_a_signal_cancels():
    assert interrupted(cancels=1) == ["told"]


def test_work_that_has_something_to_finish_is_cancelled_by_the_second_signal():
    assert interrupted(cancels=2) == ["told", "told again"]


def test_work_that_ends_by_itself_is_whole():
    assert run_until_interrupted(asyncio.sleep(0))
