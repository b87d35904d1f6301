"""Probes beside reconfigurations: what was sent before one tells nothing after it."""

import asyncio
import time

from pleach.core.links.frames import Probe
from pleach.core.messages import RequestExchange
from pleach.server.probes import Probes
from support.live.daemons import Running
from support.live.tiny_broker import until


async def four(running):
    """a–b–c–d"""
    await running.start("a", neighbours=("b",))
    await running.start("c", neighbours=("b", "d"))
    await running.start("b", peers={"a": running.ready["a"].peer, "c": running.ready["c"].peer})
    await running.start("d", peers={"c": running.ready["c"].peer})
    b, c = running.node("b").links, running.node("c").links
    await until(lambda: all(c.is_up(peer) for peer in "bd") and all(b.is_up(peer) for peer in "ac"))


def sent_over(probes, neighbour):
    return next(number for number, to in probes._sent.items() if to == neighbour)


def test_a_probe_that_went_round_while_the_links_were_a_cycle_is_not_taken_for_one(tmp_path):
    """b keeps its links through the exchange: only that it took part tells that its probe is out of date."""

    async def story():
        running = Running(tmp_path)
        try:
            await four(running)
            probes = running.node("b").features[Probes]
            probes.tick(time.monotonic())
            number = sent_over(probes, "a")
            request = RequestExchange("x", ["a", "b", "c", "d"], 2, "path")
            assert (await running.node("a").operations.request(request)).refusal == ""
            await until(lambda: not running.node("b").broker.operation)
            assert sent_over(probes, "a") == number
            probes.probe_received("c", Probe(number, ["b", "a", "d", "c"]), time.monotonic())
            assert probes.cycle == ()
            probes.tick(time.monotonic() + 60.0)
            probes.probe_received("c", Probe(sent_over(probes, "a"), ["b", "a", "d", "c"]), time.monotonic())
            assert probes.cycle == ("b", "a", "d", "c")
        finally:
            await running.stop_all()

    asyncio.run(story())
