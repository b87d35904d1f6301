"""A client process of `pleach bench forward`: `python -m pleach.bench.systems.worker publish|subscribe TASK`.

It ends by itself: when it is done, when nothing more comes, or when its time is up.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from pleach.bench.systems.registry import SYSTEMS
from pleach.bench.systems.system import ReceiveMeter, WorkerResult, WorkerTask

WORKER_SECONDS_MAX = 300
STALLED_SECONDS = 3  # without a further event: systems that drop some are measured by what came


def main(role: str, text: str) -> None:
    task = msgspec.json.decode(text, type=WorkerTask)
    system = SYSTEMS[task.system]
    if role == "publish":
        signal.alarm(WORKER_SECONDS_MAX)
        system.publish(task, _wait_for_go)
        sys.stdin.readline()  # stays until the subscriber is done
        return
    meter = ReceiveMeter(task, lambda: _say("ready"), lambda: _say("warm"))
    _watch(meter)
    system.subscribe(task, meter)
    _say(meter.outcome())


def _say(what: str | WorkerResult) -> None:
    sys.stdout.write(msgspec.json.encode(what).decode() + "\n")
    sys.stdout.flush()


def _wait_for_go() -> None:
    _say("ready")
    sys.stdin.readline()


def _watch(meter: ReceiveMeter) -> None:
    """Every second: has anything come? A process that has stalled says what it has, and ends."""
    quiet = seconds = before = 0

    def look(*_: Any) -> None:
        nonlocal quiet, seconds, before
        seconds += 1
        quiet = quiet + 1 if meter.count == before and meter.count else 0
        before = meter.count
        if quiet >= STALLED_SECONDS or seconds >= WORKER_SECONDS_MAX:
            _say(meter.outcome())
            os._exit(0)

    handler: Callable[..., None] = look
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)


if __name__ == "__main__":
    main(*sys.argv[1:])
