"""A proxy in one link, at an address of its own, for processes that do not dial through a switch."""

from __future__ import annotations

from pleach.harness.switch import Half, Link, Listener


class LinkProxy(Listener):
    def __init__(self, target: tuple[str, int], latency: tuple[float, float], seed: str) -> None:
        super().__init__()
        self.target = target
        self._link = Link(latency, seed)
        self.cut, self.heal = self._link.cut, self._link.heal

    async def _serve(self, reader, writer) -> None:
        await self._link.carry(Half("dialler", reader, writer), "target", self.target)
