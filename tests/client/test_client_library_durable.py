"""A client with a `state_dir`: what its application has consumed stays consumed, and the rest comes again."""

import asyncio
import random
import subprocess
import sys

import pytest

import pleach
from pleach.errors import SessionLostError, StoreError
from support.live.client_crash import abandon
from support.live.tiny_broker import TinyBroker, take, until
from support.thorough import FACTOR

EVENTS = 120
KILLS = 3 * FACTOR

CONSUMER = """
import asyncio, sys
import pleach

async def main(address, state_dir, output, manual):
    async with pleach.connect(address, name="s", state_dir=state_dir, connect_timeout=30) as client:
        sub = await client.subscribe("EXISTS n", manual_ack=manual)
        with open(output, "a", buffering=1) as out:
            async for event in sub:
                out.write(f"{event.attributes['n']}\\n")
                if manual:
                    await sub.ack(event)
                    out.write(f"acked {event.attributes['n']}\\n")

asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4] == "manual"))
"""


def numbers(events):
    return [event.attributes["n"] for event in events]


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 200))


async def publish_numbers(address, low, high):
    async with pleach.connect(address, name=f"p{low}") as publisher:
        for n in range(low, high):
            await publisher.publish({"n": n})


def test_a_clean_stop_and_start_goes_on_where_it_was(tmp_path):
    async def scene():
        async with TinyBroker() as broker:
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                sub = await client.subscribe("EXISTS n")
                await publish_numbers(broker.address, 0, 10)
                assert numbers(await take(sub, 4)) == [0, 1, 2, 3]
            await publish_numbers(broker.address, 10, 15)
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                assert [s.name for s in client.restored] == [sub.name]
                again = await client.subscribe("EXISTS n")
                assert client.restored == []
                assert numbers(await take(again, 11)) == list(range(4, 15))

    run(scene())


def test_an_event_in_hand_comes_again_after_a_crash_and_an_acknowledged_one_does_not(tmp_path):
    async def scene():
        async with TinyBroker() as broker:
            client = await pleach.connect(broker.address, name="s", state_dir=tmp_path).__aenter__()
            sub = await client.subscribe("EXISTS n", manual_ack=True)
            await publish_numbers(broker.address, 0, 6)
            events = await take(sub, 4)
            await sub.ack(events[0])
            await sub.ack(events[2])  # out of turn: 1 is still open, so 2 may come again
            await abandon(client)
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                again = await client.subscribe("EXISTS n")
                assert numbers(await take(again, 5)) == [1, 2, 3, 4, 5]

    run(scene())


@pytest.mark.parametrize("observer", [None, lambda _observed: None], ids=["unobserved", "observed"])
def test_of_events_that_came_together_only_those_come_again_that_are_not_consumed(tmp_path, observer):
    """The broker repeats whole payloads; ours is the memory of how much of one we have."""

    async def scene():
        async with TinyBroker() as broker:
            options = {"name": "s", "state_dir": tmp_path, "observer": observer}
            client = await pleach.connect(broker.address, **options).__aenter__()
            sub = await client.subscribe("EXISTS n", manual_ack=True)
            await publish_together(broker.address, 6)
            for event in (await take(sub, 4))[:2]:
                await sub.ack(event)
            session = broker.endpoint.sessions["s"]
            assert session.unconfirmed - (session.last - session.first + 1) > 2  # else nothing came together
            await abandon(client)
            for consumed in (2, 4):
                client = await pleach.connect(broker.address, **options).__aenter__()
                sub = await client.subscribe("EXISTS n", manual_ack=True)
                events = await take(sub, 6 - consumed)
                assert numbers(events) == list(range(consumed, 6))
                for event in events[:2]:
                    await sub.ack(event)
                await abandon(client)
            async with pleach.connect(broker.address, **options) as client:
                last = await client.subscribe("EXISTS n")
                await publish_numbers(broker.address, 6, 7)
                assert numbers(await take(last, 1)) == [6]

    run(scene())


async def publish_together(address, count):
    """In one turn, and so in one payload."""
    async with pleach.connect(address, name="together") as publisher:
        await asyncio.gather(*[await publisher.publish_windowed({"n": n}) for n in range(count)])


def test_what_a_waiting_call_made_room_for_is_kept_on_our_own_disk(tmp_path):
    """The answer comes behind the events; they are confirmed to the broker, and survive a crash all the same."""

    async def scene():
        async with TinyBroker(window=4) as broker:
            client = await pleach.connect(broker.address, name="s", state_dir=tmp_path).__aenter__()
            sub = await client.subscribe("EXISTS n")
            await publish_numbers(broker.address, 0, 50)
            await client.publish({"answer": 1})
            assert broker.endpoint.sessions["s"].unconfirmed < 50
            assert numbers(await take(sub, 3)) == [0, 1, 2]
            await client.settled()
            await abandon(client)
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                again = await client.subscribe("EXISTS n")
                assert numbers(await take(again, 48)) == list(range(2, 50))

    run(scene())


def test_a_publish_that_was_not_confirmed_before_a_crash_goes_out_after_it(tmp_path):
    async def scene():
        async with TinyBroker() as broker, pleach.connect(broker.address, name="s") as subscriber:
            sub = await subscriber.subscribe("EXISTS n")
            client = await pleach.connect(broker.address, name="p", state_dir=tmp_path).__aenter__()
            first = await client.publish({"n": 1})
            await broker.stop()
            await client.publish_windowed({"n": 2})
            await client.settled()
            await abandon(client)
            await broker.listen()
            async with pleach.connect(broker.address, name="p", state_dir=tmp_path) as client:
                third = await client.publish({"n": 3})
            assert (first.incarnation, third.sequence) == (third.incarnation, 3)
            assert numbers(await take(sub, 3)) == [1, 2, 3]

    run(scene())


def test_events_of_a_broker_that_lost_its_memory_are_not_lost_with_it(tmp_path):
    async def scene():
        async with TinyBroker() as broker:
            client = await pleach.connect(broker.address, name="s", state_dir=tmp_path).__aenter__()
            sub = await client.subscribe("EXISTS n")
            await publish_numbers(broker.address, 0, 3)
            await until(lambda: sub.queued == 3)
            await broker.stop()
            broker.forget()
            await broker.listen()
            await until(lambda: "s" in broker.broker.sessions and broker.broker.sessions.subscriptions("s"))
            await client.settled()
            await abandon(client)
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                again = await client.subscribe("EXISTS n")
                await publish_numbers(broker.address, 3, 5)
                assert numbers(await take(again, 5)) == [0, 1, 2, 3, 4]

    run(scene())


def test_one_process_at_a_time_and_one_name(tmp_path):
    async def scene():
        async with TinyBroker() as broker:
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path):
                with pytest.raises(StoreError, match="one process"):
                    await pleach.connect(broker.address, name="s", state_dir=tmp_path).__aenter__()
            with pytest.raises(StoreError, match="belongs to client 's'"):
                async with pleach.connect(broker.address, name="other", state_dir=tmp_path):
                    pass

    run(scene())


@pytest.mark.parametrize("mode", ["auto", "manual"])
def test_a_consumer_that_is_killed_again_and_again_misses_nothing(tmp_path, mode):
    """kill -9 at any moment: every event is handed out, in order; never again once its ack has returned."""
    output, chance = tmp_path / "out", random.Random(7)
    output.touch()

    async def scene():
        async with TinyBroker() as broker:
            loop = asyncio.get_running_loop()
            for kill in range(KILLS + 1):
                is_last = kill == KILLS
                process = start(broker.address)
                try:
                    if kill == 0:
                        await until(lambda: subscriptions(broker))
                    await publish_numbers(broker.address, kill * EVENTS, (kill + 1) * EVENTS)
                    goal = (kill + 1) * EVENTS if is_last else kill * EVENTS + chance.randrange(EVENTS)
                    await until(lambda goal=goal: len(set(handed_out(output))) >= goal)
                finally:
                    process.kill()
                    await loop.run_in_executor(None, process.wait)

    def start(address):
        arguments = [sys.executable, "-c", CONSUMER, address, str(tmp_path / "state"), str(output), mode]
        return subprocess.Popen(arguments)

    run(scene())
    judge(output, mode)


def subscriptions(broker):
    sessions = broker.broker.sessions
    return sessions.subscriptions("s") if "s" in sessions else {}


def handed_out(output):
    return [int(line) for line in output.read_text().split("\n")[:-1] if not line.startswith("acked")]


def judge(output, mode):
    events = handed_out(output)
    assert list(dict.fromkeys(events)) == list(range((KILLS + 1) * EVENTS)), "lost, or out of order"
    if mode == "auto":
        return
    acked = set()
    for line in output.read_text().split("\n")[:-1]:
        if line.startswith("acked "):
            acked.add(int(line.removeprefix("acked ")))
        else:
            assert int(line) not in acked, "handed out again after its ack"


def test_the_judge_of_the_kill_test_sees_losses_and_repeats(tmp_path):
    whole = [str(n) for n in range((KILLS + 1) * EVENTS)]
    output = tmp_path / "out"
    output.write_text("\n".join([*whole[:5], *whole[6:], ""]))
    with pytest.raises(AssertionError, match="lost"):
        judge(output, "auto")
    output.write_text("\n".join([whole[0], "acked 0", *whole, ""]))
    with pytest.raises(AssertionError, match="again"):
        judge(output, "manual")


def test_a_session_that_was_given_up_leaves_nothing_in_the_way_of_the_next(tmp_path):
    async def scene():
        async with TinyBroker() as broker:
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                sub = await client.subscribe("EXISTS n")
                broker.endpoint.expel("s", "too slow", now=0.0)
                broker.settle()
                with pytest.raises(SessionLostError, match="too slow"):
                    await take(sub, 1)
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                assert client.restored == []
                sub = await client.subscribe("EXISTS n")
                await client.publish({"n": 1})
                assert numbers(await take(sub, 1)) == [1]

    run(scene())


def test_a_restored_subscription_that_was_not_waited_for_keeps_its_events(tmp_path):
    async def scene():
        async with TinyBroker() as broker:
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                await client.subscribe("EXISTS n")
            await publish_numbers(broker.address, 0, 3)
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                asking = asyncio.create_task(client.subscribe("EXISTS n"))
                await asyncio.sleep(0)
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
                again = await client.subscribe("EXISTS n")
                assert numbers(await take(again, 3)) == [0, 1, 2]

    run(scene())


def test_an_ack_that_cannot_be_written_down_is_not_taken_for_one_that_was(tmp_path):
    async def scene():
        async with TinyBroker() as broker:
            client = await pleach.connect(broker.address, name="s", state_dir=tmp_path).__aenter__()
            sub = await client.subscribe("EXISTS n", manual_ack=True)
            await publish_numbers(broker.address, 0, 1)
            (event,) = await take(sub, 1)
            client._driver._cursor._db.execute("PRAGMA query_only = ON")  # a disk that takes nothing any more
            with pytest.raises(SessionLostError, match="cannot be written"):
                await sub.ack(event)
            await client.close()
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                assert await take(await client.subscribe("EXISTS n"), 1) == [event]

    run(scene())


def test_a_new_connection_confirms_no_more_than_what_is_consumed(tmp_path):
    async def scene():
        async with TinyBroker() as broker:
            client = await pleach.connect(broker.address, name="s", state_dir=tmp_path).__aenter__()
            sub = await client.subscribe("EXISTS n")
            await publish_numbers(broker.address, 0, 5)
            assert numbers(await take(sub, 2)) == [0, 1]
            await until(lambda: sub.queued == 3)
            broker.cut()
            await until(lambda: not client._driver.is_up)
            await until(lambda: client._driver.is_up)
            await abandon(client)
            async with pleach.connect(broker.address, name="s", state_dir=tmp_path) as client:
                again = await client.subscribe("EXISTS n")
                assert numbers(await take(again, 4)) == [1, 2, 3, 4]

    run(scene())
