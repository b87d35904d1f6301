"""Clients of another system that go to and fro between its servers, by disconnecting here and connecting there.

What they get is counted, topic by topic: a topic has one publisher, who numbers its events, and one subscriber. It is
the comparison for movements as transactions (`tests/long_run.py moves --peers`): the same clients, pauses and events.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol, TypeAlias

TICK_SECONDS = 0.005  # how often publishers look what is due
QUIET_SECONDS = 1.0
QUIET_SECONDS_MAX = 30.0
CONNECT_SECONDS_MAX = 30.0

Heard: TypeAlias = Callable[[int], None]  # the number of an event


class Guest(Protocol):
    """A connected client."""

    async def publish(self, topic: str, number: int) -> None: ...

    async def leave(self) -> None:
        """Disconnect as the client library means it to be done."""
        ...


class MovingSystem(Protocol):
    @property
    def name(self) -> str: ...

    def missing(self) -> str:
        """What is not installed here; empty where nothing is."""
        ...

    def serve(self, count: int, directory: Path) -> AbstractContextManager[Sequence[str]]:
        """So many servers that pass on to each other what is published; their addresses."""
        ...

    async def connect(self, address: str, name: str, topic: str = "", heard: Heard | None = None) -> Guest:
        """Returns once the server has confirmed the subscription to the topic, if there is one."""
        ...


class MovingLoad(NamedTuple):
    """`pause`: seconds between two moves of a client, on average. Clients begin anywhere."""

    servers: int
    clients: int
    publishers: int
    events_per_second: float
    seconds: float
    pause: float
    seed: int


@dataclass
class Topic:
    """What became of the events of one topic."""

    published: int = 0
    numbers: dict[int, int] = field(default_factory=dict)  # how often each has come
    reordered: int = 0
    is_warm: bool = False  # number 0 has come, which is no event: servers have found each other
    _highest: int = 0

    def heard(self, number: int) -> None:
        if not number:
            self.is_warm = True
            return
        self.reordered += number < self._highest
        self._highest = max(self._highest, number)
        self.numbers[number] = self.numbers.get(number, 0) + 1


class Losses(NamedTuple):
    """Of so many events, each for one client, what had come when all was quiet."""

    system: str
    moves: int
    published: int
    lost: int
    doubled: int
    reordered: int

    def __str__(self) -> str:
        came = f"{self.lost:,} lost, {self.doubled:,} doubled, {self.reordered:,} out of order"
        return f"{self.system}: {self.moves:,} movements, {self.published:,} events, {came}"


async def moved(system: MovingSystem, plan: MovingLoad, directory: Path) -> Losses:
    """Start servers, have clients go to and fro between them under load, and count."""
    rng = Random(plan.seed)
    topics = [Topic() for _ in range(plan.clients)]
    with system.serve(plan.servers, directory) as addresses:
        travellers = [Traveller(system, number, topics[number], addresses, rng) for number in range(plan.clients)]
        async with AsyncExitStack() as stack:
            for traveller in travellers:
                await stack.enter_async_context(traveller.there())
            publishers = [await system.connect(rng.choice(addresses), f"p{n}") for n in range(plan.publishers)]
            for publisher in publishers:
                stack.push_async_callback(publisher.leave)
            await _warmed_up(publishers, topics)
            until = asyncio.get_running_loop().time() + plan.seconds
            load = asyncio.create_task(_published(publishers, topics, plan))
            await asyncio.gather(*(traveller.to_and_fro(until, plan.pause) for traveller in travellers))
            load.cancel()
            await _quiet(topics)
    return Losses(
        system.name,
        sum(traveller.moves for traveller in travellers),
        sum(topic.published for topic in topics),
        sum(topic.published - len(topic.numbers) for topic in topics),
        sum(sum(topic.numbers.values()) - len(topic.numbers) for topic in topics),
        sum(topic.reordered for topic in topics),
    )


class Traveller:
    def __init__(self, system: MovingSystem, number: int, topic: Topic, addresses: Sequence[str], rng: Random) -> None:
        self._system = system
        self._name = str(number)
        self._topic = topic
        self._here, self._other = rng.sample(addresses, 2)
        self._pauses = Random(f"{number}/{rng.random()}")
        self._guest: Guest | None = None
        self.moves = 0

    @asynccontextmanager
    async def there(self) -> AsyncIterator[None]:
        """Connected, wherever it is by then."""
        await self._connect()
        try:
            yield
        finally:
            if self._guest:
                await self._guest.leave()

    async def _connect(self) -> None:
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            self._guest = await self._system.connect(self._here, f"k{self._name}", self._name, self._topic.heard)

    async def to_and_fro(self, until: float, pause: float) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(pause * self._pauses.uniform(0.2, 1.8))
            if clock() >= until:
                return
            assert self._guest
            await self._guest.leave()
            self._here, self._other = self._other, self._here
            await self._connect()
            self.moves += 1


async def _warmed_up(publishers: Sequence[Guest], topics: Sequence[Topic]) -> None:
    """Wait until something comes through to everybody: servers do not say when they have found each other."""
    async with asyncio.timeout(CONNECT_SECONDS_MAX):
        while cold := [number for number, topic in enumerate(topics) if not topic.is_warm]:
            for number in cold:
                await publishers[number % len(publishers)].publish(str(number), 0)
            await asyncio.sleep(10 * TICK_SECONDS)


async def _published(publishers: Sequence[Guest], topics: Sequence[Topic], plan: MovingLoad) -> None:
    """Until it is cancelled: the topics in turn, each by its own publisher."""
    clock = asyncio.get_running_loop().time
    started, count = clock(), 0
    while True:
        while count < (clock() - started) * plan.events_per_second:
            number = count % len(topics)
            topic = topics[number]
            topic.published += 1
            await publishers[number % len(publishers)].publish(str(number), topic.published)
            count += 1
        await asyncio.sleep(TICK_SECONDS)


async def _quiet(topics: Sequence[Topic]) -> None:
    """Wait until nothing more comes."""
    clock = asyncio.get_running_loop().time
    deadline, before = clock() + QUIET_SECONDS_MAX, -1
    while (count := sum(sum(topic.numbers.values()) for topic in topics)) != before and clock() < deadline:
        before = count
        await asyncio.sleep(QUIET_SECONDS)
