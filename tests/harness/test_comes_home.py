"""A broker that was promoted elsewhere, and comes back to its own machine, which has started again meanwhile."""

import asyncio

from pleach.harness.live_clients import LiveClients
from pleach.harness.network import LiveNetwork
from pleach.operate.broker_move import move_broker
from pleach.operate.survey import survey
from pleach.scenario.clients import PlannedEvent
from pleach.scenario.load import parse_scenario
from pleach.trace import RecordKind

NETWORK = """
name = "home"
routing = "covering"
links = [["a", "b"], ["b", "c"]]
duration = 60.0
standby = { after = 1.0 }
clients = [{ id = "s", broker = "a", subscribe = ["x > 0"] }, { id = "p", broker = "c" }]
"""
SECONDS_MAX = 120.0


def test_its_clients_find_it_there(tmp_path):
    """The ports of the first process of a machine were known only if its broker ran there when it started."""
    asyncio.run(asyncio.wait_for(story(tmp_path), SECONDS_MAX))


async def story(place):
    got = asyncio.Event()

    def observe(_client, seen):
        if seen.kind == RecordKind.DELIVER:
            got.set()

    scenario = parse_scenario(NETWORK)
    async with LiveNetwork(scenario, place) as network:
        clients = LiveClients(scenario, network, observe)
        await clients.connect_all()
        try:
            clients.subscribe_initially()
            await network.kill("a")
            while network.home_of("a") == "a" or "a" not in network.running:
                await network.locate()
            await network.start_again("a")
            await network.until_ready()
            end = await move_broker(await survey(list(network.directory.admin.values())), "a", "a", seconds_max=60.0)
            assert not end.reason
            await network.until_ready()
            assert network.home_of("a") == "a"
            clients.publish("p", PlannedEvent(0.0, {"x": 1}))
            await got.wait()
        finally:
            await clients.close_all()
