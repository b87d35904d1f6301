"""Hosts come, leave and fail by the thousand; whenever it is quiet the tree is the one that S3 defines."""

from collections import Counter

import pytest

from pleach.core.ring.config import RingConfig
from pleach.core.ring.lookups import Mode
from support.ring.rings import Churn, naive_parents, settle
from support.thorough import FACTOR

OPERATIONS = 500 * FACTOR  # PLEACH_THOROUGH=20 makes 10,000
BURST_MAX = 12


def degrees(network):
    return Counter(len(host.neighbourhood.all) for host in network.hosts.values())


@pytest.mark.heavy
def test_s3_4_2_1_a_tree_of_degree_three_at_most_after_every_burst():
    config = RingConfig(bits=8)
    churn = Churn(config, "churn", 40)
    while churn.operations < OPERATIONS:
        churn.burst(churn.random.randint(1, BURST_MAX))
        assert settle(churn.network, config) == [], churn.operations
        assert max(degrees(churn.network)) <= 3
    parents = naive_parents(config.bits, config.degree, churn.keys)
    assert len(parents) == len(churn.keys) - 1
    assert not churn.network.refusals


@pytest.mark.parametrize("degree", [4, 8])
def test_other_degrees(degree):
    config = RingConfig(bits=7, degree=degree)
    churn = Churn(config, f"{degree}", 25)
    while churn.operations < OPERATIONS // 10:
        churn.burst(churn.random.randint(1, 5))
        assert settle(churn.network, config) == [], churn.operations


def test_lost_messages_do_no_lasting_harm():
    """One in ten. While they are lost hosts take each other for dead now and then, and it shows."""
    config = RingConfig(bits=7)
    churn = Churn(config, "lossy", 25)
    while churn.operations < OPERATIONS // 10:
        churn.network.loss = 0.1
        churn.burst(3)
        churn.network.run(churn.network.now + 5.0)
        churn.network.loss = 0.0
        assert settle(churn.network, config) == [], churn.operations


@pytest.mark.parametrize("mode", Mode)
def test_look_ups_find_the_owner_while_hosts_come_and_go(mode):
    """Found or not, but never the wrong one: the owner answers for itself."""
    config = RingConfig(bits=8)
    churn = Churn(config, mode, 40)
    for _ in range(12):
        churn.burst(4)
        churn.network.run(churn.network.now + 3.0)
    settle(churn.network, config)
    asked = {}
    for _ in range(6):
        churn.burst(3)
        for host in churn.network.members():
            key = churn.random.randrange(config.circle.size)
            asked[churn.network.look_up(host.me.name, key, mode)] = key
        churn.network.run(churn.network.now + 0.3)
    churn.network.run(churn.network.now + 20.0)
    found = [churn.network.found[number] for number in asked if hasattr(churn.network.found.get(number), "owner")]
    assert len(found) > 0.8 * len(asked)
    assert settle(churn.network, config) == []
    for host in churn.network.members():
        key = churn.random.randrange(config.circle.size)
        asked[churn.network.look_up(host.me.name, key, mode)] = key
        churn.network.run(churn.network.now + 2.0)
        answer = churn.network.found[max(asked)]
        assert answer.owner.key == next((each for each in churn.keys if each >= key), churn.keys[0])
        assert answer.hops <= 8
