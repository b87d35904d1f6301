"""Room for events under way: served in turn, given back for many at once, not lost with who gave up waiting."""

import asyncio

from pleach.live.window import Window


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


def test_who_waits_is_served_in_turn():
    async def scene():
        window, order = Window(2), []
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
        window = Window(1)
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
