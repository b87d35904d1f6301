"""Virtual time for rings: the same run for the same seed, and nothing for those who are gone."""

from pleach.core.messages import Peer
from pleach.core.ring.chord import RingPhase
from pleach.core.ring.config import RingConfig
from pleach.core.ring.effects import OwnerFound
from pleach.sim.ring_network import RingNetwork

CONFIG = RingConfig(bits=6)


def peer(key):
    return Peer(key, f"h{key}")


def grown(seed="s", **options):
    network = RingNetwork(CONFIG, seed, **options)
    network.add(peer(0))
    for key in range(7, 60, 7):
        network.add(peer(key), [peer(0)])
        network.run(network.now + 2.0)
    return network


def heard(seed, **options):
    network = RingNetwork(CONFIG, seed, **options)
    casts = []
    network.on_cast = lambda now, sender, cast: casts.append((now, sender, cast))
    network.add(peer(0))
    network.add(peer(20), [peer(0)])
    network.run(10.0)
    return casts


def test_the_same_seed_gives_the_same_run():
    assert heard("a") == heard("a")
    assert heard("a") != heard("b")
    assert heard("a", loss=0.3) == heard("a", loss=0.3)


def test_latency_lies_between_its_bounds():
    network = RingNetwork(CONFIG, "s", latency=(0.5, 0.5))
    network.add(peer(0))
    network.add(peer(20), [peer(0)])
    network.run(0.999)
    assert network.hosts["h20"].phase is RingPhase.JOINING
    network.run(1.0)
    assert network.hosts["h20"].phase is RingPhase.MEMBER


def test_where_all_is_lost_nobody_joins():
    network = RingNetwork(CONFIG, "s", loss=1.0)
    network.add(peer(0))
    network.add(peer(20), [peer(0)])
    network.run(60.0)
    assert "none of the seeds answers" in network.refusals["h20"]


def test_who_has_failed_gets_nothing_and_neither_does_its_successor_in_name():
    """What was sent to a host that is gone is not for the one that comes after it under the same name."""
    network = RingNetwork(CONFIG, "s", latency=(1.0, 1.0))
    network.add(peer(0))
    network.add(peer(20), [peer(0)])
    network.run(1.5)  # the answer is under way
    network.fail("h20")
    network.add(peer(20), [peer(40)])
    network.run(2.5)
    assert network.hosts["h20"].phase is RingPhase.JOINING


def test_look_ups_are_answered_by_their_number_and_neighbours_are_told():
    network = grown()
    told = []
    network.on_neighbours = lambda now, host, neighbours: told.append((host, neighbours))
    first, second = network.look_up("h0", 15), network.look_up("h0", 60)
    network.fail("h28")
    network.run(network.now + 10.0)
    assert isinstance(network.found[first], OwnerFound)
    assert (network.found[first].owner.key, network.found[second].owner.key) == (21, 0)
    assert told
    assert all(host != "h28" for host, _ in told)
