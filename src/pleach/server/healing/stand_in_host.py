"""Processes of stand-ins that a broker hosts, each with settings and data in a folder beneath the broker's.

    <data_dir>/stand-ins/<broker>/<epoch>/broker.toml · data/ · ready.json · pid · ended

Rule 1: a stand-in is a broker like any other: it has its own ports, which it keeps, and outlives its host's `kill -9`.
Rule 2: one that crashes is started again, if it has a disk to go on from. One that ends by itself (it was stopped,
        removed from the tree, or fenced) has ended for good.
Rule 3: while a neighbour is silent, a process is loaded already, and waits to be told for whom it stands in.
Rule 4: when the host stops in good order its stand-ins stop with it, and they are started again with it.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from pleach.core.messages import NeighbourReport, Node
from pleach.disk.private_files import FOLDER_MODE, make_private
from pleach.errors import SettingsError
from pleach.net.addresses import Address, parse_address
from pleach.server.bugs import watched
from pleach.server.database import LOCK
from pleach.server.healing.settings import StandInSettings
from pleach.server.settings import BrokerSettings, load_settings

FOLDER, SETTINGS, DATA, READY, PID, ENDED = "stand-ins", "broker.toml", "data", "ready.json", "pid", "ended"
RESTARTS_MAX = 10
RESTART_SECONDS = 0.5
STOP_SECONDS_MAX = 15.0
EXIT_FENCED = 71
PORTS = (("client_listen", "client_advertise"), ("peer_listen", "advertise"), ("admin_listen", "admin_advertise"))

log = logging.getLogger(__name__)


class StandInHost:
    def __init__(self, settings: Callable[[], BrokerSettings]) -> None:
        self._settings = settings
        self._hosted: dict[Node, asyncio.subprocess.Process | None] = {}
        self._places: dict[Node, str] = {}
        self._spare: asyncio.Task[asyncio.subprocess.Process] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    @property
    def hosted(self) -> dict[Node, int]:
        """The stand-ins that run here, with their process ids; 0 where one is just being started."""
        return {name: process.pid if process else 0 for name, process in sorted(self._hosted.items())}

    def prepare(self) -> None:
        """Load a process that is a stand-in once it is told for whom: nothing else takes as long."""
        if self._spare is None and not self._is_stopping:
            self._spare = asyncio.create_task(_loaded())

    def relax(self) -> None:
        """Nobody is silent any more."""
        if self._spare is not None:
            spare, self._spare = self._spare, None
            self._add(watched(_dismissed(spare)))

    def place_of(self, broker: Node) -> str:
        """Where other brokers find the stand-in for this one; empty if none runs here."""
        return self._places[broker] if broker in self._hosted else ""

    def start(self, broker: Node, epoch: int, report: NeighbourReport) -> None:
        """Start a stand-in for a neighbour, from the last report of it. Raises SettingsError, and leaves nothing."""
        folder = self._root() / quote(broker, safe="") / str(epoch)
        folder.mkdir(FOLDER_MODE, parents=True)
        make_private(folder / SETTINGS)
        (folder / SETTINGS).write_text(_toml(stand_in_settings(self._settings(), broker, epoch, report, folder)))
        try:
            self._run(broker, folder)
        except SettingsError:
            shutil.rmtree(folder)
            raise

    def resume(self) -> None:
        """Start the stand-ins of a former process of this host again, unless they are still there."""
        if not self._settings().data_dir or not self._root().is_dir():
            return
        for place in sorted(self._root().iterdir()):
            epochs = sorted(place.iterdir(), key=lambda folder: int(folder.name))
            if epochs and not (epochs[-1] / ENDED).exists() and not _is_held(epochs[-1] / DATA / LOCK):
                self._run(unquote(place.name), epochs[-1])

    def _root(self) -> Path:
        data_dir = self._settings().data_dir
        return Path(data_dir) / FOLDER if data_dir else Path(tempfile.mkdtemp(prefix="pleach-stand-in-"))

    def _run(self, broker: Node, folder: Path) -> None:
        settings = load_settings(folder / SETTINGS, {}, {})
        self._hosted[broker] = None
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
                log.warning("the stand-in for %s has ended: %s", broker, "fenced" if code else "stopped or removed")
                break
            if not self._settings().data_dir:
                log.error("the stand-in for %s has ended with %d, and its memory with it", broker, code)
                break
            log.error("the stand-in for %s has ended with %d; started again (%d)", broker, code, attempt + 1)
            await asyncio.sleep(RESTART_SECONDS * (attempt + 1))
        (folder / ENDED).touch()
        self._hosted.pop(broker, None)

    async def _run_once(self, broker: Node, folder: Path) -> int:
        """Run the process until it ends; returns its exit code."""
        spare, self._spare = self._spare or asyncio.create_task(_loaded()), None
        process = await spare
        if process.returncode is not None:
            process = await _loaded()
        _tell(process, str(folder / SETTINGS))
        (folder / PID).write_text(f"{process.pid}\n")
        self._hosted[broker] = process
        if self._is_stopping:
            process.terminate()
        return await process.wait()

    async def stop(self) -> None:
        self._is_stopping = True
        self.relax()
        for process in self._hosted.values():
            if process is not None and process.returncode is None:
                process.terminate()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS_MAX)


async def _loaded() -> asyncio.subprocess.Process:
    pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    command = (sys.executable, "-m", "pleach.server.healing.stand_in")
    return await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=nowhere)


async def _dismissed(spare: asyncio.Task[asyncio.subprocess.Process]) -> None:
    process = await spare
    _tell(process, "")
    await process.wait()


def _tell(process: asyncio.subprocess.Process, settings: str) -> None:
    """For whom it stands in; nobody, where that is empty."""
    assert process.stdin is not None
    process.stdin.write(f"{settings}\n".encode())
    process.stdin.close()


def stand_in_settings(
    own: BrokerSettings, broker: Node, epoch: int, report: NeighbourReport, folder: Path
) -> BrokerSettings:
    """The settings of the host, with the dead broker's name and place in the tree, and ports of its own."""
    assert report.is_complete, f"a guardian starts no stand-in for {broker} before it knows where all neighbours are"
    changed: dict[str, Any] = {
        "name": broker,
        "peers": {name: place.peer for name, place in sorted(report.neighbours.items())},
        "neighbours": (),
        "parent": "",
        "components": {},
        "stand_in": StandInSettings(epoch, report.parent, report.beyond),
        "data_dir": str(folder / DATA) if own.data_dir else "",
    }
    for listens, advertises in PORTS:
        address = parse_address(getattr(own, listens), key=listens)
        port = _free_port(address.host)
        changed[listens] = str(Address(address.host, port))
        told = getattr(own, advertises)
        changed[advertises] = str(Address(parse_address(told, key=advertises).host, port)) if told else ""
    return msgspec.structs.replace(own, **changed)


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


def _toml(settings: BrokerSettings) -> str:
    values = msgspec.to_builtins(settings)
    return "".join(f"{key} = {_value(value)}\n" for key, value in values.items() if value is not None)


def _value(value: Any) -> str:
    """TOML writes texts and lists as JSON does, and tables in braces."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_value(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
