"""Clients that number their events, for tests of clients that go elsewhere."""

import asyncio

from support.live.tiny_broker import take

SECONDS_MAX = 200
EVENTS = 400


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, SECONDS_MAX))


def address(running, name):
    return f"pleach://{running.ready[name].client}"


async def publish(client, first, count):
    futures = [await client.publish_windowed({"n": number}) for number in range(first, first + count)]
    return await asyncio.gather(*futures)


async def numbers(subscription, count):
    return [event.attributes["n"] for event in await take(subscription, count)]
