"""A machine of a run: a folder, and a group of processes, which can be destroyed together.

Its first process is a broker, or a host of copies; that one starts others for brokers that are promoted there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pleach.core.messages import Node
from pleach.errors import LiveError

START_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 15.0
POLL_SECONDS = 0.005
PROCESSES = Path("/proc")


class LiveMachine:
    def __init__(self, name: Node, folder: Path) -> None:
        """`folder`: all that it has on disk; its log lies beside it."""
        self.name = name
        self.folder = folder
        self.log = folder.with_name(f"{folder.name}.log")
        self._process: asyncio.subprocess.Process | None = None
        self._groups: list[int] = []  # one for each start of its first process

    @property
    def is_running(self) -> bool:
        """Whether its first process lives."""
        return self._process is not None and self._process.returncode is None

    @property
    def group(self) -> int:
        """Of its processes, since its first one was started last."""
        return self._groups[-1]

    async def start(self, command: Sequence[str], environment: Mapping[str, str]) -> bytes:
        """Start the first process, also again; returns the line that it prints once it listens. Raises LiveError."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                stdin=asyncio.subprocess.DEVNULL,
                env={**os.environ, **environment},
                process_group=0,
            )
        self._groups.append(self._process.pid)
        assert self._process.stdout is not None
        line = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS_MAX):
                line = await self._process.stdout.readline()
        if not line:
            raise LiveError(f"{self.name} did not start; see {self.log}")
        return line

    def processes(self) -> list[int]:
        """All that run on it."""
        return processes_of(self._groups)

    def signal(self, number: signal.Signals) -> None:
        """A signal to all its processes."""
        for each in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, number)

    @property
    def exit_code(self) -> int | None:
        """Of its first process, once that has ended."""
        return None if self._process is None else self._process.returncode

    async def kill(self) -> None:
        """`kill -9` of the first process; the others live on."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def ended(self) -> int:
        """Wait until the first process has ended by itself; returns its exit code. Raises TimeoutError."""
        assert self._process is not None
        async with asyncio.timeout(STOP_SECONDS_MAX):
            return await self._process.wait()

    async def stop(self) -> None:
        """In good order, as far as that goes."""
        if self._process is None:
            return
        if self._process.returncode is None:
            self._process.terminate()
        with contextlib.suppress(TimeoutError):
            await self.ended()
        await self.kill_all()

    async def destroy(self) -> None:
        """`kill -9` of all its processes, and its folder with whatever is in it."""
        await self.kill_all()
        await asyncio.to_thread(shutil.rmtree, self.folder, ignore_errors=True)

    async def kill_all(self) -> None:
        if self._process is None:
            return
        while left := processes_of(self._groups):
            for each in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            await asyncio.sleep(POLL_SECONDS)
        await self._process.wait()


def processes_of(groups: Collection[int]) -> list[int]:
    """Those that live; who has ended and waits to be collected by its parent does not."""
    found = []
    for folder in PROCESSES.iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError):
            state, _parent, group, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(group) in groups and state not in "ZX":
                found.append(int(folder.name))
    return found
