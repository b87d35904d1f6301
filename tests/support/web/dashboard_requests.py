"""A dashboard on a port of its own, in this loop, and requests to it as they are on the wire."""

import asyncio
import json
from contextlib import asynccontextmanager
from typing import NamedTuple

from pleach.net.allowed_hosts import Hosts
from pleach.server.http.routes import Site
from pleach.server.http.server import AdminServer
from pleach.web.site import Dashboard


class Answer(NamedTuple):
    code: int
    fields: dict
    body: bytes

    @property
    def value(self):
        return json.loads(self.body)


class Talk:
    def __init__(self, port, dashboard=None):
        self.dashboard = dashboard
        self.port = port
        self.token = dashboard.token if dashboard else ""

    async def open(self, method, path, body=b"", **fields):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = {"Host": f"127.0.0.1:{self.port}", **{name.replace("_", "-"): value for name, value in fields.items()}}
        if method == "POST":
            head = {"Content-Type": "application/json", "Content-Length": str(len(body)), **head}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        return reader, writer

    async def ask(self, method, path, body=b"", **fields):
        reader, writer = await self.open(method, path, body, **fields)
        async with asyncio.timeout(30):
            answer = await reader.read()
        writer.close()
        head, _, content = answer.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        return Answer(int(first.split(" ")[1]), dict(line.split(": ", 1) for line in lines), content)

    async def act(self, name, body, **fields):
        token = {"X_Pleach_Token": self.token, **fields}
        return await self.ask("POST", f"/dashboard/{name}", json.dumps(body).encode(), **token)


class Events:
    """Server-sent events, one after another; each is a chunk of the body."""

    def __init__(self, reader):
        self._reader = reader

    async def next(self, *kinds):
        """The next one of these kinds."""
        while True:
            async with asyncio.timeout(30):
                length = int(await self._reader.readline(), 16)
                piece = await self._reader.readexactly(length + len("\r\n"))
            kind, _, data = piece.decode().strip().partition("\n")
            if kind.removeprefix("event: ") in kinds:
                return json.loads(data.removeprefix("data: "))


@asynccontextmanager
async def talk(source):
    dashboard = Dashboard(source)
    server = await AdminServer(Site(dashboard.routes, Hosts())).listen("127.0.0.1", 0)
    try:
        yield Talk(server.sockets[0].getsockname()[1], dashboard)
    finally:
        server.close()


@asynccontextmanager
async def watching(talk):
    reader, writer = await talk.open("GET", "/dashboard/stream")
    try:
        await reader.readuntil(b"\r\n\r\n")
        yield Events(reader)
    finally:
        writer.close()
