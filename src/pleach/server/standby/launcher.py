"""Processes of brokers that were promoted on this machine, each with settings and data in a folder of its own.

    <data_dir>/standby/<broker>/register · data/ · broker.json · certificate.pem · key.pem · access.toml
                               /pid · ready.json                 of the process

Rule 1: such a broker is one like any other: it has its own ports, which it keeps, and outlives its host's `kill -9`.
Rule 2: while the broker's register on this disk names this machine as the primary, its process is kept running: it is
        started again however it ended. After that it is not, and the host is told why.
Rule 3: a process of an earlier life of the host is found by the lock of its store, and counts as this host's again.
Rule 4: while this machine has copies that may be promoted, processes are loaded already, and wait to be told which
        broker each is.
Rule 5: when the host stops in good order, so do its brokers; when it reads its settings again, they do, too.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from pleach.core.messages import Node
from pleach.core.standby.views import Machine
from pleach.errors import PleachError, StoreError
from pleach.net.addresses import BrokerAddresses
from pleach.server.bugs import watched
from pleach.server.settings import BrokerSettings
from pleach.server.standby.launch_settings import (
    DATA,
    addresses_in,
    broker_settings,
    read_settings,
    with_usable_ports,
    write_settings,
)
from pleach.server.standby.messages import BrokerFiles
from pleach.server.standby.registers import RegisterFile, broker_folder, replace_file
from pleach.server.storage.database import LOCK

READY, PID = "ready.json", "pid"
RESTART_SECONDS_MIN, RESTART_SECONDS_MAX = 0.25, 5.0  # between two starts: doubled each time
STABLE_SECONDS = 30.0  # a process that lasted this long is started again quickly
STOP_SECONDS_MAX = 15.0
POLL_SECONDS = 0.05  # of the lock of a process that is not a child of this one
UNKNOWN_CODE = -1  # of such a process
INIT = 1  # the first process of a machine; what is below is no process

log = logging.getLogger(__name__)


class LaunchingHost(NamedTuple):
    """The machine on which brokers are started, and its host process, which answers at `address` for machines, and at
    `client_address` where clients ask for brokers.
    """

    machine: Machine
    settings: Callable[[], BrokerSettings]
    address: Callable[[], str]
    client_address: Callable[[], str]

    def folder(self, broker: Node) -> Path:
        return broker_folder(self.settings().data_dir, broker)


class Ended(Enum):
    """Why a broker does not run here any more."""

    DEPOSED = "another machine is its primary"
    LEFT = "it has left the network for good"


class LaunchOrder(msgspec.Struct, frozen=True):
    """What a loaded process is told, as a line of JSON; an empty line: it is not needed."""

    folder: str  # the broker's, with settings, register and data in it
    machine: Machine
    host_address: str
    host_client_address: str
    silent: tuple[Machine, ...] = ()  # members of the view that have not been heard for long


class BrokerProcess(Protocol):
    @property
    def pid(self) -> int: ...

    def send_signal(self, signal: int) -> None: ...

    async def wait(self) -> int: ...


class FoundProcess:
    """A process of an earlier life of the host: it has the lock of its store.

    Where its pid file is missing or damaged nothing is signalled: 0 and -1 would be whole groups of processes, among
    them this host.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = folder / DATA / LOCK
        self.pid = _pid_in(folder)
        if not self.pid:
            log.warning(
                "%s does not say which process holds %s: end it by hand if it must end", folder / PID, self._lock
            )

    def send_signal(self, signal: int) -> None:
        if self.pid and is_held(self._lock):
            try:
                os.kill(self.pid, signal)
            except (ProcessLookupError, PermissionError):
                log.warning("process %d is another one, and does not hold %s", self.pid, self._lock)

    async def wait(self) -> int:
        while is_held(self._lock):  # noqa: ASYNC110 - it is no child of ours, whose end we would be told
            await asyncio.sleep(POLL_SECONDS)
        return UNKNOWN_CODE


@dataclass
class Launched:
    """A broker that is kept running."""

    addresses: BrokerAddresses
    process: BrokerProcess | None = None
    task: asyncio.Task[None] | None = None
    is_unwanted: bool = False
    silent: Sequence[Machine] = ()  # when it was promoted


class BrokerLauncher:
    def __init__(self, host: LaunchingHost, on_ended: Callable[[Node, Ended], None]) -> None:
        """`on_ended`: a broker has ended here, and its folder is free."""
        self._host = host
        self._on_ended = on_ended
        self._launched: dict[Node, Launched] = {}
        self._spares: list[asyncio.Task[asyncio.subprocess.Process]] = []
        self._dismissing: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    @property
    def running(self) -> dict[Node, int]:
        """The brokers that run here, with their process ids; 0 where one is just being started."""
        return {name: each.process.pid if each.process else 0 for name, each in sorted(self._launched.items())}

    def addresses_of(self, broker: Node) -> BrokerAddresses | None:
        """Where a broker that runs here is found; None: it does not."""
        launched = self._launched.get(broker)
        return launched.addresses if launched else None

    # Spare processes -----------------------------------------------------------------------------------------

    def keep_spares(self, count: int) -> None:
        """Have so many processes loaded that are brokers once they are told which: nothing else takes as long."""
        while len(self._spares) < count and not self._is_stopping:
            self._spares.append(asyncio.create_task(_loaded()))
        while len(self._spares) > count:
            task = watched(_dismissed(self._spares.pop()))
            self._dismissing.add(task)
            task.add_done_callback(self._dismissing.discard)

    # Starting and ending -------------------------------------------------------------------------------------

    def launch(self, broker: Node, files: BrokerFiles, silent: Sequence[Machine] = ()) -> None:
        """Start a broker that was promoted here; its register and its data are in its folder. Raises SettingsError.

        `silent`: members of its view that have not been heard for long.
        """
        folder = self._host.folder(broker)
        settings = broker_settings(files, self._host.settings(), folder)
        write_settings(settings, folder)
        self._run(broker, folder, None, silent)

    def resume(self, broker: Node) -> None:
        """Go on with a broker of an earlier life of this host. Raises SettingsError."""
        folder = self._host.folder(broker)
        self._run(broker, folder, FoundProcess(folder) if is_held(folder / DATA / LOCK) else None)

    def _run(self, broker: Node, folder: Path, found: FoundProcess | None, silent: Sequence[Machine] = ()) -> None:
        assert broker not in self._launched, f"{broker} runs here"
        launched = self._launched[broker] = Launched(addresses_in(read_settings(folder)), found, silent=silent)
        launched.task = watched(self._keep_running(broker, folder, launched))

    async def kill(self, broker: Node) -> None:
        """End a broker at once; when this returns, its folder is free."""
        launched = self._launched.get(broker)
        if launched is None or launched.task is None:
            return
        launched.is_unwanted = True
        if launched.process is not None:
            _end(launched.process, at_once=True)
        await asyncio.wait([launched.task])

    def reload(self) -> None:
        """Rule 5: certificates, lists and rights may be others. One that is being started reads them anyway."""
        for broker, launched in self._launched.items():
            if launched.process is not None and (self._host.folder(broker) / READY).exists():
                _signal(launched.process, signal.SIGHUP)

    async def stop(self) -> None:
        self._is_stopping = True
        self.keep_spares(0)
        running = list(self._launched.values())
        for launched in running:
            if launched.process is not None:
                _end(launched.process)
        tasks = {each.task for each in running if each.task is not None}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=STOP_SECONDS_MAX)
            for launched in running:
                if launched.task in late and launched.process is not None:
                    log.warning("process %d did not stop in time, and is killed", launched.process.pid)
                    _end(launched.process, at_once=True)
        if self._dismissing:
            await asyncio.wait(self._dismissing, timeout=STOP_SECONDS_MAX)

    # Running -------------------------------------------------------------------------------------------------

    async def _keep_running(self, broker: Node, folder: Path, launched: Launched) -> None:
        pause, why = RESTART_SECONDS_MIN, None
        while why is None and (launched.process is not None or self._is_wanted(launched)):
            began = time.monotonic()
            how = await self._run_once(folder, launched)
            why = self._why_ended(broker)
            if why is None and self._is_wanted(launched):
                log.error("broker %s has ended here (%s), and is started again", broker, how)
                pause = RESTART_SECONDS_MIN if time.monotonic() - began > STABLE_SECONDS else pause
                await asyncio.sleep(pause)
                pause = min(2 * pause, RESTART_SECONDS_MAX)
        del self._launched[broker]
        (folder / PID).unlink(missing_ok=True)
        if why is not None and self._is_wanted(launched):
            log.warning("broker %s has ended here: %s", broker, why.value)
            self._on_ended(broker, why)

    def _is_wanted(self, launched: Launched) -> bool:
        return not (launched.is_unwanted or self._is_stopping)

    def _why_ended(self, broker: Node) -> Ended | None:
        """Rule 2."""
        try:
            register = RegisterFile(self._host.folder(broker)).load()
        except StoreError as error:
            log.error("the register of %s cannot be read: %s", broker, error)  # noqa: TRY400 - it says it all
            return None
        if register is None:
            return Ended.LEFT
        return None if register.view.primary == self._host.machine else Ended.DEPOSED

    async def _run_once(self, folder: Path, launched: Launched) -> str:
        """Run the process until it ends; returns how it ended."""
        try:
            process = launched.process or await self._started(folder, launched)
        except (PleachError, OSError) as error:  # no address, no room, no process: it may be there later
            return str(error)
        launched.process = process
        if not self._is_wanted(launched):
            _end(process, at_once=launched.is_unwanted)
        code = await process.wait()
        launched.process = None
        return f"exit code {code}"

    async def _started(self, folder: Path, launched: Launched) -> BrokerProcess:
        settings = with_usable_ports(read_settings(folder))
        write_settings(settings, folder)
        launched.addresses = addresses_in(settings)
        process = await (self._spares.pop(0) if self._spares else _loaded())
        if process.returncode is not None:
            process = await _loaded()
        (folder / READY).unlink(missing_ok=True)
        replace_file(folder / PID, f"{process.pid}\n".encode())
        host, silent = self._host, tuple(launched.silent)
        launched.silent = ()  # at its next start it is known no more
        _tell(process, LaunchOrder(str(folder), host.machine, host.address(), host.client_address(), silent))
        return process


def _end(process: BrokerProcess, *, at_once: bool = False) -> None:
    _signal(process, signal.SIGKILL if at_once else signal.SIGTERM)


def _signal(process: BrokerProcess, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except ProcessLookupError:
        log.debug("process %d has ended already", process.pid)


async def _loaded() -> asyncio.subprocess.Process:
    pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    command = (sys.executable, "-m", "pleach.server.standby.loaded_broker")
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=nowhere)


async def _dismissed(spare: asyncio.Task[asyncio.subprocess.Process]) -> None:
    process = await spare
    _tell(process, None)
    await process.wait()


def _tell(process: asyncio.subprocess.Process, order: LaunchOrder | None) -> None:
    assert process.stdin is not None
    process.stdin.write((msgspec.json.encode(order) if order else b"") + b"\n")
    process.stdin.close()


def _pid_in(folder: Path) -> int:
    """0: not known, or of no process that a host could have started."""
    try:
        pid = int((folder / PID).read_text())
    except (OSError, ValueError):
        return 0
    return pid if pid > INIT and pid != os.getpid() else 0


def is_held(lock: Path) -> bool:
    """Whether a process has the store open whose lock this is."""
    if not lock.exists():
        return False
    with lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
