"""Trees for tests, and what can be said of them by other means: Prüfer codes, union-find, breadth-first search."""

from __future__ import annotations

import heapq
import itertools
from collections import deque

from pleach.core.overlay.plans import AddStep, ExchangeStep, RemoveStep, SwapStep, Topology


def pair(a, b):
    return (min(a, b), max(a, b))


def prufer_links(code, names):
    """The tree of a Prüfer code (indexes into `names`): every labelled tree has exactly one."""
    degree = [1 + code.count(i) for i in range(len(names))]
    leaves = [i for i, d in enumerate(degree) if d == 1]
    heapq.heapify(leaves)
    links = []
    for i in code:
        links.append(pair(names[heapq.heappop(leaves)], names[i]))
        degree[i] -= 1
        if degree[i] == 1:
            heapq.heappush(leaves, i)
    return [*links, pair(names[heapq.heappop(leaves)], names[heapq.heappop(leaves)])]


def all_trees(names):
    """Every tree over these names, at least two, as frozensets of links."""
    codes = itertools.product(range(len(names)), repeat=len(names) - 2)
    return [frozenset(prufer_links(code, names)) for code in codes]


def names_of(count, prefix="b"):
    return [f"{prefix}{i}" for i in range(count)]


def random_tree(random, names):
    """Uniform over all labelled trees."""
    if len(names) == 1:
        return Topology.of([], names)
    return Topology.of(prufer_links([random.randrange(len(names)) for _ in names[2:]], names))


def is_tree(brokers, links):
    root = {broker: broker for broker in brokers}

    def find(broker):
        while root[broker] != broker:
            broker = root[broker]
        return broker

    for a, b in links:
        if find(a) == find(b):
            return False
        root[find(a)] = find(b)
    return len({find(broker) for broker in brokers}) == 1


def replayed(brokers, links, step):
    """A step on plain sets, by the definition in S0 §IV; asserts what it needs."""
    match step:
        case SwapStep(a, b, c):
            assert pair(a, b) in links
            assert pair(b, c) in links
            assert a != c
            return brokers, links - {pair(a, b)} | {pair(a, c)}
        case ExchangeStep((x, y), (u, v), _):
            assert pair(x, y) in links
            assert pair(u, v) not in links
            exchanged = links - {pair(x, y)} | {pair(u, v)}
            assert is_tree(brokers, exchanged)
            return brokers, exchanged
        case AddStep(broker, to):
            assert broker not in brokers
            assert to in brokers
            return brokers | {broker}, links | {pair(broker, to)}
        case RemoveStep(broker):
            (only,) = [link for link in links if broker in link]
            return brokers - {broker}, links - {only}


def swaps_from(links):
    """All swaps that a tree allows, as triples."""
    around = {}
    for a, b in links:
        around.setdefault(a, []).append(b)
        around.setdefault(b, []).append(a)
    return [(a, b, c) for b, others in around.items() for a, c in itertools.permutations(others, 2)]


def swap_distances(target):
    """From every tree over the same brokers the least number of swaps to this one (a swap can be swapped back)."""
    distances = {target: 0}
    queue = deque([target])
    while queue:
        here = queue.popleft()
        for a, b, c in swaps_from(here):
            there = here - {pair(a, b)} | {pair(a, c)}
            if there not in distances:
                distances[there] = distances[here] + 1
                queue.append(there)
    return distances


def check_plan(plan):
    """Every step leaves a tree; the result is what the plan says; waves are disjoint and respect dependencies."""
    brokers, links = frozenset(plan.start.brokers), frozenset(plan.start.links)
    for step in plan.steps:
        brokers, links = replayed(brokers, links, step)
        assert is_tree(brokers, links)
    assert brokers == frozenset(plan.result.brokers)
    assert links == frozenset(plan.result.links)
    assert sorted(itertools.chain.from_iterable(plan.waves)) == list(range(len(plan.steps)))
    for wave in plan.waves:
        touched = [broker for index in wave for broker in plan.touched[index]]
        assert len(touched) == len(set(touched))
    wave_of = {index: number for number, wave in enumerate(plan.waves) for index in wave}
    for index, needed in enumerate(plan.dependencies):
        assert all(wave_of[other] < wave_of[index] for other in needed)


def any_order(plan, random):
    """All steps in some order in which those that share a broker keep theirs."""
    left = list(range(len(plan.steps)))
    while left:
        free = [i for i in left if not any(j < i and set(plan.touched[i]) & set(plan.touched[j]) for j in left)]
        chosen = random.choice(free)
        left.remove(chosen)
        yield plan.steps[chosen]
