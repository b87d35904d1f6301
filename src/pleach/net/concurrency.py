"""Concurrent requests to brokers, bounded: more of them would delay each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


async def at_most(limit: int, work: Callable[[Item], Awaitable[Found]], items: Iterable[Item]) -> list[Found]:
    """`work` of each item, never more than `limit` of them under way; in the order of the items."""
    slots = asyncio.Semaphore(limit)

    async def one(item: Item) -> Found:
        async with slots:
            return await work(item)

    return await asyncio.gather(*map(one, items))
