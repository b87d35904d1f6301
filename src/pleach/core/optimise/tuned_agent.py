"""An agent that finds its own radius, interval and cache: the messages of `agent.py`, paced by `looking.py`.

                 look(cost of events since)                 once per broadcast interval, by the host
    B ──Broadcast──▶ … ──▶ A                               as many hops as B can pay for
    A ──Request────▶ … ──▶ B                               B pays for those, too
    B: Agreed, the overlay exchanges the links, `exchanged` at all brokers of the cycle

What others told is kept for as long as samples reach back: whoever looks seldom is not forgotten in between, which S1
§5.8 asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from math import fsum

import msgspec

from pleach.core.messages import Node
from pleach.core.optimise.agent import Action, Agent, Broadcast, Outgoing, Request, Tuning
from pleach.core.optimise.heuristics import Heuristic
from pleach.core.optimise.looking import Purse, Rings, prices_of, told
from pleach.core.optimise.sample import HORIZON, Sample


class TunedAgent:
    def __init__(self, name: Node, processing: float, reach: Callable[[Node], float], heuristic: Heuristic) -> None:
        self.sample = Sample()
        self._agent = Agent(name, processing, reach, heuristic, Tuning(update_interval=HORIZON), self.sample)
        self._processing, self._reach = processing, reach
        self._purse = Purse()
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
        self._purse = self._purse.earned(cost_of_events, prices)
        hops = self._purse.radius(prices)
        if hops is None:
            return []
        self._purse = self._purse.looked(prices[hops])
        return self._priced(self._agent.broadcast(hops))

    def handle(self, message: Broadcast | Request, now: float) -> list[Action]:
        match message:
            case Broadcast(path=path, beyond=beyond) if path[-1] in self._beyond:
                self._beyond[path[-1]] = beyond
            case Request(path=path) if path[-1] == self.name:
                self._purse = self._purse.asked(_price(message))
            case _:
                pass
        return self._priced(self._agent.handle(message, now))

    def exchanged(self) -> None:
        """The broker was on the cycle of an exchange that has been carried out."""
        self._purse = self._purse.exchanged()

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
