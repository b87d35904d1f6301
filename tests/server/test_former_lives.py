"""A swap links two brokers again that were neighbours before, and one of them has lost its memory meanwhile."""

import asyncio

import pytest

from pleach.core.effects import Concluded
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import RequestSwap
from support.live.daemons import Running
from support.live.tiny_broker import until

SECONDS_MAX = 60
IN_MEMORY = {"data_dir": ""}


async def swap(running, name, b, c):
    return await running.node("a").operations.request(RequestSwap(name, "a", b, c))


def tree(running):
    return {name: sorted(daemon.node.broker.router.neighbours) for name, daemon in running.daemons.items()}


@pytest.mark.parametrize("reborn", ["a", "c"])
def test_the_swap_goes_on_with_the_new_life(tmp_path, reborn):
    async def story():
        running = Running(tmp_path)
        try:
            await running.start("c", neighbours=("a", "b"), **IN_MEMORY)
            at_c = {"c": running.ready["c"].peer}
            await running.start("b", peers=at_c, **IN_MEMORY)
            await running.start("a", peers=at_c, **IN_MEMORY)
            await until(lambda: all(running.node("c").links.is_up(peer) for peer in "ab"))
            assert await swap(running, "1", "c", "b") == Concluded("1")
            for here, there in ("ac", "ca"):
                upkeep = running.node(here).endpoint.upkeep
                await until(lambda upkeep=upkeep, there=there: upkeep.phase(there) is LinkPhase.FORMER)
            await running.stop(reborn)
            if reborn == "a":
                await running.start("a", peers={"b": running.ready["b"].peer}, **IN_MEMORY)
            else:
                await running.start("c", neighbours=("b",), **IN_MEMORY)
            await until(lambda: all(running.node("b").links.is_up(peer) for peer in "ac"))
            assert await swap(running, "2", "b", "c") == Concluded("2")
            await until(lambda: not any(daemon.node.broker.operation for daemon in running.daemons.values()))
            assert tree(running) == {"a": ["c"], "b": ["c"], "c": ["a", "b"]}
        finally:
            await running.stop_all()

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))
