"""A small network of agents that tune themselves, message by message, until it comes to rest."""

from itertools import pairwise

import pytest

from pleach.lab.improve.broadcast_budget import RADIUS_MAX, RADIUS_MIN
from support.optimise.agent import Agreed, Broadcast, Outgoing, Request, place_of
from support.optimise.heuristics import HEURISTICS
from support.optimise.tuned_agent import TunedAgent

LINE = [f"b{i}" for i in range(9)]
ENDS = LINE[0], LINE[3]
EVERY = 250.0
PASSING = 9.0


class Network:
    """A line of brokers; b0 and b3 consume the same events, others none. Links cost 1, brokers 9."""

    def __init__(self, heuristic="lmst"):
        self.agents = {name: TunedAgent(name, PASSING, lambda _: 1.0, HEURISTICS[heuristic]) for name in LINE}
        for one, other in pairwise(LINE):
            self.join(one, other)
        self.exchanges, self.broadcasts = [], []

    def join(self, one, other):
        self.agents[one].joined(other)
        self.agents[other].joined(one)

    def round(self, number, cost_of_events):
        now = number * EVERY
        for name in ENDS:
            for event in range(20):
                self.agents[name].sample.consumed(f"p/{number}/{event}", now)
        for name in LINE:
            self._deliver(self.agents[name].look(cost_of_events, now), now)

    def _deliver(self, actions, now):
        waiting = list(actions)
        while waiting:
            match waiting.pop(0):
                case Outgoing(to=to, message=message):
                    if isinstance(message, Broadcast):
                        self.broadcasts.append((now, message))
                    waiting += self.agents[to].handle(message, now)
                case Agreed() as agreed:
                    self._exchange(agreed)

    def _exchange(self, agreed):
        place = place_of(agreed)
        one, other = agreed.path[place], agreed.path[place + 1]
        if any(b not in self.agents[a].neighbours for a, b in pairwise(agreed.path)):
            return
        self.agents[one].left(other)
        self.agents[other].left(one)
        self.join(agreed.path[0], agreed.path[-1])
        for name in agreed.path:
            self.agents[name].exchanged()
        self.exchanges.append(agreed.exchange)


def hops_of(network):
    return {message.hops for _, message in network.broadcasts}


def test_brokers_learn_from_each_other_what_looks_cost():
    network = Network()
    for number in range(12):
        network.round(number, 5_000.0)
    assert network.agents["b0"].prices == pytest.approx([9.0 + 10.0 * hops for hops in range(RADIUS_MAX + 1)])
    assert network.agents["b4"].prices == pytest.approx([9.0, 29.0, 49.0, 69.0, 89.0])


def test_much_traffic_pays_for_far_looks_and_little_for_near_and_rare_ones():
    busy, idle = Network(), Network()
    for number in range(60):
        busy.round(number, 20_000.0)
        idle.round(number, 100.0)
    assert max(hops_of(busy)) == RADIUS_MAX
    settled = {message.hops for at, message in idle.broadcasts if at > 10 * EVERY and message.path == ("b0",)}
    assert settled <= {RADIUS_MIN}
    assert 0 < len(idle.broadcasts) < len(busy.broadcasts) / 4


def test_a_broadcast_goes_as_far_as_its_origin_says_and_no_farther():
    network = Network()
    for number in range(20):
        network.round(number, 20_000.0)
    assert all(len(message.path) <= message.hops for _, message in network.broadcasts)
    assert max(len(message.path) for _, message in network.broadcasts) == RADIUS_MAX


def test_no_traffic_pays_for_nothing():
    network = Network()
    for number in range(20):
        network.round(number, 0.0)
    assert network.broadcasts == []


def test_brokers_with_traffic_of_their_own_get_their_link_and_then_there_is_rest():
    network = Network("ci")
    for number in range(80):
        network.round(number, 5_000.0)
    assert [exchange.add for exchange in network.exchanges] == [ENDS]
    assert ENDS[1] in network.agents[ENDS[0]].neighbours
    early = sum(1 for at, _ in network.broadcasts if at < 20 * EVERY)
    late = sum(1 for at, _ in network.broadcasts if at >= 60 * EVERY)
    assert 0 < late < early


def test_requests_have_to_be_paid_for():
    agent = TunedAgent("c", 1.0, lambda _: 1.0, HEURISTICS["lmst"])
    agent.joined("b")
    request = Request(("a", "b", "c"), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0))
    for _ in range(10):
        agent.handle(request, 0.0)
    assert agent.look(300.0, EVERY) == []  # earns 30, owes 50
    assert agent.look(300.0, 2 * EVERY)
