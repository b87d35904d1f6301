"""A run of S1's agents event by event: caches, Bloom filters, broadcasts and requests (support/optimise/agent.py).

The reference for `lab/improve/rounds.py`, which computes with flows and shares no code with it. Steps and their
order are the same; false positives of Bloom filters make small differences.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from random import Random

from pleach.core.optimise.cost import Flow, flow_cost
from pleach.core.overlay.plans.topology import Topology
from pleach.lab.improve.contenders import costs_of, name_of
from pleach.lab.improve.rounds import STEPS, Tuning, first_tree
from pleach.lab.improve.setting import TICKS_PER_SLOT, Setting, Stay, eras_of, events_of, stays_of
from support.optimise import agent
from support.optimise.agent import Agent, Agreed, Outgoing, Request
from support.optimise.heuristics import HEURISTICS


class EventByEvent:
    """One run; `slot` gives the forwarding cost and the number of exchanges. Costs do not change."""

    def __init__(self, setting: Setting, seed: int, tuning: Tuning) -> None:
        draw = Random(f"tree/{seed}")
        self.tree = first_tree(setting, draw)
        phases = list(range(setting.brokers))
        draw.shuffle(phases)
        self._groups = [phases[step::STEPS] for step in range(STEPS)]
        eras = eras_of(setting, seed)
        self._tuning, self._costs = tuning, costs_of(eras[0])
        self._stays, self._events = stays_of(setting, seed, eras), events_of(setting, seed)
        self._agents = [self._agent(broker) for broker in range(setting.brokers)]
        for a, b in self.tree.links:
            self._joined(a, b)

    def _agent(self, broker: int) -> Agent:
        name, costs = name_of(broker), self._costs
        tuning = agent.Tuning(
            self._tuning.radius, update_interval=TICKS_PER_SLOT + 31, cache_size=self._tuning.cache_size
        )
        heuristic = HEURISTICS[self._tuning.heuristic]
        return Agent(name, costs.processing[name], lambda other: costs.of_link(name, other), heuristic, tuning)

    def _joined(self, a: int, b: int) -> None:
        self._agents[a].neighbours.add(name_of(b))
        self._agents[b].neighbours.add(name_of(a))

    def slot(self, slot: int) -> tuple[float, int]:
        cost, exchanges = 0.0, 0
        events = list(published(self._stays, self._events, slot))
        for group in self._groups:
            if slot * TICKS_PER_SLOT >= self._tuning.starts:
                exchanges += self._step(group, slot)
            cost += self._forwarding(stay for _, stay in events) / STEPS
        for event_id, stay in events:
            for broker in stay.members:
                self._agents[broker].cache.consumed(event_id, float(slot * TICKS_PER_SLOT))
        return cost, exchanges

    def _forwarding(self, events: Iterable[Stay]) -> float:
        topology = Topology.of((name_of(a), name_of(b)) for a, b in self.tree.links)
        of_stay = cache(lambda stay: flow_cost(flow_of(stay), topology, self._costs))
        return sum(map(of_stay, events))

    def _step(self, group: Sequence[int], slot: int) -> int:
        """First all broadcasts of the group, then all requests."""
        now, requests = float(slot * TICKS_PER_SLOT), deque[Outgoing]()
        for origin in group:
            waiting = deque(self._agents[origin].broadcast())
            while waiting:
                to, message = waiting.popleft()
                for action in self._agents[_number(to)].handle(message, now):
                    match action:
                        case Outgoing(message=Request()):
                            requests.append(action)
                        case Outgoing():
                            waiting.append(action)
        return sum(self._asked(request, now) for request in requests)

    def _asked(self, request: Outgoing, now: float) -> int:
        actions = [request]
        while actions:
            to, message = actions.pop()
            for action in self._agents[_number(to)].handle(message, now):
                match action:
                    case Outgoing():
                        actions.append(action)
                    case Agreed():
                        return self._exchanged(action)
        return 0

    def _exchanged(self, agreed: Agreed) -> int:
        path, place = tuple(_number(each) for each in agreed.path), agent.place_of(agreed)
        if not self.tree.has(path):
            return 0
        self.tree.exchange(path, place)
        self._agents[path[place]].neighbours.remove(agreed.path[place + 1])
        self._agents[path[place + 1]].neighbours.remove(agreed.path[place])
        self._joined(path[0], path[-1])
        return 1


def _number(name: str) -> int:
    return int(name[1:])


def flow_of(stay: Stay) -> Flow:
    publisher, *subscribers = map(name_of, stay.members)
    return Flow(publisher, frozenset(subscribers))


def published(stays: Sequence[Stay], events: Sequence[Sequence[float]], slot: int) -> Iterator[tuple[str, Stay]]:
    """The events of a slot with their ids, oldest first."""
    here = {stay.job: stay for stay in stays if stay.start <= slot < stay.end}
    first, last = slot * TICKS_PER_SLOT, (slot + 1) * TICKS_PER_SLOT
    found = sorted((at, job) for job, times in enumerate(events) for at in times if first <= at < last)
    yield from ((f"job{job}/0/{at!r}", here[job]) for at, job in found)
