"""Seeds by the hundred thousand: in tasks, over processes, with a line of progress from which a stopped run goes on."""

from __future__ import annotations

import gc
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TypeVar

SEEDS_PER_TASK = 24
PROGRESS_SECONDS = 10.0

Result = TypeVar("Result")


def add_options(parser: ArgumentParser, *, seeds: int) -> None:
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--workers", type=int, default=2)


def in_tasks(work: Callable[[range], list[Result]], options: Namespace) -> Iterator[list[Result]]:
    """Task by task, in the order of the seeds."""
    seeds = range(options.first, options.first + options.seeds)
    tasks = [seeds[i : i + SEEDS_PER_TASK] for i in range(0, len(seeds), SEEDS_PER_TASK)]
    task = partial(_without_collector, work)
    if options.workers == 1:
        yield from map(task, tasks)
        return
    with ProcessPoolExecutor(options.workers) as pool:
        yield from pool.map(task, tasks)


def _without_collector(work: Callable[[range], list[Result]], seeds: range) -> list[Result]:
    """A network is small and soon over: looking for cycles in it once, at the end of the task, saves a sixth."""
    gc.disable()
    try:
        return work(seeds)
    finally:
        gc.enable()
        gc.collect()


class Progress:
    def __init__(self, options: Namespace) -> None:
        self._first, self._wanted = options.first, options.seeds
        self._started = self._shown = time.monotonic()

    def note(self, done: int, failed: int) -> None:
        now = time.monotonic()
        if now - self._shown < PROGRESS_SECONDS:
            return
        self._shown = now
        rate = done / (now - self._started)
        left = (self._wanted - done) / rate / 60
        text = f"{done:,} of {self._wanted:,}, {rate:.1f} seeds/s, {left:.0f} min left, {failed} failed"
        sys.stderr.write(f"{text}; to go on from here: --first {self._first + done} --seeds {self._wanted - done}\n")
        sys.stderr.flush()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
