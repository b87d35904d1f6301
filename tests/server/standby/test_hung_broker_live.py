"""A broker that is stopped (SIGSTOP) and woken: its clients go on elsewhere soon, and what wakes up does no harm."""

import asyncio
import os
import signal
import time

from pleach.trace import Rule, judge
from support.live.fleet import Witness
from support.live.machines import Machines, standby_flags
from support.live.tiny_broker import until

LINKS = (("a", "b"), ("c", "a"), ("b", "d"))
BROKERS = ("a", "b", "c", "d")
PER_SECOND = 20.0
GOES_ON_SECONDS_MAX = 12.0  # four on an idle machine; without others who know where it runs by then, fifteen at least
WOKEN_EVENTS = 20


def test_clients_of_a_hung_broker_go_on_where_it_was_promoted_and_lose_nothing_when_it_wakes(tmp_path):
    async def story():
        async with Machines(tmp_path, *standby_flags(1.0)) as machines, Witness("hung") as witness:
            await machines.grow(LINKS, {})
            await machines.until_whole(BROKERS)
            heard = {}

            def hears(name):
                return lambda event: heard.setdefault(name, []).append((time.monotonic(), event.attributes["of"]))

            for name in ("a", "d"):
                await witness.connect(f"p{name}", machines.client_address(name))
                await witness.connect(f"s{name}", machines.client_address(name))
                await witness.clients[f"s{name}"].subscribe("of IN ('a', 'd')", callback=hears(name))
                witness.load(f"p{name}", PER_SECOND, of=name)
            await until(lambda: all(len(heard.get(name, ())) > WOKEN_EVENTS for name in ("a", "d")))

            group = machines.all["a"].live.group
            os.killpg(group, signal.SIGSTOP)
            stopped = time.monotonic()

            def crosses(since):
                """Events come from either side to the other one."""
                return all(
                    any(at > since and of == there for at, of in heard[here])
                    for here, there in (("a", "d"), ("d", "a"))
                )

            await until(lambda: crosses(stopped + 1.0))  # what had been said before has come by then
            assert time.monotonic() - stopped < GOES_ON_SECONDS_MAX

            os.killpg(group, signal.SIGCONT)
            woken = time.monotonic()
            await until(lambda: sum(at > woken for at, _ in heard["a"]) > WOKEN_EVENTS)
            await machines.until_whole(BROKERS)
            assert await witness.drain()
            verdict = judge(witness.recorder.records)
            assert {rule.value: verdict.count(rule) for rule in Rule} == {rule.value: 0 for rule in Rule}
            assert verdict.counts.deliveries > 0

    asyncio.run(asyncio.wait_for(story(), 200))
