"""Processes of brokers that were promoted on this machine, each with settings and data in a folder of its own.

    <data_dir>/standby/<broker>/broker.toml · data/ · ready.json · pid

Rule 1: such a broker is one like any other: it has its own ports, which it keeps, and outlives its host's `kill -9`.
Rule 2: one that crashes is started again. One that ends by itself (it was stopped, removed from the tree, or fenced)
        is not.
Rule 3: while a primary is silent, a process is loaded already, and waits to be told which broker it is.
Rule 4: when the host stops in good order, so do its brokers.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec

from pleach.core.messages import Node
from pleach.disk.private_files import make_private, make_private_folder
from pleach.net.addresses import Address, parse_address
from pleach.server.bugs import watched
from pleach.server.database import LOCK
from pleach.server.settings import BrokerSettings, load_settings

SETTINGS, DATA, READY, PID = "broker.toml", "data", "ready.json", "pid"
RESTARTS_MAX = 10
RESTART_SECONDS = 0.5
STOP_SECONDS_MAX = 15.0
EXIT_FENCED = 71
PORTS = (("client_listen", "client_advertise"), ("peer_listen", "advertise"), ("admin_listen", "admin_advertise"))

log = logging.getLogger(__name__)


class BrokerLauncher:
    def __init__(self) -> None:
        self._launched: dict[Node, asyncio.subprocess.Process | None] = {}
        self._places: dict[Node, str] = {}
        self._spare: asyncio.Task[asyncio.subprocess.Process] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    @property
    def launched(self) -> dict[Node, int]:
        """The brokers that run here, with their process ids; 0 where one is just being started."""
        return {name: process.pid if process else 0 for name, process in sorted(self._launched.items())}

    def prepare(self) -> None:
        """Load a process that is a broker once it is told which: nothing else takes as long."""
        if self._spare is None and not self._is_stopping:
            self._spare = asyncio.create_task(_loaded())

    def relax(self) -> None:
        """No primary is silent any more."""
        if self._spare is not None:
            spare, self._spare = self._spare, None
            self._add(watched(_dismissed(spare)))

    def place_of(self, broker: Node) -> str:
        """Where other brokers find this one; empty if it does not run here."""
        return self._places[broker] if broker in self._launched else ""

    def start(self, settings: BrokerSettings, folder: Path) -> None:
        """Start a broker whose data is in this folder, with these settings. Raises SettingsError."""
        write_settings(settings, folder)
        self._run(settings.name, folder)

    def resume(self, broker: Node, folder: Path) -> None:
        """Start a broker of a former process of this host again, unless it still runs. Raises SettingsError."""
        if not _is_held(folder / DATA / LOCK):
            self._run(broker, folder)

    def _run(self, broker: Node, folder: Path) -> None:
        settings = load_settings(folder / SETTINGS, {}, {})
        self._launched[broker] = None
        self._places[broker] = settings.advertise or settings.peer_listen
        self._add(watched(self._keep(broker, folder)))

    def _add(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self, broker: Node, folder: Path) -> None:
        for attempt in range(RESTARTS_MAX):
            code = await self._run_once(broker, folder)
            if self._is_stopping:
                return
            if code in (0, EXIT_FENCED):
                log.warning("broker %s has ended here: %s", broker, "fenced" if code else "stopped or removed")
                break
            log.error("broker %s has ended here with %d; started again (%d)", broker, code, attempt + 1)
            await asyncio.sleep(RESTART_SECONDS * (attempt + 1))
        self._launched.pop(broker, None)

    async def _run_once(self, broker: Node, folder: Path) -> int:
        """Run the process until it ends; returns its exit code."""
        spare, self._spare = self._spare or asyncio.create_task(_loaded()), None
        process = await spare
        if process.returncode is not None:
            process = await _loaded()
        _tell(process, str(folder / SETTINGS))
        (folder / PID).write_text(f"{process.pid}\n")
        self._launched[broker] = process
        if self._is_stopping:
            process.terminate()
        return await process.wait()

    async def stop(self) -> None:
        self._is_stopping = True
        self.relax()
        for process in self._launched.values():
            if process is not None and process.returncode is None:
                process.terminate()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS_MAX)


async def _loaded() -> asyncio.subprocess.Process:
    pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    command = (sys.executable, "-m", "pleach.server.standby.loaded_broker")
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=nowhere)


async def _dismissed(spare: asyncio.Task[asyncio.subprocess.Process]) -> None:
    process = await spare
    _tell(process, "")
    await process.wait()


def _tell(process: asyncio.subprocess.Process, settings: str) -> None:
    """Which broker it is; none, where that is empty."""
    assert process.stdin is not None
    process.stdin.write(f"{settings}\n".encode())
    process.stdin.close()


# Settings --------------------------------------------------------------------------------------------------------


def settings_here(broker: BrokerSettings, host: BrokerSettings, folder: Path) -> BrokerSettings:
    """A broker's settings, with its data in this folder, and free ports on its host's addresses."""
    changed: dict[str, Any] = {"data_dir": str(folder / DATA)}
    for listens, advertises in PORTS:
        address = parse_address(getattr(host, listens), key=listens)
        port = _free_port(address.host)
        changed[listens] = str(Address(address.host, port))
        told = getattr(host, advertises)
        changed[advertises] = str(Address(parse_address(told, key=advertises).host, port)) if told else ""
    return msgspec.structs.replace(broker, **changed)


def write_settings(settings: BrokerSettings, folder: Path) -> None:
    make_private_folder(folder)
    make_private(folder / SETTINGS)
    (folder / SETTINGS).write_text(as_toml(settings))


def as_toml(settings: BrokerSettings) -> str:
    values = msgspec.to_builtins(settings)
    return "".join(f"{key} = {_value(value)}\n" for key, value in values.items() if value is not None)


def _value(value: Any) -> str:
    """TOML writes texts and lists as JSON does, and tables in braces."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def _is_held(lock: Path) -> bool:
    if not lock.exists():
        return False
    with lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
