"""A machine without a broker is not called like one: its host and the broker's process could not be told apart."""

import asyncio

from pleach.core.standby.member import StandbyConfig
from pleach.core.standby.messages import Alive
from pleach.errors import PromotionError
from pleach.server.standby.host import StandbyHost
from pleach.server.standby.links import MemberLinks, ProcessId


def decreed(host, broker):
    try:
        host.decree(broker)
    except PromotionError as error:
        return str(error)
    raise AssertionError("it was promoted")


async def met(place, name):
    """What a process of this name, without a broker, makes of the voices of two brokers."""
    machine = f"{name}#1"
    links = MemberLinks(ProcessId(name, machine, 1), heartbeat=1.0)
    host = StandbyHost(place, machine, links, lambda: StandbyConfig(1.0), launcher=None)
    for broker in ("b", "c"):
        assert links.on_unknown is not None
        links.on_unknown(broker, f"{broker}#2", Alive(broker, 1))
    return {broker: decreed(host, broker) for broker in ("b", "c")}


def test_a_machine_that_is_called_like_a_broker_holds_no_copy_of_it_and_says_why(tmp_path):
    told = asyncio.run(met(tmp_path, "b"))
    assert told == {
        "b": "no copy of b is held here: a machine without a broker cannot be called like one: give it another name",
        "c": "the copy of c here is not whole",
    }
    assert "whole" in asyncio.run(met(tmp_path, "m1"))["b"]
