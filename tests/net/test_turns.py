"""Connections that have more to handle go on one after another: whatever else the loop has to do comes in between."""

import asyncio

from pleach.net.connection import Turns


def test_one_goes_on_in_a_turn_of_the_loop_and_in_the_order_in_which_they_wait():
    async def go():
        turns, seen, left = Turns(), [], {"a": 2, "b": 1, "c": 1}

        def take_turn(name):
            seen.append(name)
            left[name] -= 1
            if left[name]:
                turns.wait(lambda: take_turn(name))

        for name in left:
            turns.wait(lambda name=name: take_turn(name))
        for n in range(5):
            await asyncio.sleep(0)
            assert len(seen) == min(n + 1, 4)  # so this task, too, has its turn after each of them
        turns.wait(lambda: seen.append("later"))
        await asyncio.sleep(0)
        return seen

    assert asyncio.run(go()) == ["a", "b", "c", "a", "later"]


def test_a_failure_keeps_nobody_waiting():
    async def go():
        told, seen, turns = [], [], Turns()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
        turns.wait(lambda: 1 / 0)
        turns.wait(lambda: seen.append("next"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return told, seen

    (error,), seen = asyncio.run(go())
    assert isinstance(error, ZeroDivisionError)
    assert seen == ["next"]
