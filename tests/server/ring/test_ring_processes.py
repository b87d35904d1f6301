"""Five broker processes that know one address each: one ring, one tree, and nobody loses an event meanwhile."""

import asyncio
import json
import os
import socket
import subprocess

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.trace import explain, judge
from support.live.broker_process import ENVIRONMENT, PLEACH, address, eventually, processes
from support.live.fleet import Fleet, Witness
from support.live.ring_tree import RING_ONLY, ring_tree, root_of, until_followed
from support.thorough import FACTOR

STORY_SECONDS_MAX = 240
FOLLOWED_SECONDS_MAX = 100.0  # after the last broker has come or gone; two or three on a machine that is not busy
EVENTS_PER_SECOND = 20
FIRST = "riga"
IN_MEMORY = (*RING_ONLY, "--without=data-dir")
SEED_OF = {"lima": "riga", "quito": "lima", "cairo": "riga", "delhi": "quito"}


async def grown(fleet, witness):
    """One after the other, each by way of another one; each with a client that wants what only it wants."""
    await fleet.start_with(FIRST, "--ring", *RING_ONLY)
    await witness.connect("publisher", fleet.client_address(FIRST))
    for name in (FIRST, *SEED_OF):
        if name in SEED_OF:
            await fleet.start_with(name, f"--join={fleet.directory.peer[SEED_OF[name]]}", *RING_ONLY)
        await witness.connect(f"at-{name}", fleet.client_address(name), subscribe=f"topic = '{name}'")
        witness.load("publisher", EVENTS_PER_SECOND, topic=name)
    return [FIRST, *SEED_OF]


async def story(place):
    async with Fleet(place, PLEACH_RING_LEAVE="true") as fleet, Witness("ring") as witness:
        names = await grown(fleet, witness)
        admins = fleet.directory.admin
        await until_followed([admins[FIRST]], names, FOLLOWED_SECONDS_MAX)
        for _ in range(min(FACTOR, len(names) - 1)):  # the root goes, and takes the steward along
            gone = root_of(names)
            await fleet.stop(gone)
            names.remove(gone)
            await until_followed([admins[names[0]]], names, FOLLOWED_SECONDS_MAX)
        assert await witness.drain()
        verdict = judge(witness.recorder.records)
        assert verdict.clean, explain(verdict, witness.recorder.records, 3)
        assert verdict.counts.deliveries > 5 * EVENTS_PER_SECOND
        return [line for name in (FIRST, *SEED_OF) for line in fleet.log(name).splitlines() if "woven: " in line]


def test_brokers_that_know_one_other_become_the_tree_of_the_ring_and_nothing_is_lost(tmp_path):
    assert max(len(around) for around in ring_tree([FIRST, *SEED_OF]).around.values()) == 3
    assert asyncio.run(asyncio.wait_for(story(tmp_path), FACTOR * STORY_SECONDS_MAX))  # links had to be exchanged


# Who is not let in, and what is ignored -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    place = tmp_path_factory.mktemp("ring")
    with processes() as start:
        a = start("a", place, "--ring", *IN_MEMORY)
        b = start("b", place, "--join", a.ready["peer"], *IN_MEMORY)
        eventually(lambda: a.is_ready() and b.is_ready())
        yield a, b


def refused(*arguments, **environment):
    command = [*PLEACH, "broker", *arguments]
    settings = {**ENVIRONMENT, **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=settings)
    assert (done.returncode, done.stdout) == (2, ""), done
    return done.stderr


def test_a_seed_where_nobody_is_ends_the_broker_and_says_what_to_look_for():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        seed = f"127.0.0.1:{silent.getsockname()[1]}"
        said = refused("c", "--join", seed, *IN_MEMORY, PLEACH_RING_JOIN_SECONDS="0.5")
    assert f"c cannot join the ring: no member of a ring answers at {seed} within 0.5 s; is that where" in said


def test_a_name_that_is_in_the_ring_is_refused_and_who_has_it_does_not_notice(pair):
    said = refused("b", "--join", pair[0].ready["peer"], *IN_MEMORY)
    assert f"a broker b is in it, at {pair[1].ready['peer']}; take another name" in said
    assert all(member.is_ready() for member in pair)


def test_garbage_is_counted_and_changes_nothing(pair):
    a, _ = pair
    before = a.status()["counters"]["datagrams_ignored"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for data in (b"", b"\x94", b"GET / HTTP/1.1\r\n\r\n", os.urandom(9_000)):
            stranger.sendto(data, address(a.ready["peer"]))
    eventually(lambda: a.status()["counters"]["datagrams_ignored"] == before + 4)
    assert a.is_ready()


def test_the_ring_is_shown_with_the_tree_beside_it(pair):
    a, _ = pair
    done = None

    def is_followed():
        nonlocal done
        done = CliRunner().invoke(app, ["overlay", "show", "--ring", "--json", a.ready["admin"]])
        return done.exit_code == 0

    eventually(is_followed, seconds=FOLLOWED_SECONDS_MAX)  # a has yet to hear that it is b's parent
    shown = json.loads(done.stdout)["ring"]
    assert [*shown["members"]] == ["b", "a"]  # by their keys
    assert (shown["is_followed"], shown["root"], shown["links"]) == (True, root_of(["a", "b"]), [["a", "b"]])
    drawn = CliRunner().invoke(app, ["overlay", "show", a.ready["admin"]], env={"COLUMNS": "200"}).stdout
    assert "the tree of 2 brokers is that of the ring" in drawn
    assert all(str(place["topmost"]) in drawn for place in shown["members"].values())
