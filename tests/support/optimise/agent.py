"""S1's agents (§5.5.4, Algorithms 17 and 18), message by message: the reference for the flows of `lab/improve`.

    B ──Broadcast──▶ … ──▶ A      every 250 ticks, 3 hops far: what B consumes, and what the way costs
    A evaluates (5.11): a link A–B?
    A ──Request────▶ … ──▶ B      each broker on the way adds (5.12), what the cycle costs it without each link
    B decides (5.14): Agreed

An agent knows its own cache, the cost of reaching others, and the broadcasts that it has received. Where it lacks one
of these it sends nothing and drops requests. Brokers do not run agents but councillors (core/optimise/council.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add, and_
from typing import NamedTuple, Protocol, TypeAlias

import msgspec

from pleach.core.messages import Node
from pleach.core.optimise.cache import CACHE_SIZE, Bloom, Cache
from pleach.core.optimise.heuristics import LinkExchangeChoice, cycle_links
from pleach.core.overlay.plans.topology import Link, link
from support.optimise.heuristics import Heuristic, decided

RADIUS = 3  # hops, S1 Table 5.2


class Broadcast(msgspec.Struct, frozen=True):
    """What the first broker of the path has to tell, on its way to the last."""

    summary: Bloom
    path: tuple[Node, ...]
    processing: tuple[float, ...]  # of each broker of the path
    communication: tuple[float, ...]  # of each link of the path
    hops: int = RADIUS  # how far it travels
    level: int = 0  # of the summary
    beyond: tuple[float, ...] = ()  # what it costs to reach each distance through who sent it (`tuned_agent.py`)


class Request(msgspec.Struct, frozen=True):
    """From the first broker of the path, which wants a link to the last one. Costs as it has heard them."""

    path: tuple[Node, ...]
    processing: tuple[float, ...]
    communication: tuple[float, ...]  # of each link of the cycle, the new one last
    totals: tuple[float, ...]  # without each link of the cycle


class Outgoing(NamedTuple):
    to: Node
    message: Broadcast | Request


class Agreed(NamedTuple):
    """All brokers of the path have been asked; the overlay may begin."""

    path: tuple[Node, ...]
    exchange: LinkExchangeChoice


Action: TypeAlias = Outgoing | Agreed


@dataclass(frozen=True)
class Tuning:
    """S1 Table 5.2."""

    radius: int = RADIUS  # hops
    update_interval: float = 281.0  # ticks, after which what was heard is stale
    cache_size: int = CACHE_SIZE


class EventMemory(Protocol):
    """The events that a broker remembers, those of a level and above (`sample.py`)."""

    @property
    def level(self) -> int: ...

    def consumed(self, event_id: str, now: float) -> None: ...

    def summary(self) -> Bloom: ...

    def common(self, other: Bloom, level: int) -> int:
        """The number of events that it has in common with a summary of this level."""
        ...


class RingMemory:
    """A cache of bounded size, which regards neither levels nor time."""

    level = 0

    def __init__(self, size: int) -> None:
        self._cache = Cache(size)

    def consumed(self, event_id: str, now: float = 0.0) -> None:
        del now
        self._cache.consumed(event_id)

    def summary(self) -> Bloom:
        return self._cache.summary()

    def common(self, other: Bloom, level: int) -> int:
        assert level == 0, "a sample cannot be compared with a ring: the filters differ in shape"
        return self._cache.common(other)


class _Heard(NamedTuple):
    summary: Bloom
    level: int
    at: float


class _UnheardError(Exception):
    """Somebody on the cycle has not broadcast yet, or not lately."""


class Agent:
    def __init__(
        self,
        name: Node,
        processing: float,
        reach: Callable[[Node], float],
        heuristic: Heuristic,
        tuning: Tuning,
        memory: EventMemory | None = None,
    ) -> None:
        """`reach`: what a link to another broker would cost, as this one measures it. `memory`: else a ring."""
        self.name = name
        self.neighbours: set[Node] = set()
        self.cache: EventMemory = RingMemory(tuning.cache_size) if memory is None else memory
        self._processing, self._reach = processing, reach
        self._heuristic, self._tuning = heuristic, tuning
        self._heard: dict[Node, _Heard] = {}

    def broadcast(self, hops: int | None = None) -> list[Outgoing]:
        """`hops`: else the radius that all have."""
        hops = self._tuning.radius if hops is None else hops
        summary, level = self.cache.summary(), self.cache.level
        return self._spread(Broadcast(summary, (self.name,), (self._processing,), (), hops, level))

    def _spread(self, message: Broadcast) -> list[Outgoing]:
        if len(message.path) > message.hops:
            return []
        return [Outgoing(there, message) for there in sorted(self.neighbours.difference(message.path))]

    def handle(self, message: Broadcast | Request, now: float) -> list[Action]:
        match message:
            case Broadcast():
                return self._on_broadcast(message, now)
            case Request():
                return self._on_request(message, now)

    def _on_broadcast(self, message: Broadcast, now: float) -> list[Action]:
        """Algorithm 17."""
        self._heard[message.path[0]] = _Heard(message.summary, message.level, now)
        self._forget(now)
        longer = Broadcast(
            message.summary,
            (*message.path, self.name),
            (*message.processing, self._processing),
            (*message.communication, self._reach(message.path[-1])),
            message.hops,
            message.level,
        )
        return [*self._evaluated(longer, now), *self._spread(longer)]

    def _forget(self, now: float) -> None:
        stale = [who for who, heard in self._heard.items() if now - heard.at > self._tuning.update_interval]
        for who in stale:
            del self._heard[who]

    def _evaluated(self, message: Broadcast, now: float) -> list[Action]:
        """The first broker of a request's path is who asks: the path of the broadcast backwards."""
        path = message.path[::-1]
        if len(path) <= 2:
            return []
        request = Request(
            path,
            message.processing[::-1],
            (*message.communication[::-1], self._reach(path[-1])),
            (0.0,) * len(path),
        )
        try:
            is_promising = self._heuristic.is_promising(path, self._view(request))
        except _UnheardError:
            return []
        return self._on_request(request, now) if is_promising else []

    def _on_request(self, message: Request, now: float) -> list[Action]:
        """Algorithm 18."""
        self._forget(now)
        try:
            mine = self._heuristic.removal_costs(self.name, message.path, self._view(message))
        except _UnheardError:
            return []
        totals = tuple(map(add, message.totals, mine))
        place = message.path.index(self.name)
        if place == len(message.path) - 1:
            exchange = decided(message.path, totals)
            return [Agreed(message.path, exchange)] if exchange else []
        there = message.path[place + 1]
        further = Request(message.path, message.processing, message.communication, totals)
        return [Outgoing(there, further)] if there in self.neighbours else []

    def _view(self, request: Request) -> _View:
        return _View(self.name, self.cache, self._heard, request)


class _View:
    """Costs from the request, common traffic from this broker's cache and the others' summaries."""

    def __init__(self, me: Node, cache: EventMemory, heard: dict[Node, _Heard], request: Request) -> None:
        self._me, self._cache, self._heard = me, cache, heard
        self._processing = dict(zip(request.path, request.processing, strict=True))
        links = (*pairwise(request.path), (request.path[-1], request.path[0]))
        self._communication: dict[Link, float] = dict(
            zip((link(a, b) for a, b in links), request.communication, strict=True)
        )
        self._counted: dict[frozenset[Node], int] = {}

    def common(self, *brokers: Node) -> float:
        others = frozenset(brokers) - {self._me}
        if others not in self._counted:
            heard = self._heard_of(sorted(others))
            level = max(each.level for each in heard)
            self._counted[others] = self._cache.common(reduce(and_, (each.summary for each in heard)), level)
        return self._counted[others]

    def _heard_of(self, others: Sequence[Node]) -> list[_Heard]:
        if not all(other in self._heard for other in others):
            raise _UnheardError
        return [self._heard[other] for other in others]

    def processing(self, broker: Node) -> float:
        return self._processing[broker]

    def communication(self, a: Node, b: Node) -> float:
        return self._communication[link(a, b)]


def place_of(agreed: Agreed) -> int:
    """Behind which broker of the path the link lies that goes."""
    return cycle_links(agreed.path).index(agreed.exchange.remove)
