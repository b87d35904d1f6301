"""Many requests, so many at a time."""

import asyncio

import pytest

from pleach.net.concurrency import at_most


@pytest.mark.parametrize(("limit", "items"), [(1, 5), (3, 10), (8, 2), (2, 0)])
def test_never_more_than_so_many_are_under_way_and_answers_are_in_order(limit, items):
    under_way, most = 0, 0

    async def work(item):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(items - item):  # the last ones are done first
            await asyncio.sleep(0)
        under_way -= 1
        return item

    assert asyncio.run(at_most(limit, work, range(items))) == list(range(items))
    assert most == min(limit, items)


def test_what_one_raises_is_raised():
    async def work(item):
        if item == 2:
            raise ValueError(item)

    with pytest.raises(ValueError, match="2"):
        asyncio.run(at_most(2, work, range(4)))
