"""An agent with a broadcast budget and a sample: the messages of `agent.py`, message by message, for tests.

                 look(cost of events since)                 once per broadcast interval, by the host
    B ──Broadcast──▶ … ──▶ A                               as many hops as B can pay for
    A ──Request────▶ … ──▶ B                               B pays for those, too
    B: Agreed, the overlay exchanges the links, `exchanged` at all brokers of the cycle

What others told is kept for as long as samples reach back: whoever looks seldom is not forgotten in between, which S1
§5.8 asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, zip_longest
from math import fsum
from typing import TypeAlias

import msgspec

from pleach.core.messages import Node
from pleach.lab.improve.broadcast_budget import RADIUS_MAX, BroadcastBudget
from pleach.lab.improve.sampling import HORIZON
from support.optimise.agent import Action, Agent, Broadcast, Outgoing, Request, Tuning
from support.optimise.heuristics import Heuristic
from support.optimise.sample import Sample

Rings: TypeAlias = tuple[float, ...]  # what the brokers at distance 1, 2, … cost to reach; none behind the last


class TunedAgent:
    def __init__(self, name: Node, processing: float, reach: Callable[[Node], float], heuristic: Heuristic) -> None:
        self.sample = Sample()
        self._agent = Agent(name, processing, reach, heuristic, Tuning(update_interval=HORIZON), self.sample)
        self._processing, self._reach = processing, reach
        self._budget = BroadcastBudget()
        self._beyond: dict[Node, Rings] = {}

    @property
    def name(self) -> Node:
        return self._agent.name

    @property
    def neighbours(self) -> frozenset[Node]:
        return frozenset(self._agent.neighbours)

    @property
    def prices(self) -> list[float]:
        """What looks of 0, 1, 2, … hops cost, as far as neighbours have told."""
        return prices_of(self._processing, self._beyond)

    def joined(self, neighbour: Node) -> None:
        """Of what is beyond the neighbour nothing is known before it broadcasts."""
        self._agent.neighbours.add(neighbour)
        self._beyond[neighbour] = (self._reach(neighbour),)

    def left(self, neighbour: Node) -> None:
        self._agent.neighbours.remove(neighbour)
        del self._beyond[neighbour]

    def look(self, cost_of_events: float, now: float) -> list[Action]:
        """`cost_of_events`: at this broker since it was last asked, p of each and half of each link."""
        self.sample.forget(now)
        prices = self.prices
        self._budget = self._budget.earned(cost_of_events, prices)
        hops = self._budget.radius(prices)
        if hops is None:
            return []
        self._budget = self._budget.broadcast(prices[hops])
        return self._priced(self._agent.broadcast(hops))

    def handle(self, message: Broadcast | Request, now: float) -> list[Action]:
        match message:
            case Broadcast(path=path, beyond=beyond) if path[-1] in self._beyond:
                self._beyond[path[-1]] = beyond
            case Request(path=path) if path[-1] == self.name:
                self._budget = self._budget.requested(_price(message))
            case _:
                pass
        return self._priced(self._agent.handle(message, now))

    def exchanged(self) -> None:
        """The broker was on the cycle of an exchange that has been carried out."""
        self._budget = self._budget.exchanged()

    def _priced(self, actions: list[Action] | list[Outgoing]) -> list[Action]:
        """With each broadcast, its own or another's, a neighbour learns what is beyond this broker."""
        return [self._with_beyond(action) for action in actions]

    def _with_beyond(self, action: Action) -> Action:
        match action:
            case Outgoing(to=to, message=Broadcast() as message):
                beyond = told(self._processing, self._reach(to), to, self._beyond)
                return Outgoing(to, msgspec.structs.replace(message, beyond=beyond))
            case _:
                return action


def _price(request: Request) -> float:
    """Along the path; the last link of the cycle is the one that is asked for."""
    return fsum((*request.processing, *request.communication[:-1]))


def prices_of(processing: float, beyond: Mapping[Node, Rings]) -> list[float]:
    """The prices of broadcasts of this broker, by what each of its neighbours has told."""
    return list(accumulate(_together(list(beyond.values())), initial=processing))[: RADIUS_MAX + 1]


def told(processing: float, communication: float, there: Node, beyond: Mapping[Node, Rings]) -> Rings:
    """What a broker tells a neighbour: the cost of reaching it, and all that is beyond it."""
    others = [rings for neighbour, rings in beyond.items() if neighbour != there]
    return (processing + communication, *_together(others))[:RADIUS_MAX]


def _together(rings: Sequence[Rings]) -> Rings:
    return tuple(map(fsum, zip_longest(*rings, fillvalue=0.0)))
