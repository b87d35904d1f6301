"""Tests run against one change after the other, each in a fork of a process that has collected them once.

Rule 1: a test counts only if it passed in the run that found out what it reaches, and passes again, without the change,
        after it failed: what fails by itself, or for want of time, kills nothing.
Rule 2: a fork that uses many times the time that its test needs is ended, and the change counts as killed by that.
Rule 3: limits are of processor time: these runs have the lowest priority, and may wait for long.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

import pytest

from mutation.draw import ROOMS
from mutation.reach import IMPORT
from mutation.swap import NotSwappableError, swap_in

SECONDS_MIN = 5  # that any test may use
SECONDS_FACTOR = 20  # of the time that it needed in the run without changes
WAIT_SECONDS_MAX = 900  # on the clock, for a test that waits without computing
MEMORY_BYTES_MAX = 4 << 30
SAID_MAX = 300  # characters of a failure


class Outcome(StrEnum):
    KILLED = "killed"
    TIMEOUT = "timeout"
    ALIVE = "alive"  # all tests that were run passed; `left` says how many were not
    NOT_SWAPPABLE = "not swappable"  # needs a fresh process


@dataclass(frozen=True, slots=True)
class Timed:
    """A test, and the processor seconds that it needed."""

    test: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Job:
    """A change, as a file and its new text, and the tests to run, in this order."""

    number: int
    tests: list[Timed]
    budget: float  # seconds after which no further test is begun
    file: str = ""  # empty: what is imported is changed already, or not at all
    mutated: str = ""
    is_live: bool = False  # limits would be those of the processes that tests start, too


@dataclass(frozen=True, slots=True)
class Verdict:
    number: int
    outcome: Outcome
    test: str = ""
    said: str = ""
    passed: int = 0  # tests before this one
    left: int = 0
    seconds: float = 0.0
    stage: str = ""


class Execution:
    """A plugin for pytest: instead of the loop over all tests, a fork for each job."""

    def __init__(self, jobs: Sequence[Job], verdicts: Path, stage: str, *, confirms: bool) -> None:
        self._jobs = jobs
        self._verdicts = verdicts
        self._stage = stage
        self._note = verdicts.with_suffix(".fork")
        self._confirms = confirms
        self._unfit = set[str]()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for job in self._jobs:
            verdict = self._judged(job, items)
            with self._verdicts.open("a") as file:
                file.write(json.dumps(asdict(replace(verdict, stage=self._stage))) + "\n")
        return True

    def _judged(self, job: Job, items: dict[str, pytest.Item]) -> Verdict:
        before, tests = 0, [each for each in job.tests if each.test in items and each.test not in self._unfit]
        while True:
            verdict = self._in_fork(replace(job, tests=tests), items)
            tests = tests[verdict.passed :]
            before += verdict.passed
            if not verdict.test or not self._confirms or self._passes_unchanged(tests[0], items):
                return replace(verdict, passed=before)
            self._unfit.add(tests.pop(0).test)

    def _passes_unchanged(self, test: Timed, items: dict[str, pytest.Item]) -> bool:
        return self._in_fork(Job(0, [test], budget=0.0), items).outcome is Outcome.ALIVE

    def _in_fork(self, job: Job, items: dict[str, pytest.Item]) -> Verdict:
        self._note.unlink(missing_ok=True)
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            _silently(lambda: _run(job, items, self._note))
        _, status, used = os.wait4(child, 0)
        seconds = used.ru_utime + used.ru_stime
        noted = json.loads(self._note.read_text()) if self._note.exists() else {"passed": 0, "test": ""}
        if os.WIFSIGNALED(status) or "outcome" not in noted:
            what = (
                signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
            )
            said = f"{what} after {time.monotonic() - began:.0f} s"
            kind = Outcome.TIMEOUT if what in ("SIGXCPU", "SIGALRM") else Outcome.KILLED
            return Verdict(job.number, kind, noted["test"], said, noted["passed"], 0, seconds)
        return replace(Verdict(job.number, **{**noted, "outcome": Outcome(noted["outcome"])}), seconds=seconds)


def _silently(run) -> None:  # noqa: ANN001
    """Run in a fork, and end it: nothing of the process around it is to run here."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        run()
    finally:
        os._exit(0)


def _run(job: Job, items: dict[str, pytest.Item], note: Path) -> None:
    """What a fork does. Its note says what is under way, and in the end what came of it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if job.file:
        try:
            swap_in(job.file, job.mutated)
        except NotSwappableError as error:
            return _write(note, outcome=Outcome.NOT_SWAPPABLE, said=str(error))
    for item in list(items.values())[:1]:
        item.config.pluginmanager.unregister(name="terminalreporter")
    failures = _Failures()
    began = time.process_time()
    for passed, timed in enumerate(job.tests):
        if passed and time.process_time() - began > job.budget:
            return _write(note, outcome=Outcome.ALIVE, passed=passed, left=len(job.tests) - passed)
        _write(note, test=timed.test, passed=passed)
        if not job.is_live:
            _limit(timed.seconds)
        item = items[timed.test]
        item.config.pluginmanager.register(failures, "failures")
        following = items[job.tests[passed + 1].test] if passed + 1 < len(job.tests) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item.config.pluginmanager.unregister(failures)
        if failures.first is not None:
            return _write(note, outcome=Outcome.KILLED, test=timed.test, said=failures.first, passed=passed)
    return _write(note, outcome=Outcome.ALIVE, passed=len(job.tests))


def _write(note: Path, **what: object) -> None:
    note.write_text(json.dumps(what))


def _limit(usual: float) -> None:
    """Rules 2 and 3."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime + max(SECONDS_MIN, SECONDS_FACTOR * usual)
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(WAIT_SECONDS_MAX)


class _Failures:
    first: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.first is None:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.first = (crash.message if crash else str(report.longrepr))[:SAID_MAX]


class Measurement:
    """A plugin for pytest: what each test costs, and whether it passes; a line each."""

    def __init__(self, rows: Path) -> None:
        self._rows = rows
        self._failed = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._failed = False
        began, at = time.process_time(), time.monotonic()
        result = yield
        row = {
            "test": item.nodeid,
            "seconds": round(time.process_time() - began, 4),
            "on_clock": round(time.monotonic() - at, 3),
            "passed": not self._failed,
        }
        with self._rows.open("a") as file:
            file.write(json.dumps(row) + "\n")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or not report.passed


def main(order: str) -> int:
    """Do what a file orders; in a process of its own, whose path has the sources that are meant."""
    wanted = json.loads(Path(order).read_text())
    _import_all()
    if "rows" in wanted:
        plugin: object = Measurement(Path(wanted["rows"]))
    else:
        jobs = [Job(**{**row, "tests": [Timed(*each) for each in row["tests"]]}) for row in wanted["jobs"]]
        plugin = Execution(jobs, Path(wanted["verdicts"]), wanted["stage"], confirms=wanted["confirms"])
    usual = ["-n", "0", "-p", "no:cacheprovider", "-q"]
    return int(pytest.main([*usual, *wanted["arguments"]], plugins=[plugin]))


def _import_all() -> None:
    """What code does while it is imported is noted under this name (see `reach`)."""
    os.environ["PYTEST_CURRENT_TEST"] = f"{IMPORT} (all)"
    for room in ROOMS:
        package = importlib.import_module(f"pleach.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"pleach.{room}."):
            importlib.import_module(module.name)
    del os.environ["PYTEST_CURRENT_TEST"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
