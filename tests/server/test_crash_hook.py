"""A process that kills itself at a message: which one, when, and which process."""

import os
import signal

import pytest

from pleach.errors import SettingsError
from pleach.server import crash_hook
from pleach.server.crash_hook import VARIABLE, CrashHook, Moment


@pytest.fixture
def deaths(monkeypatch):
    """What would have been killed."""
    found = []
    monkeypatch.setattr(os, "kill", lambda pid, number: found.append((pid, number)))
    monkeypatch.setattr(os, "killpg", lambda group, number: found.append(("group", group, number)))
    return found


def passed(hook, *messages):
    with hook.around(messages):
        pass


def test_a_moment_is_read():
    assert Moment.parse("Swap:before") == Moment("Swap", 1, "before")
    assert Moment.parse("standby.Prepare#3:soon") == Moment("standby.Prepare", 3, "soon")


@pytest.mark.parametrize("text", ["", "Swap", "Swap:", "Swap:never", "Swap#x:after", "a b:after", ":before"])
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(SettingsError, match="no moment"):
        Moment.parse(text)


def test_without_the_variable_there_is_no_hook(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert CrashHook.of("b") is None
    monkeypatch.setenv(VARIABLE, "Swap:before")
    assert CrashHook.of("b") is not None


@pytest.mark.parametrize("when", ["before", "after"])
def test_it_dies_at_the_nth_message_and_before_or_after_it_is_handled(deaths, when):
    hook = CrashHook("b", f"Swap#2:{when}")
    passed(hook, "Swap", "Close")
    assert not deaths
    with hook.around(["Close", "Swap"]):
        assert len(deaths) == (when == "before")
    assert deaths == [(os.getpid(), signal.SIGKILL)]


def test_soon_is_after_the_message_is_handled(deaths, monkeypatch):
    timers = []
    monkeypatch.setattr(crash_hook.threading.Timer, "start", lambda timer: timers.append(timer.function))
    passed(CrashHook("b", "Swap:soon"), "Swap")
    assert not deaths
    timers[0]()
    assert len(deaths) == 1


def test_a_file_tells_the_process_and_the_moment_while_it_runs_and_whom_to_kill_once(deaths, tmp_path):
    file = tmp_path / "moment"
    b, c = (CrashHook(name, f"@{file}") for name in "bc")
    passed(b, "Swap")
    file.write_text("d Swap:before 4710\nb Swap#2:after 4711\n")
    for hook in (c, b, c):  # what came before it was told does not count
        passed(hook, "Swap")
    assert not deaths
    assert file.exists()
    passed(b, "Swap")
    assert deaths == [("group", 4711, signal.SIGKILL)]
    assert not file.exists()
    passed(b, "Swap")
    assert len(deaths) == 1
