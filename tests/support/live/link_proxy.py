"""A proxy in one link, at an address of its own, for processes that do not dial through a switch."""

from __future__ import annotations

from pleach.harness.switch import Half, Link, Listener

ENDS = ("dialler", "target")


class LinkProxy(Listener):
    def __init__(self, target: tuple[str, int], latency: tuple[float, float], seed: str) -> None:
        super().__init__()
        self.target = target
        self.link = Link(latency, seed)
        self.cut, self.heal = self.link.cut, self.link.heal

    async def _serve(self, reader, writer) -> None:
        await self.link.carry(Half(ENDS[0], reader, writer), ENDS[1], self.target)
