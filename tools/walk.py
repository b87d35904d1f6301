"""Which modules one event passes, at its publisher, its broker and its subscriber: `python tools/walk.py`.

Three processes; each notes which modules of Pleach are called from the moment the event is published until it is
delivered, in the order of their first call. Calls by ticks and by the end of a connection do not count.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from types import FrameType
from typing import Any

import pleach
from pleach.server.daemon import Daemon
from pleach.server.settings import load_settings

PORTS = {"client_listen": "127.0.0.1:7991", "peer_listen": "127.0.0.1:7992", "admin_listen": "127.0.0.1:7993"}
ADDRESS = f"pleach://{PORTS['client_listen']}"
APART = {
    "_keep_ticking",
    "tick",
    "connection_lost",
    "close",
    "__aexit__",
    "_beat",
}  # functions whose calls do not count
SECONDS = 0.3


class Notes:
    def __init__(self) -> None:
        self.modules: dict[str, None] = {}
        self.is_on = False

    def start(self) -> None:
        self.is_on = True
        sys.setprofile(self.note)

    def note(self, frame: FrameType, what: str, _argument: Any) -> None:
        _, found, module = frame.f_code.co_filename.rpartition("/src/pleach/")
        if what != "call" or not self.is_on or not found or module in self.modules:
            return
        above: FrameType | None = frame
        while above is not None:
            if above.f_code.co_name in APART:
                return
            above = above.f_back
        self.modules[module] = None

    def tell(self) -> None:
        self.is_on = False
        print(json.dumps(list(self.modules)), flush=True)


async def publisher(notes: Notes) -> None:
    async with pleach.connect(ADDRESS, name="publisher") as client:
        await client.publish({"x": 1})
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        notes.start()
        await client.publish({"x": 2, "y": 3})
        notes.tell()
        await asyncio.sleep(100)


async def subscriber(notes: Notes) -> None:
    async with pleach.connect(ADDRESS, name="subscriber") as client:
        events = await client.subscribe("x > 0")
        print("ready", flush=True)
        await events.next()
        await asyncio.sleep(SECONDS)
        notes.start()
        print("ready", flush=True)
        await events.next()
        await asyncio.sleep(SECONDS)  # until it is confirmed
        notes.tell()
        await asyncio.sleep(100)


async def broker(notes: Notes) -> None:
    settings = load_settings(file=None, environment={}, flags={"name": "a", **PORTS})
    threading.Thread(target=_obey, args=(notes,), daemon=True).start()
    sys.setprofile(notes.note)
    await Daemon(settings, reload=lambda: settings, on_ready=lambda _: print("ready", flush=True)).run()


def _obey(notes: Notes) -> None:
    for line in sys.stdin:
        notes.is_on = line == "on\n"
        if line == "end\n":
            notes.tell()
            os._exit(0)


def main() -> None:
    def start(role: str) -> subprocess.Popen[str]:
        command = [sys.executable, __file__, role]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603

    def say(process: subprocess.Popen[str], text: str) -> None:
        assert process.stdin
        process.stdin.write(f"{text}\n")
        process.stdin.flush()

    def hear(process: subprocess.Popen[str]) -> str:
        assert process.stdout
        return process.stdout.readline()

    at = start("broker")
    hear(at)
    to = start("subscriber")
    hear(to)
    by = start("publisher")
    hear(by)
    hear(to)
    time.sleep(SECONDS)  # until all is quiet
    say(at, "on")
    say(by, "go")
    walks = {"publisher": hear(by), "subscriber": hear(to)}
    say(at, "end")
    walks["broker"] = hear(at)
    for role, walk in walks.items():
        modules = json.loads(walk)
        print(f"{role}, {len(modules)} modules: {' '.join(modules)}")
    for process in (at, to, by):
        process.kill()


if __name__ == "__main__":
    if sys.argv[1:]:
        asyncio.run(globals()[sys.argv[1]](Notes()))
    else:
        main()
