"""S3 §3.5: the example, by hosts that find out for themselves. Keys 1 to 15, and 0, which S3 has not."""

from __future__ import annotations

import pytest

from pleach.core.messages import Peer
from pleach.core.ring.config import RingConfig
from pleach.core.ring.keys import circle
from pleach.core.ring.reference_tree import reference_tree
from pleach.sim.ring_network import RingNetwork

HOSTS = (5, 9, 11, 13, 15)
CONFIG = RingConfig(bits=4, successors=4)


def host(key):
    return Peer(key, f"h{key}")


def children(network):
    """Of those that have any, as both sides see it."""
    hosts = sorted(network.hosts.values(), key=lambda each: each.me.key)
    downwards = {h.me.key: sorted(c.key for c in h.neighbourhood.children) for h in hosts}
    upwards = {h.me.key: h.neighbourhood.parent.key for h in hosts if h.neighbourhood.parent}
    assert {child: parent for parent, below in downwards.items() for child in below} == upwards
    return {key: below for key, below in downwards.items() if below}


def settled(config=CONFIG):
    network = RingNetwork(config, "S3")
    for key in HOSTS:
        network.add(host(key), [host(HOSTS[0])] if key != HOSTS[0] else [])
        network.run(network.now + 5.0)
    assert children(network) == {9: [5, 13], 13: [11, 15]}
    return network


def test_figure_1a_the_reference_tree():
    tree = reference_tree(circle(4))
    assert [branch.key for branch in tree.path(11)] == [8, 12, 10, 11]
    assert [branch.key for branch in tree.path(1)] == [8, 4, 2, 1]


def test_figure_2a_five_hosts():
    settled()


def test_figure_2b_host_4_joins_and_only_its_neighbours_take_notice():
    network = settled(RingConfig(bits=4, successors=4, check_tree_every=1000.0, survey_every=1000.0))
    looked = {name: each._tree._survey_number for name, each in network.hosts.items()}
    network.add(host(4), [host(13)])
    network.run(network.now + 10.0)
    assert children(network) == {4: [5], 9: [4, 13], 13: [11, 15]}
    for unaffected in ("h11", "h13", "h15"):
        assert network.hosts[unaffected]._tree._survey_number == looked[unaffected]


@pytest.mark.parametrize("go", ["fail", "leave"])
def test_figure_2c_host_13_goes(go):
    network = settled()
    getattr(network, go)("h13")
    network.run(network.now + 10.0)
    assert children(network) == {9: [5, 15], 15: [11]}
