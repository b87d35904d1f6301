"""Which exceptions end a broker process: bugs, and nothing that the world can do to it."""

import asyncio
import logging
import os

import pytest

from pleach.server.bugs import EXIT_BUG, end_on_bugs, watched


@pytest.fixture
def ends(monkeypatch):
    """The exit codes with which the process would have ended."""
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(logging, "shutdown", lambda: None)
    return codes


async def raised(error):
    raise error


def after(*happening):
    """What comes of it in a loop whose bugs are watched."""

    async def story():
        loop = asyncio.get_running_loop()
        end_on_bugs(loop)
        for each in happening:
            each(loop)
        await asyncio.sleep(0.01)

    asyncio.run(story())


def in_a_callback(error):
    def fail():
        raise error

    return lambda loop: loop.call_soon(fail)


def in_a_task(error):
    return lambda _: watched(raised(error))


@pytest.mark.parametrize("where", [in_a_callback, in_a_task])
def test_a_bug_ends_the_process_wherever_it_is(ends, where):
    after(where(ZeroDivisionError()))
    assert ends == [EXIT_BUG]


@pytest.mark.parametrize("where", [in_a_callback, in_a_task])
def test_what_the_network_or_the_disk_does_ends_no_process(ends, where):
    after(where(ConnectionResetError()))
    assert ends == []


def test_a_page_that_fails_and_a_task_that_is_cancelled_end_no_process(ends):
    page = {"message": "Unhandled exception in client_connected_cb", "exception": ZeroDivisionError()}
    after(lambda loop: loop.call_exception_handler(page), lambda _: watched(asyncio.sleep(60)).cancel())
    assert ends == []
