"""The client library against a real broker machine on a real socket."""

import asyncio
import itertools
import subprocess
import sys

import pytest

import pleach
from pleach.core.effects import Observed
from pleach.core.messages.runs import RUN_EVENTS_MAX
from pleach.errors import (
    AddressError,
    ClientClosedError,
    ClientFencedError,
    ConnectError,
    EventError,
    FilterError,
    InvalidInputError,
    PublishRefusedError,
    SessionLostError,
    UnknownOutcomeError,
    WithdrawnError,
)
from pleach.net.addresses import (
    BACKOFF_SECONDS_FIRST,
    BACKOFF_SECONDS_MAX,
    Address,
    backoff,
    one_address,
    parse_addresses,
)
from support.live.tiny_broker import TinyBroker, background, take, until

EVENTS = 400


def numbers(events):
    return [event.attributes["n"] for event in events]


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 200))


# Addresses ---------------------------------------------------------------------------------------------------


def test_addresses_are_read_with_and_without_the_scheme():
    assert parse_addresses("pleach://a:1,[::1]:2/") == (Address("a", 1), Address("::1", 2))
    assert parse_addresses(" localhost:7000 ") == (Address("localhost", 7000),)
    assert str(Address("::1", 2)) == "[::1]:2"


@pytest.mark.parametrize("text", ["", "a", "a:0", "a:x", "http://a:1", "a:1,,b:2", "a:70000", "u@a:1", "a:1/path?x"])
def test_an_address_that_is_none_is_named(text):
    with pytest.raises(AddressError, match=r"wanted"):
        parse_addresses(text)


def test_where_one_address_is_meant_a_list_is_none():
    assert one_address("[::1]:7000") == ("::1", 7000)
    with pytest.raises(AddressError, match=r"2 addresses; one is wanted"):
        one_address("a:1,b:2")


def test_pauses_grow_and_stay_bounded():
    pauses = list(itertools.islice(backoff(), 20))
    assert pauses[0] <= BACKOFF_SECONDS_FIRST
    assert BACKOFF_SECONDS_MAX / 2 <= pauses[-1] <= BACKOFF_SECONDS_MAX


def test_importing_pleach_leaves_the_event_loop_out():
    code = "import sys, pleach; assert 'asyncio' not in sys.modules; pleach.connect; assert 'asyncio' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_pleach_has_no_other_attributes():
    with pytest.raises(AttributeError, match="nothing_such"):
        pleach.nothing_such  # noqa: B018


# Requests ----------------------------------------------------------------------------------------------------


def test_what_is_published_arrives_once_at_every_subscription_that_it_matches():
    async def scene():
        async with TinyBroker() as broker, pleach.connect(broker.address, name="c") as client:
            low = await client.subscribe("n < 3")
            every = await client.subscribe("EXISTS n", network_wide=False)
            ids = [await client.publish({"n": n}, payload=b"p%d" % n) for n in range(5)]
            assert numbers(await take(low, 3)) == [0, 1, 2]
            events = await take(every, 5)
            assert numbers(events) == [0, 1, 2, 3, 4]
            assert [event.id for event in events] == ids
            assert events[4].payload == b"p4"
            assert (low.queued, every.queued) == (0, 0)

    run(scene())


def test_a_windowed_publisher_keeps_the_order_and_never_exceeds_its_window():
    async def scene():
        async with TinyBroker() as broker, pleach.connect(broker.address, name="c", window=8) as client:
            sub = await client.subscribe("EXISTS n")
            futures = []
            for n in range(EVENTS):
                futures.append(await client.publish_windowed({"n": n}))
                assert sum(not future.done() for future in futures) <= 8
            assert [(await future).sequence for future in futures] == list(range(1, EVENTS + 1))
            assert numbers(await take(sub, EVENTS)) == list(range(EVENTS))

    run(scene())


def test_nothing_comes_after_unsubscribing_and_what_was_queued_can_be_read():
    async def scene():
        async with TinyBroker() as broker, pleach.connect(broker.address) as client:
            sub = await client.subscribe("EXISTS n")
            await client.publish({"n": 1})
            await until(lambda: sub.queued == 1)
            await sub.unsubscribe()
            await client.publish({"n": 2})
            assert numbers([event async for event in sub]) == [1]
            assert broker.broker.sessions.subscriptions(client.name) == {}
            await sub.unsubscribe()  # idempotent

    run(scene())


def test_a_subscription_that_is_taken_back_before_it_is_answered_says_so():
    async def scene():
        async with TinyBroker() as broker, pleach.connect(broker.address, name="c") as client:
            asking = asyncio.create_task(client.subscribe("n = 1", name="mine"))
            await asyncio.sleep(0)
            taking_back = asyncio.create_task(client.unsubscribe("mine"))
            await asyncio.sleep(0)
            again = await client.subscribe("n = 2", name="mine")
            with pytest.raises(WithdrawnError):
                await asking
            await taking_back
            assert broker.broker.sessions.subscriptions("c") == {"mine": again.filter}
            for n in (1, 2):
                await client.publish({"n": n})
            assert numbers(await take(again, 1)) == [2]

    run(scene())


def test_a_callback_gets_events_and_its_failure_does_not_end_it(caplog):
    async def scene():
        seen = []

        async def callback(event):
            seen.append(event.attributes["n"])
            if len(seen) == 1:
                raise ValueError("the application's own")

        async with TinyBroker() as broker, pleach.connect(broker.address) as client:
            await client.subscribe("EXISTS n", callback=callback)
            for n in range(3):
                await client.publish({"n": n})
            await until(lambda: seen == [0, 1, 2])

    run(scene())
    assert "the application's own" in caplog.text


def test_bad_input_is_refused_before_anything_is_sent():
    async def scene():
        async with TinyBroker() as broker, pleach.connect(broker.address, name="c") as client:
            with pytest.raises(EventError):
                await client.publish({"n": object()})
            with pytest.raises(EventError, match="bytes"):
                await client.publish({"n": 1}, payload=b"x" * 1_100_000)
            with pytest.raises(FilterError):
                await client.subscribe("n >")
            first = await client.subscribe("n = 1", name="mine")
            with pytest.raises(InvalidInputError, match="mine"):
                await client.subscribe("n = 2", name="mine")
            assert (await client.publish({"n": 1})).sequence == 1
            assert numbers(await take(first, 1)) == [1]

    run(scene())
    for options in ({"window": 0}, {"state_dir": "x"}, {"heartbeat": 2.0, "patience": 1.0}):
        with pytest.raises(InvalidInputError):
            pleach.connect("a:1", **options)


def test_publishing_without_an_advertisement_is_refused_with_the_reason():
    async def scene():
        async with TinyBroker(advertisements=True) as broker, pleach.connect(broker.address) as client:
            with pytest.raises(PublishRefusedError, match="advertise first"):
                await client.publish({"n": 1})
            name = await client.advertise("EXISTS n")
            await client.publish({"n": 2})
            await client.unadvertise(name)
            with pytest.raises(PublishRefusedError):
                await client.publish({"n": 3})

    run(scene())


def test_nobody_there_says_which_addresses_were_tried_and_why():
    async def scene():
        async with TinyBroker() as broker:
            dead = f"127.0.0.1:{broker.port}"
        with pytest.raises(ConnectError) as caught:
            async with pleach.connect(f"pleach://{dead}", connect_timeout=2.0):
                pass
        assert list(caught.value.attempts) == [dead]
        assert "refused" in str(caught.value).lower()

    run(scene())


def test_the_next_address_is_tried():
    async def scene():
        async with TinyBroker() as gone:
            pass
        async with (
            TinyBroker() as broker,
            pleach.connect(f"127.0.0.1:{gone.port},127.0.0.1:{broker.port}") as client,
        ):
            await client.publish({"n": 1})

    run(scene())


def test_a_closed_client_is_closed():
    async def scene():
        async with TinyBroker() as broker:
            async with pleach.connect(broker.address, name="c") as client:
                sub = await client.subscribe("EXISTS n")
            with pytest.raises(ClientClosedError):
                await client.publish({"n": 1})
            assert [event async for event in sub] == []
            await until(lambda: "c" not in broker.broker.sessions.clients)

    run(scene())


def test_an_observer_sees_what_a_trace_needs():
    async def scene():
        seen = []
        async with TinyBroker() as broker, pleach.connect(broker.address, observer=seen.append) as client:
            sub = await client.subscribe("EXISTS n")
            await client.publish({"n": 1})
            await take(sub, 1)
        kinds = [observed.kind for observed in seen]
        assert kinds[:3] == [Observed.SUBSCRIBE, Observed.SUBSCRIBE_ACK, Observed.PUBLISH]
        assert sorted(kinds[3:]) == [Observed.DELIVER, Observed.PUBLISH_ACK]

    run(scene())


# Broken connections and lost brokers -------------------------------------------------------------------------


async def publish_all(client, window_futures):
    for n in range(EVENTS):
        window_futures.append(await client.publish_windowed({"n": n}))


def test_connections_that_break_in_the_middle_lose_nothing_and_double_nothing():
    async def scene():
        futures = []
        async with (
            TinyBroker() as broker,
            pleach.connect(broker.address, name="p", window=32) as publisher,
            pleach.connect(broker.address, name="s") as subscriber,
        ):
            sub = await subscriber.subscribe("EXISTS n")
            async with background(publish_all(publisher, futures)) as publishing:
                for cuts in range(1, 8):
                    await until(lambda least=cuts * 50: len(futures) >= least)
                    broker.cut()
                got = numbers(await take(sub, EVENTS))
                await publishing
            assert [(await f).sequence for f in futures] == list(range(1, EVENTS + 1))
            assert got == list(range(EVENTS))
            assert sub.queued == 0

    run(scene())


def test_a_broker_that_lost_its_memory_is_asked_again_and_unconfirmed_events_are_reported():
    async def scene():
        async with TinyBroker() as broker, pleach.connect(broker.address, name="c") as client:
            sub = await client.subscribe("EXISTS n")
            await client.publish({"n": 1})
            await broker.stop()
            lost = await client.publish_windowed({"n": 2})
            broker.forget()
            await broker.listen()
            with pytest.raises(UnknownOutcomeError, match="lost its memory"):
                await lost
            await until(lambda: "c" in broker.broker.sessions and broker.broker.sessions.subscriptions("c"))
            await client.publish({"n": 3})
            assert numbers(await take(sub, 2)) == [1, 3]
            broker.cut()  # the new life's numbers hold on the next connection
            await client.publish({"n": 4})
            assert numbers(await take(sub, 1)) == [4]

    run(scene())


def test_another_broker_at_one_of_the_addresses_does_not_get_the_session():
    async def scene():
        async with TinyBroker("home") as home, TinyBroker("other") as other:
            addresses = f"127.0.0.1:{home.port},127.0.0.1:{other.port}"
            async with pleach.connect(addresses, name="c") as client:
                sub = await client.subscribe("EXISTS n")
                await home.stop()
                waiting = await client.publish_windowed({"n": 1})
                await until(lambda: other.received >= 3)  # it was asked, more than once
                assert not waiting.done()
                await home.listen()
                await waiting
                assert numbers(await take(sub, 1)) == [1]
                assert other.broker.sessions.clients == []

    run(scene())


def test_a_name_that_was_there_before_starts_where_the_broker_counts():
    async def scene():
        async with TinyBroker() as broker:
            for life in range(2):
                broker.is_mute = life == 1
                async with pleach.connect(broker.address, name="c") as client:
                    broker.cut()  # in the second life before the broker has said anything but Hello
                    broker.is_mute = False
                    sub = await client.subscribe("EXISTS n")
                    for n in range(3):
                        await client.publish({"n": n})
                    broker.cut()
                    await client.publish({"n": 3})
                    assert numbers(await take(sub, 4)) == [0, 1, 2, 3]

    run(scene())


def test_two_clients_of_one_name_the_newer_one_wins():
    async def scene():
        async with TinyBroker() as broker, pleach.connect(broker.address, name="c") as old:
            sub = await old.subscribe("EXISTS n")
            async with pleach.connect(broker.address, name="c") as new:
                with pytest.raises(ClientFencedError, match="newer"):
                    await take(sub, 1)
                with pytest.raises(ClientFencedError):
                    await old.publish({"n": 1})
                fresh = await new.subscribe("EXISTS n")
                await new.publish({"n": 2})
                assert numbers(await take(fresh, 1)) == [2]

    run(scene())


def test_a_session_that_the_broker_gave_up_is_reported():
    async def scene():
        async with TinyBroker() as broker, pleach.connect(broker.address, name="c") as client:
            sub = await client.subscribe("EXISTS n")
            broker.endpoint.expel("c", "too slow", now=0.0)
            broker.settle()
            with pytest.raises(SessionLostError, match="too slow"):
                await take(sub, 1)

    run(scene())


# Back-pressure -----------------------------------------------------------------------------------------------


def test_a_slow_consumer_holds_a_bounded_queue_and_nobody_else_up():
    queue_max, window = 20, RUN_EVENTS_MAX  # a run is sent whole, so a window is at least one

    async def scene():
        async with (
            TinyBroker(window=window) as broker,
            pleach.connect(broker.address, name="p") as publisher,
            pleach.connect(broker.address, name="slow", queue_max=queue_max) as slow,
            pleach.connect(broker.address, name="fast") as fast,
        ):
            lazy = await slow.subscribe("EXISTS n")
            keen = await fast.subscribe("EXISTS n")
            futures = []
            await publish_all(publisher, futures)
            assert numbers(await take(keen, EVENTS)) == list(range(EVENTS))
            await until(lambda: lazy.queued >= queue_max)
            session = broker.endpoint.sessions["slow"]
            assert queue_max <= lazy.queued <= queue_max + window + 1
            assert session.unconfirmed >= EVENTS - queue_max - window
            waiting = session.unconfirmed
            broker.cut()  # a new connection is no way around the bound
            await until(lambda: not slow._driver.is_up)
            await until(lambda: slow._driver.is_up)
            assert session.unconfirmed == waiting
            assert numbers(await take(lazy, EVENTS)) == list(range(EVENTS))

    run(scene())


def test_an_answer_is_waited_for_even_when_the_queue_is_full():
    """It comes behind the events: a client that stopped there would wait for itself."""

    async def scene():
        async with (
            TinyBroker(window=4) as broker,
            pleach.connect(broker.address, name="p") as publisher,
            pleach.connect(broker.address, name="c", queue_max=1) as client,
        ):
            sub = await client.subscribe("EXISTS n")
            await publish_all(publisher, [])
            await until(lambda: sub.queued >= 1)
            await client.publish({"answer": 1})
            assert numbers(await take(sub, EVENTS)) == list(range(EVENTS))

    run(scene())


def test_a_subscription_that_was_not_waited_for_holds_nothing_up():
    async def scene():
        async with TinyBroker() as broker, pleach.connect(broker.address, name="c", queue_max=1) as client:
            asking = asyncio.create_task(client.subscribe("EXISTS n"))
            await asyncio.sleep(0)  # it has asked, and is not answered
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            for n in range(5):
                await client.publish({"n": n})
            await until(lambda: broker.broker.sessions.subscriptions("c") == {})
            assert client._receipts.waiting == 0

    run(scene())


@pytest.mark.parametrize(("name", "left"), [(None, []), ("mine", ["mine"])])
def test_an_advertisement_that_was_given_up_is_taken_back_unless_the_application_knows_its_name(name, left):
    async def scene():
        async with TinyBroker(advertisements=True) as broker, pleach.connect(broker.address, name="c") as client:
            asking = asyncio.create_task(client.advertise("EXISTS n", name=name))
            await asyncio.sleep(0)  # it has asked, and is not answered
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            with pytest.raises(PublishRefusedError):
                await client.publish({"m": 1})
            assert sorted(broker.broker.sessions.hand_over("c").advertisements) == left

    run(scene())


def test_an_observer_that_fails_is_reported_and_harms_nobody(caplog):
    async def scene():
        def observer(observed):
            raise ValueError("the observer's own")

        async with TinyBroker() as broker, pleach.connect(broker.address, observer=observer) as client:
            await client.publish({"n": 1})

    run(scene())
    assert "the observer's own" in caplog.text
