"""The client library where a broker gives its client rights."""

import asyncio
import logging
import time

import pytest

import pleach
from pleach.core.access.rights import EVERYTHING, FALSE, TRUE, Rights
from pleach.core.events.language import parse_filter
from pleach.core.messages import Permit
from pleach.errors import AdvertiseRefusedError, PublishRefusedError, SubscribeRefusedError
from support.live.tiny_broker import TinyBroker, take, until

EU = parse_filter("region = 'eu'")
LOW_EU = parse_filter("region = 'eu' AND n < 50")


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 100))


class GuardedBroker(TinyBroker):
    def permit(self, rights, client="s"):
        self.endpoint.request(Permit(client, "alice", rights), now=time.monotonic())
        self.settle()


def seeing(subscribe, **others):
    return Rights(publish=TRUE, subscribe=subscribe, advertise=TRUE, **others)


def numbers(events):
    return [event.attributes["n"] for event in events]


def test_a_narrowed_subscription_says_what_is_in_effect(caplog):
    async def main():
        async with GuardedBroker() as broker:
            broker.permit(seeing(EU))
            async with pleach.connect(broker.address, name="s") as client:
                with caplog.at_level(logging.WARNING, "pleach.client.subscription"):
                    subscription = await client.subscribe("n < 50")
                assert (subscription.filter.text, subscription.effective) == ("n < 50", LOW_EU)
                assert "narrowed" in caplog.text
                for n, region in enumerate(("us", "eu", "us", "eu")):
                    await client.publish({"n": n, "region": region})
                assert numbers(await take(subscription, 2)) == [1, 3]
                broker.permit(EVERYTHING)
                await until(lambda: subscription.effective == subscription.filter)

    run(main())


def test_what_is_beyond_the_right_is_refused():
    async def main():
        async with GuardedBroker(advertisements=True) as broker:
            broker.permit(Rights(publish=EU, subscribe=EU, advertise=EU, strict=True))
            async with pleach.connect(broker.address, name="s") as client:
                with pytest.raises(SubscribeRefusedError, match="region = 'eu'"):
                    await client.subscribe("TRUE")
                with pytest.raises(AdvertiseRefusedError):
                    await client.advertise("TRUE")
                await client.advertise("region = 'eu'")
                with pytest.raises(PublishRefusedError, match="right"):
                    await client.publish({"region": "us"})
                await client.publish({"region": "eu"})

    run(main())


def test_a_withdrawn_right_ends_the_subscription_with_the_reason():
    """What was delivered before can be read; the name is free again."""

    async def main():
        async with GuardedBroker() as broker:
            broker.permit(EVERYTHING)
            async with pleach.connect(broker.address, name="s") as client:
                subscription = await client.subscribe("region = 'eu'", name="mine")
                await client.publish({"n": 1, "region": "eu"})
                broker.permit(seeing(FALSE))
                assert numbers(await take(subscription, 1)) == [1]
                with pytest.raises(SubscribeRefusedError, match="right"):
                    await take(subscription, 1)
                broker.permit(EVERYTHING)
                again = await client.subscribe("region = 'eu'", name="mine")
                await client.publish({"n": 2, "region": "eu"})
                assert numbers(await take(again, 1)) == [2]

    run(main())


def test_events_that_wait_are_withheld_and_the_rest_comes_in_order(tmp_path):
    """A client with a disk counts messages within payloads: what is withheld counts, too."""

    async def main():
        async with GuardedBroker() as broker:
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                await client.subscribe("EXISTS n", name="mine")
            async with pleach.connect(broker.address, name="p") as publisher:
                await asyncio.gather(
                    *[publisher.publish({"n": n, "region": "eu" if n % 3 else "us"}) for n in range(30)]
                )
            broker.permit(seeing(EU))
            wanted = [n for n in range(30) if n % 3]
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                (first,) = client.restored  # a call that waits would take over all that the broker has
                first.manual_ack = True
                got = await take(first, 7)
                for event in got:
                    await first.ack(event)
            broker.permit(seeing(parse_filter("region = 'eu' AND n > 12")))
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                (rest,) = client.restored
                left = await take(rest, len([n for n in wanted if n > 12]))
            assert numbers(got) == wanted[:7]
            assert numbers(left) == [n for n in wanted if n > 12]

    run(main())


def test_a_hidden_attribute_does_not_arrive():
    async def main():
        async with GuardedBroker() as broker:
            broker.permit(seeing(TRUE, hidden=("salary",)))
            async with pleach.connect(broker.address, name="s") as client:
                subscription = await client.subscribe("EXISTS n")
                with pytest.raises(SubscribeRefusedError, match="salary"):
                    await client.subscribe("salary > 5")
                async with pleach.connect(broker.address, name="p") as publisher:
                    await asyncio.gather(*[publisher.publish({"n": n, "salary": 9}) for n in range(20)])
                assert [event.attributes for event in await take(subscription, 20)] == [{"n": n} for n in range(20)]

    run(main())
