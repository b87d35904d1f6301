"""Memory, open files and disk of all machines, and whether any of it grows.

What counts is the sum over all processes, divided by their number: brokers move between machines and are started anew,
so that there are not always as many. A figure grows if its last quarter is more than a tenth above its first one, and
by more than noise.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from pleach.core.messages import Node
from pleach.harness.live_machine import LiveMachine
from pleach.soak.log import Minute, Usage

PROCESSES = Path("/proc")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
GROWTH_MAX = 0.10
QUARTERS = 4
QUARTER_MIN = 2  # minutes; a shorter soak says nothing about growth
BUGS = ("a bug ends this process", "Traceback (most recent call last)")


def usage(machines: Iterable[LiveMachine]) -> Usage:
    """Reads what the kernel says of each process, and walks the machines' folders."""
    everything = list(machines)
    pids = [pid for machine in everything for pid in machine.processes()]
    return Usage(
        machines=len(everything),
        processes=len(pids),
        memory_bytes=sum(map(memory_of, pids)),
        files=sum(map(_files_of, pids)),
        disk_bytes=sum(_disk_of(machine.folder) for machine in everything),
    )


def memory_of(pid: int) -> int:
    """Resident bytes; 0 for a process that has just ended."""
    with contextlib.suppress(OSError, IndexError):
        return int((PROCESSES / str(pid) / "statm").read_text().split()[1]) * PAGE_BYTES
    return 0


def _files_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return sum(1 for _ in (PROCESSES / str(pid) / "fd").iterdir())
    return 0


def _disk_of(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(place) / name).lstat().st_blocks * 512
    return total


class LogReader:
    """What is new in the logs of machines since it looked last, as far as it tells of bugs.

    `folder`: of the machines. The log of one that was destroyed lies there still.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[Path, int] = {}

    def bugs(self) -> list[str]:
        return [f"{path.stem}: {line}" for path in sorted(self._folder.glob("*.log")) for line in self._new(path)]

    def _new(self, path: Path) -> list[str]:
        """Of lines that are complete."""
        with contextlib.suppress(OSError), path.open("rb") as file:
            offset = self._offsets.get(path, 0)
            file.seek(offset)
            whole, end, _ = file.read().rpartition(b"\n")
            self._offsets[path] = offset + len(whole) + len(end)
            return [line for line in whole.decode(errors="replace").splitlines() if any(bug in line for bug in BUGS)]
        return []


def ended_by_themselves(machines: Mapping[Node, LiveMachine], busy: Collection[Node]) -> Iterator[str]:
    """Machines whose first process has ended, and to which no action under way does anything."""
    for name, machine in sorted(machines.items()):
        if machine.exit_code is not None and name not in busy:
            yield f"the process of {name} has ended with {machine.exit_code}; see {machine.log}"


def tell_of_bugs(loop: asyncio.AbstractEventLoop, tell: Callable[[str], None]) -> None:
    """From now on an unexpected exception in this process is told: of a client, of the switch, of the soak itself."""

    def judge(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        loop.default_exception_handler(context)
        error = context.get("exception")
        if isinstance(error, Exception) and not isinstance(error, OSError):
            tell(f"a bug in the soak's process: {context['message']}: {type(error).__name__}: {error}")

    loop.set_exception_handler(judge)


# Growth ----------------------------------------------------------------------------------------------------------


class Growth(NamedTuple):
    """A figure in the first quarter of the run and in the last one."""

    what: str
    first: float
    last: float
    floor: float  # less than this more is noise

    @property
    def share(self) -> float:
        if self.first:
            return self.last / self.first - 1.0
        return math.inf if self.last else 0.0

    @property
    def is_growing(self) -> bool:
        return self.share > GROWTH_MAX and self.last - self.first > self.floor


FIGURES: Mapping[str, tuple[Callable[[Minute], float], float]] = {
    "memory per process (MB)": (lambda m: m.used.memory_bytes / max(1, m.used.processes) / 1e6, 4.0),
    "open files per process": (lambda m: m.used.files / max(1, m.used.processes), 3.0),
    "disk per machine (MB)": (lambda m: m.used.disk_bytes / max(1, m.used.machines) / 1e6, 4.0),
    "latency p50 (ms)": (lambda m: m.flow.latency_p50 * 1e3, 20.0),
    "latency p99 (s)": (lambda m: m.flow.latency_p99, 2.0),
    "the soak's own memory (MB)": (lambda m: m.own_memory_bytes / 1e6, 50.0),
}


def growths(minutes: Sequence[Minute]) -> list[Growth]:
    """Empty for a run that is too short to tell."""
    quarter = len(minutes) // QUARTERS
    if quarter < QUARTER_MIN:
        return []
    first, last = minutes[:quarter], minutes[-quarter:]
    return [
        Growth(what, mean(map(read, first)), mean(map(read, last)), floor) for what, (read, floor) in FIGURES.items()
    ]
