"""The network of S1 Table A.1: its size, its degrees, that it is connected, and the ways through it."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pleach.core.overlay.plans import Topology
from pleach.lab.waxman import (
    LATENCY_MAX_SECONDS,
    TABLE_A1,
    Edge,
    Waxman,
    WaxmanNetwork,
    _placed,
    brokers_of,
    distances,
    random_tree,
)
from pleach.lab.waxman import network as grown

SMALL = Waxman(domains=5, nodes_per_domain=8)


@pytest.fixture(scope="module")
def full():
    return grown(0)


def test_the_network_of_table_a1_has_ten_thousand_nodes_and_is_connected(full):
    assert full.nodes == TABLE_A1.nodes == 10_000
    neighbours = {node: set() for node in range(full.nodes)}
    for a, b, _ in full.edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
    seen, waiting = {0}, [0]
    while waiting:
        fresh = neighbours[waiting.pop()] - seen
        seen |= fresh
        waiting += fresh
    assert len(seen) == full.nodes


def test_each_node_brings_two_links_and_each_domain_as_many_more(full):
    """The first of a domain brings none, and the second one only; the same for the first domains."""
    within = TABLE_A1.domains * (2 * TABLE_A1.nodes_per_domain - 3)
    between = 2 * TABLE_A1.domains - 3
    assert len(full.edges) == within + between
    assert len(full.crossing) == between


def test_no_node_has_fewer_than_its_own_links_and_some_have_many(full):
    degrees = Counter(node for edge in full.edges for node in (edge.a, edge.b))
    assert min(degrees.values()) >= 1
    assert sum(degree == 1 for degree in degrees.values()) <= TABLE_A1.domains  # the second of a domain, at most
    assert max(degrees.values()) >= 12


def test_links_are_much_shorter_than_chance_would_have_them(full):
    """What makes it a Waxman graph: β = 0.2 prefers the near."""
    lengths = [edge.length for edge in full.edges]
    anywhere = 0.52 * TABLE_A1.side  # the mean distance of two points in a square
    assert np.mean(lengths) < 0.75 * anywhere


def test_nodes_crowd_in_few_squares():
    """Heavy-tailed placement: the fullest tenth of the squares has much more than a tenth of the nodes."""
    spread = Waxman(domains=1, nodes_per_domain=2000, links_per_node=1)
    points = _placed(Random(1), spread.nodes, spread)
    counts = sorted(Counter((int(x // 100), int(y // 100)) for x, y in points).values(), reverse=True)
    assert sum(counts[:10]) > 0.3 * spread.nodes
    assert all(0 <= value <= spread.side for point in points for value in point)


def test_the_same_seed_gives_the_same_network_and_another_one_another():
    assert grown(3, SMALL) == grown(3, SMALL) != grown(4, SMALL)


# Distances ----------------------------------------------------------------------------------------------------


@given(st.integers(1, 4), st.integers(1, 4), st.data())
@settings(max_examples=80, deadline=None)
def test_distances_are_those_of_a_search_of_all_paths(domains, size, data):
    """Also where the shortest path between two nodes of a domain leads through others, and where there is none."""
    pairs = combinations(range(domains * size), 2)
    edges = [Edge(a, b, float(data.draw(st.integers(1, 9)))) for a, b in pairs if data.draw(st.booleans())]
    found = WaxmanNetwork(domains * size, size, tuple(edges))
    chosen = data.draw(st.permutations(range(found.nodes)))[: data.draw(st.integers(1, found.nodes))]
    wanted = brute_force(found)
    assert distances(found, chosen).tolist() == [[wanted[a][b] for b in chosen] for a in chosen]


def brute_force(found):
    """Floyd and Warshall, as slow as it is plain."""
    far = [[0.0 if i == j else float("inf") for j in range(found.nodes)] for i in range(found.nodes)]
    for a, b, length in found.edges:
        far[a][b] = far[b][a] = min(far[a][b], length)
    for k in range(found.nodes):
        for i in range(found.nodes):
            for j in range(found.nodes):
                far[i][j] = min(far[i][j], far[i][k] + far[k][j])
    return far


# Brokers ------------------------------------------------------------------------------------------------------


def test_every_two_brokers_have_a_latency_and_the_longest_is_that_of_s1():
    brokers = brokers_of(1, 12, SMALL)
    assert len(brokers.latency) == 12 * 11 // 2
    assert max(brokers.latency.values()) == pytest.approx(LATENCY_MAX_SECONDS)
    assert min(brokers.latency.values()) > 0.0
    Topology.of(brokers.links, brokers.names)  # raises if it is no tree


def test_latencies_are_distances_so_that_no_detour_is_shorter():
    latency = brokers_of(2, 10, SMALL).latency
    for a, b, c in combinations(sorted({name for ends in latency for name in ends}), 3):
        ab, bc, ac = (latency[tuple(sorted(pair))] for pair in ((a, b), (b, c), (a, c)))
        assert ac <= ab + bc + 1e-12


def test_all_sixteen_trees_of_four_come_up_equally_often():
    stream = Random(5)
    seen = Counter(random_tree(stream, "abcd") for _ in range(3200))
    assert len(seen) == 16
    assert min(seen.values()) > 140
