"""What /glance tells: of links in any state, and to operators of one tenant."""

from pleach.server.http.caller import Caller
from pleach.server.http.status import glance, told_to
from pleach.server.links import Port
from support.live.timed_node import SUBSCRIBED, in_world, settled

OF_TENANT = Caller("", frozenset(), tenant="t")
MAY_NAME_CLIENTS = {"leaving", "open_operations"}
ITS_OWN = {"clients", "clients_count", "components", "operations", "steps"}


def test_neighbours_are_told_of_whether_they_are_there_or_not():
    async def scenario(world):
        world.come("a", epoch=7, door=Port.PEERS)
        await settled(world.node)
        told = glance(world.node)["neighbours"]
        assert {name: link["up"] for name, link in told.items()} == {"a": True, "c": False}
        assert told["a"].keys() == told["c"].keys()
        assert (told["c"]["bytes_out"], told["c"]["frames_out"], told["c"]["round_trip"]) == (0, 0, None)

    in_world(scenario, neighbours=["a", "c"])


def test_an_operator_of_a_tenant_is_told_all_of_a_broker_but_who_its_clients_are():
    async def scenario(world):
        for name in ("t/s", "u/s"):
            world.come(name, *SUBSCRIBED)
        await settled(world.node)
        everything, told = glance(world.node), told_to(OF_TENANT, glance(world.node, OF_TENANT))
        assert everything["clients"].keys() == {"t/s", "u/s"}
        assert told["clients"].keys() == {"t/s"}
        assert everything.keys() - told.keys() == MAY_NAME_CLIENTS
        for field in told.keys() - ITS_OWN:
            assert told[field] == everything[field]

    in_world(scenario)
