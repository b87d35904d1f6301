"""What a broker makes of a request of an operator."""

import json
from http import HTTPStatus

import msgspec
import pytest

from pleach.server.http.page import HttpRequest
from pleach.server.http.server import operation_pages
from pleach.server.links import Port
from support.live.timed_node import in_world

SWAP = {"a": "b", "b": "a", "c": "c", "operation": "x", "timeout": 0.0}


async def asked(world, path, body):
    """The page, and what has been asked for by then."""
    route = next(route for route in operation_pages(world.node).routes if route.path == path)
    page = await route.handler(HttpRequest("POST", path, json.dumps(body).encode()))
    return page, [operation.what for operation in world.node.operations.recent]


@pytest.mark.parametrize(
    ("usual", "named", "what"),
    [
        ("swaplink", "", "swap"),
        ("swaplink", "path", "exchange b–a by path"),
        ("path", "", "exchange b–a by path"),
        ("path", "swaplink", "swap"),
        ("path", "advanced-coordinated", "exchange b–a by advanced-coordinated"),
    ],
)
def test_a_swap_is_carried_out_by_the_protocol_that_is_named_else_by_the_usual_one_of_the_broker(usual, named, what):
    async def scenario(world):
        node = world.node
        world.come("a", epoch=7, door=Port.PEERS)
        node.apply(msgspec.structs.replace(node.settings, exchange=usual))
        page, operations = await asked(world, "/overlay/swap", {**SWAP, "protocol": named})
        assert page.status is HTTPStatus.GATEWAY_TIMEOUT
        assert operations == [what]

    in_world(scenario, neighbours=["a"])
