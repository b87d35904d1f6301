"""Brokers with the whole profile as processes: ring, council, standby and leases together, judged by the oracle."""

import asyncio

from support.live.broker_process import eventually, processes
from support.live.tended import tended

STORY_SECONDS_MAX = 300.0
PER_SECOND = 5.0  # events for each pair of brokers


def told(story):
    asyncio.run(asyncio.wait_for(story, STORY_SECONDS_MAX))


def test_one_alone_says_why_it_serves_nobody_and_two_serve(tmp_path):
    with processes() as start:
        a = start("a", tmp_path, "--ring", durable=True)
        eventually(lambda: a.status()["reasons"] == ["has no standby yet, and serves no clients before"])
        b = start("b", tmp_path, f"--join={a.ready['peer']}", durable=True)
        eventually(lambda: a.is_ready() and b.is_ready())
        assert not any(broker.status()["standby"]["covered"] for broker in (a, b)), "neither could decide alone"


def test_a_network_that_grows_loses_one_machine_and_sees_one_broker_off(tmp_path):
    async def story():
        async with tended(tmp_path, per_second=PER_SECOND) as (machines, _, network):
            await network.grow("abcde")
            await network.until_whole()
            assert max(len(around) for around in (await network.topology()).around.values()) <= 3
            await machines.destroy("b")
            await network.until_whole()
            await network.remove("d")
            await network.until_whole()
            verdict = await network.judged()
            assert verdict.counts.deliveries > 100
            assert await network.counted("lease_restored") == 0
            assert await network.counted("lease_expired") == 0

    told(story())
