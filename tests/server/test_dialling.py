"""Whom a broker dials: all that its directory names, who is gone for a while only, and then who is wanted."""

import asyncio
import contextlib

from pleach.core.effects import LinkDown, LinkUp
from pleach.server.dialling import Dialling
from pleach.server.node import BrokerNode
from pleach.server.settings import BrokerSettings
from support.live.tiny_broker import until

SECONDS_MAX = 30


class Party:
    """A real node and its dialling; who answers is in `here`, and each attempt is noted."""

    def __init__(self, gone_seconds=0.0):
        self.node = BrokerNode(BrokerSettings("b"), None, 1, clock=lambda: 0.0, on_end=lambda *_: None)
        self.links, self.here, self.attempts = set(), set(), []
        self.dialling = Dialling(self.node.directory, self.links, self._dial, gone_seconds=gone_seconds)

    async def _dial(self, peer, address):
        await asyncio.sleep(0)
        self.attempts.append((peer, address))
        if peer in self.here:
            self.links.add(peer)
            self.dialling.connected(peer)
        return peer in self.here

    def want(self, *effects):
        self.node.endpoint.perform(effects, now=0.0)
        self.node.endpoint.take_batch()
        self.dialling.follow()

    def is_given_up(self, peer):
        return self.dialling._tasks[peer].done()


@contextlib.asynccontextmanager
async def party(**options):
    made = Party(**options)
    try:
        yield made
    finally:
        await made.dialling.stop(is_fatal=False)


def run(story):
    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_who_is_wanted_is_dialled_until_it_answers_however_long_that_takes():
    async def story():
        async with party() as made:
            made.want(LinkUp("x", "there:1"))
            await until(lambda: len(made.attempts) > 2)
            assert not made.is_given_up("x")
            made.here.add("x")
            await until(lambda: made.links == {"x"})

    run(story)


def test_a_link_that_was_given_up_is_dialled_when_it_is_wanted_again():
    async def story():
        async with party() as made:
            made.want(LinkUp("x", "there:1"), LinkDown("x"))
            await until(lambda: made.is_given_up("x"))
            made.attempts.clear()
            made.here.add("x")
            made.want(LinkUp("x", "elsewhere:1"))
            await until(lambda: made.links == {"x"})
            assert made.attempts == [("x", "elsewhere:1")]

    run(story)


def test_who_is_gone_is_left_alone_when_other_links_change():
    async def story():
        async with party() as made:
            made.want(LinkUp("x", "there:1"), LinkDown("x"))
            await until(lambda: made.is_given_up("x"))
            made.attempts.clear()
            made.want(LinkUp("y", "there:2"))
            await until(lambda: made.attempts)
            assert {peer for peer, _ in made.attempts} == {"y"}
            assert made.is_given_up("x")

    run(story)
