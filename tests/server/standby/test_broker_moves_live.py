"""Brokers that move to another machine under load, and clients of the library that follow them, as real processes."""

import asyncio
import json
import time
from urllib.request import urlopen

import pytest

import pleach
from pleach.core.overlay.plans import Topology
from pleach.core.overlay.plans.compose import add_broker
from pleach.operate.apply import Directory, apply_plan
from pleach.operate.broker_move import move_broker
from pleach.operate.survey import survey
from pleach.server.standby.registers import display
from support.live.broker_process import eventually
from support.live.tiny_broker import until
from support.standby.copied_brokers import broker_and_hosts, chain_of_three, machines

pytestmark = pytest.mark.live

SECONDS_MAX = 120
FOUND_SECONDS_MAX = 30.0  # on a machine that has much else to do; five, if it has not


class Load:
    """A publisher at one broker, a subscriber at another; all that is confirmed must come, once and in order."""

    def __init__(self, publisher, wanted):
        self.client, self._wanted = publisher, wanted
        self.published, self.got = 0, []
        self._is_over = False

    async def publish(self):
        while not self._is_over:
            await self.client.publish({"n": self.published})
            self.published += 1
            await asyncio.sleep(0.005)

    async def receive(self):
        async for event in self._wanted:
            self.got.append(event.attributes["n"])

    async def until_more(self, count=20):
        target = self.published + count
        await until(lambda: len(self.got) >= target)

    async def end(self):
        self._is_over = True
        await until(lambda: len(self.got) >= self.published)
        assert self.got == [*range(len(self.got))]


def under_load(publisher_at, subscriber_at, story):
    async def run():
        async with (
            pleach.connect(publisher_at.ready["client"], name="p") as p,
            pleach.connect(subscriber_at.ready["client"], name="s") as s,
        ):
            load = Load(p, await s.subscribe("n >= 0"))
            tasks = [asyncio.create_task(load.publish()), asyncio.create_task(load.receive())]
            try:
                await load.until_more()
                await story(load)
                await load.until_more()
                await load.end()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


def test_a_broker_moves_under_load_and_its_clients_follow(tmp_path):
    with machines(tmp_path) as start:
        a, b, _ = chain_of_three(start)
        fresh = start("m1", has_broker=False)

        async def story(load):
            found = await survey([a.ready["admin"]])
            phases = []
            end = await move_broker(found, "b", fresh.address, seconds_max=SECONDS_MAX, tell=phases.append)
            assert end.place is not None, end.reason
            assert end.place.machine.startswith("m1#")
            assert "copies the data" in phases
            began = time.monotonic()
            await load.until_more()
            assert time.monotonic() - began < FOUND_SECONDS_MAX

        under_load(b, a, story)
        assert fresh.promoted("b")
        assert b.process.poll() is None  # it is a host from now on


def test_a_move_to_where_it_is_or_nowhere_is_refused(tmp_path):
    with machines(tmp_path) as start:
        _, b, _ = chain_of_three(start)
        for to in (b.address, "b", "nobody"):
            status, told = b.post("/standby/move", json.dumps({"to": to}))
            assert status == 409, told


def test_own_clients_and_neighbours_find_a_broker_whose_machine_is_destroyed(tmp_path):
    with machines(tmp_path) as start:
        a, b, c = chain_of_three(start)

        async def story(load):
            await until(lambda: all(each.is_covered for each in (a, b, c)))
            began = time.monotonic()
            await asyncio.to_thread(b.destroy)
            await load.until_more()
            assert time.monotonic() - began < FOUND_SECONDS_MAX

        under_load(b, a, story)
        assert eventually(lambda: a.promoted("b") or c.promoted("b"))


def test_clients_of_the_only_broker_ask_the_machines_that_hold_its_copies(tmp_path):
    with machines(tmp_path) as start:
        b, *_ = broker_and_hosts(start, "h1", "h2")

        async def story(load):
            await until(lambda: len(load.client._driver._connections.current.places.all) > 1)
            await asyncio.to_thread(b.destroy)
            await load.until_more()

        under_load(b, b, story)


def test_clients_know_the_machines_that_hold_copies_also_once_the_broker_runs_on_one(tmp_path):
    with machines(tmp_path) as start:
        b, *hosts = broker_and_hosts(start, "h1", "h2")

        async def places(at):
            async with pleach.connect(at, name="c") as client:
                known = client._driver._connections.current.places
                await until(lambda: len(known.all) > len(hosts))
                return {*map(str, known.all)} - {at}

        async def story():
            told = await places(b.ready["client"])
            end = await move_broker(await survey([b.ready["admin"]]), "b", "h1", seconds_max=SECONDS_MAX)
            assert end.place, end.reason
            await until(lambda: hosts[0].promoted("b"))
            assert told <= await places(hosts[0].promoted("b").ready["client"])

        asyncio.run(story())


def test_a_broker_that_has_moved_is_found_where_it_was(tmp_path):
    with machines(tmp_path) as start:
        b, *hosts = broker_and_hosts(start, "h1", "h2")
        home = b.ready["client"]

        async def story(_):
            to = "h1" if "h2" in str(b.told()["copies"]) else "h2"  # by its name
            end = await move_broker(await survey([b.ready["admin"]]), "b", to, seconds_max=SECONDS_MAX)
            assert end.place, end.reason
            assert end.place.machine.startswith(f"{to}#")

        under_load(b, b, story)
        assert any(host.promoted("b") for host in hosts)

        async def newcomer():
            async with pleach.connect(home, connect_timeout=SECONDS_MAX) as client:
                await client.publish({"n": 0})

        asyncio.run(newcomer())


# Machines that leave ---------------------------------------------------------------------------------------------


def members_of(found):
    """Machines, by name, that have a part in the view of any broker."""
    views = [json.load(urlopen(f"http://{address}/status"))["standby"] for address in found.admin.values()]
    return {display(each) for view in views for each in (view["machine"], *view["copies"], *view["witnesses"])}


async def survey_of(brokers, at):
    """Once all of them have been found."""
    async with asyncio.timeout(SECONDS_MAX):
        while sorted((found := await survey([at.ready["admin"]])).found) != brokers:  # noqa: ASYNC110 - processes
            await asyncio.sleep(0.05)
    return found


def test_a_machine_whose_broker_leaves_ends_only_when_nobody_needs_it(tmp_path):
    """Copies, votes, and a broker that was moved here are elsewhere by then: another machine may be lost at once."""
    with machines(tmp_path) as start:
        a, b, c = chain_of_three(start)
        hosts = [start(name, "--join", b.address, has_broker=False) for name in ("m1", "m2")]

        async def story(load):
            found = await survey([a.ready["admin"]])
            moved = await move_broker(found, "b", c.address, seconds_max=SECONDS_MAX)
            assert moved.place is not None, moved.reason
            assert c.post("/overlay/remove", '{"broker": "c"}')[0] == 200
            await until(lambda: c.process.poll() is not None, seconds=SECONDS_MAX)
            assert members_of(await survey_of(["a", "b"], at=a)) <= {"a", "b", "m1", "m2"}
            await load.until_more()

        under_load(a, a, story)
        assert c.process.returncode == 0
        assert c.log().count("this process ends once other machines have what it has") == 1
        assert all(host.process.poll() is None for host in hosts)


@pytest.mark.parametrize(
    "said",
    ["its clients are served elsewhere: this process ends", "this process ends once other machines have what it has"],
    ids=["while others are told that the broker has left", "while it is needed"],
)
def test_a_machine_that_leaves_ends_in_good_order_once_it_is_asked_to(tmp_path, said):
    """Of two machines, each holds the other one's copy, which nobody else can take."""
    with machines(tmp_path) as start:
        b = start("b", "--neighbour", "a")
        a = start("a", "--peer", f"b={b.address}")
        eventually(lambda: a.is_covered and b.is_covered)
        assert b.post("/overlay/remove", '{"broker": "b"}')[0] == 200
        eventually(lambda: said in b.log())
        assert b.stop() == 0
        assert a.told()["runs"] == {}
        assert a.told()["holds"].get("b", {"role": "none"})["role"] == "none"


# Operations, while brokers come back elsewhere -------------------------------------------------------------------


def test_a_broker_joins_one_that_is_promoted_elsewhere_meanwhile(tmp_path):
    """The operator knows its former address only, and so does the newcomer, which nobody in the tree has told more."""
    with machines(tmp_path) as start:
        a, b, c = chain_of_three(start)
        start("m1", "--join", b.address, has_broker=False)
        n = start("n")

        async def story():
            found = await survey([a.ready["admin"], n.ready["admin"]])
            tree = Topology.of([("a", "b"), ("b", "c")])
            await until(lambda: all(broker.is_safe for broker in (a, b, c)), seconds=SECONDS_MAX)
            c.destroy()
            outcome = await apply_plan(add_broker(tree, "n", to="c"), Directory.of(found), seconds_max=SECONDS_MAX)
            assert outcome.complete, outcome
            await survey_of(["a", "b", "c", "n"], at=a)

        asyncio.run(story())
