"""Every protocol exchanges a link of a ring of six broker processes under load; one fleet for all of them.

The ring a–b–c–d–e–f–a is open at one link at a time, and each exchange closes that one and opens another: the cycle is
always all six. What a protocol may lose on the way is its nature; what is published when it is over arrives, once.
"""

import asyncio
from itertools import pairwise

import pytest

from pleach.core.overlay.choice import Circumstances, planned_exchange
from pleach.core.overlay.registry import CYCLES, EXCHANGES
from pleach.net.http_client import ask
from pleach.trace import NETWORK, RecordKind, Rule, explain, judge
from support.live.fleet import Fleet, Witness

RING = "abcdef"
LINKS = list(pairwise(RING))
STORY_SECONDS_MAX = 240  # ten or so on an idle machine
WARM_UP_SECONDS = 0.3
LOSSLESS = ("advanced-coordinated", "swaplink", "auto")
OTHERS = tuple(name for name in EXCHANGES if name not in LOSSLESS and "-printed" not in name)  # that may have no end


def test_each_protocol_exchanges_a_link_under_load_and_the_new_tree_delivers(tmp_path):
    asyncio.run(asyncio.wait_for(story(tmp_path), STORY_SECONDS_MAX))


async def story(place):
    async with Fleet(place, "--exchange=path") as fleet:
        await fleet.grow(LINKS)
        ring = Ring(fleet)
        await nothing_is_lost(ring)
        await what_follows_arrives(ring)
        await the_status_names_them(fleet)
        await what_cannot_be_is_refused_with_a_reason(fleet)


class Ring:
    def __init__(self, fleet):
        self.fleet = fleet
        self._open = 5  # the link after this broker is not there

    async def exchange(self, protocol):
        """The next link of the ring goes."""
        added, self._open = self._link(self._open), (self._open + 2) % len(RING)
        plan = planned_exchange(
            await self.fleet.topology(),
            remove=self._link(self._open),
            add=added,
            protocol=protocol,
            circumstances=Circumstances(),
        )
        outcome = await self.fleet.apply(plan)
        assert outcome.complete, (protocol, outcome.lines())
        assert await self.fleet.topology() == plan.result
        return plan

    def _link(self, at):
        return RING[at], RING[(at + 1) % len(RING)]


async def witnesses(fleet, witness):
    """A subscriber at each broker for what it alone wants, and one for all; publishers at three brokers."""
    for name in RING:
        await witness.connect(f"s-{name}", fleet.client_address(name), subscribe=f"to = '{name}' OR all = true")
    for name in "ace":
        await witness.connect(f"p-{name}", fleet.client_address(name))


def publish(witness, **more):
    for index, name in enumerate("ace"):
        for to in (RING[index], RING[index + 3]):
            witness.load(f"p-{name}", 30.0, to=to, **more)
        witness.load(f"p-{name}", 30.0, all=True, **more)


async def nothing_is_lost(ring):
    async with Witness("lossless") as witness:
        await witnesses(ring.fleet, witness)
        publish(witness)
        for protocol in LOSSLESS:
            await asyncio.sleep(WARM_UP_SECONDS)
            await ring.exchange(protocol)
        assert await witness.drain()
        verdict = judge(witness.recorder.records)
        assert verdict.clean, explain(verdict, witness.recorder.records)
        assert verdict.counts.deliveries > 300


async def what_follows_arrives(ring):
    async with Witness("others", "none") as witness:
        await witnesses(ring.fleet, witness)
        publish(witness)
        for protocol in OTHERS:
            await asyncio.sleep(WARM_UP_SECONDS)
            plan = await ring.exchange(protocol)
            assert len(plan.steps) == (1 if protocol in CYCLES else 4)
        assert await witness.drain()
        before = len(witness.recorder.records)
        publish(witness)
        await asyncio.sleep(WARM_UP_SECONDS)
        assert await witness.drain()
        records = witness.recorder.records
        later = {record.event for record in records[before:] if record.kind == RecordKind.PUBLISH}
        found = judge(records).violations
        assert len(later) > 20
        assert not [violation for violation in found if violation.event in later or violation.rule is Rule.SPURIOUS]
        assert records[before - 1].node == NETWORK


async def the_status_names_them(fleet):
    told = [await ask(address, "/overlay/operations") for address in fleet.directory.admin.values()]
    operations = [each for answer in told for each in answer.value["operations"]]
    assert all(answer.value["locked_for"] == "" for answer in told)
    assert {each["state"] for each in operations} == {"done"}
    by = {each["what"].rpartition(" by ")[2] for each in operations if each["what"].startswith("exchange ")}
    assert by == {*CYCLES} & {*LOSSLESS, *OTHERS}
    assert {"swap", "published swap"} <= {each["what"] for each in operations}
    assert (await ask(fleet.directory.admin["a"], "/status")).value["exchange"] == "path"


async def what_cannot_be_is_refused_with_a_reason(fleet):
    tree = await fleet.topology()
    start = next(broker for broker in tree.brokers if tree.is_leaf(broker))
    end = next(broker for broker in tree.brokers if tree.is_leaf(broker) and broker != start)
    path = list(tree.path(start, end))
    for body, code, says in (
        ({"path": path, "cut": 1, "protocol": "swop"}, 409, f"{start} knows no 'swop', but strawman"),
        ({"path": path, "cut": 5, "protocol": "path"}, 400, "there is no link 5 on a path of 6"),
        ({"path": [start, *path[2:]], "cut": 0, "protocol": "path"}, 409, "are not linked"),
        (
            {"path": [*path[:3], path[4], path[3]], "cut": 0, "protocol": "path"},
            409,
            f"{path[2]} and {path[4]} are not",
        ),
        ({"path": [*path[:2], start], "cut": 0, "protocol": "path"}, 400, "twice"),
        ({"path": path[::-1], "cut": 0, "protocol": "path"}, 400, "begins at an end of its new link"),
        ({"path": path[:2], "cut": 0, "protocol": "path"}, 400, "length >= 3"),
        ({"path": path, "cut": 0}, 400, "protocol"),
    ):
        answer = await ask(fleet.directory.admin[start], "/overlay/exchange", body)
        assert (answer.code, says in answer.value["error"]) == (code, True), (body, answer.value)
    assert await fleet.topology() == tree


@pytest.mark.parametrize("name", [*EXCHANGES, "auto"])
def test_a_broker_can_be_set_up_with_each_protocol(name):
    from pleach.server.settings import load_settings  # noqa: PLC0415 - beside the one test that needs it

    assert load_settings(None, {}, {"name": "a", "exchange": name}).exchange == name
