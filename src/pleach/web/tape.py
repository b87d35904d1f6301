"""Runs of a lake, for the dashboard to replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pleach.errors import InvalidInputError
from pleach.events.filter import Filter
from pleach.messages import Node
from pleach.web.picture import Kind, Picture, Source
from pleach.web.source import Draft
from pleach.web.wishes import Wish


class TraceSource:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def look(self) -> Picture:
        return Picture(Source(Kind.REPLAY, str(self._path)), 0.0)

    async def draft(self, wish: Wish) -> Draft:
        raise InvalidInputError(f"{type(wish).__name__}: a recorded run cannot be changed")

    async def detail(self, broker: Node) -> dict[str, Any]:
        raise InvalidInputError(f"{broker}: a trace does not tell more")

    async def interested(self, wanted: Filter) -> dict[Node, list[str]]:
        raise InvalidInputError("not yet")

    async def film(self, run: str) -> dict[str, Any]:
        raise InvalidInputError(f"no run {run!r}")
