"""Events under way: room is served in turn and not lost with who gave up waiting; who waits is told what came of it."""

import asyncio

import pytest

from pleach.client.pending import InFlight
from pleach.core.events.event import EventId
from pleach.errors import UnknownOutcomeError


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


def test_who_waits_is_served_in_turn():
    async def scene():
        window, order = InFlight(2), []
        assert window.try_enter()
        assert window.try_enter()
        assert not window.try_enter()

        async def enter(name):
            await window.enter()
            order.append(name)

        tasks = [asyncio.create_task(enter(name)) for name in "abc"]
        await turns()
        assert order == []
        window.leave(2)
        assert not window.try_enter()  # nobody pushes in
        await turns()
        assert order == ["a", "b"]
        window.leave()
        await asyncio.gather(*tasks)
        assert order == ["a", "b", "c"]
        window.leave(2)
        assert window.try_enter()

    asyncio.run(scene())


def test_who_gives_up_takes_no_room_along():
    async def scene():
        window = InFlight(1)
        await window.enter()
        early, late = (asyncio.create_task(window.enter()) for _ in range(2))
        await turns()
        early.cancel()  # while it waits
        await turns()
        window.leave()
        late.cancel()  # when it has been given room already
        await turns()
        assert late.cancelled()
        assert window.try_enter()
        assert not window.try_enter()

    asyncio.run(scene())


def test_a_confirmation_answers_all_that_it_stands_for_and_gives_their_room_back():
    async def scene():
        underway = InFlight(3)
        ids = [EventId("p", 7, n) for n in (1, 2, 3)]
        futures = []
        for event_id in ids:
            assert underway.try_enter()
            futures.append(underway.sent(event_id))
        assert not underway.try_enter()
        futures[1].cancel()
        underway.confirmed(2, 5)  # also of events that nobody here has sent
        assert await futures[0] == ids[0]
        assert underway.ids == [ids[2]]
        underway.failed(ids[2], UnknownOutcomeError(str(ids[2]), "test"))
        with pytest.raises(UnknownOutcomeError):
            await futures[2]
        assert not underway
        underway.failed(ids[2], UnknownOutcomeError(str(ids[2]), "twice"))
        assert [underway.try_enter() for _ in range(4)] == [True, True, True, False]

    asyncio.run(scene())
