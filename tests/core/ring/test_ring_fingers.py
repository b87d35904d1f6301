"""State that only costs: fingers that are right after a rest, and look-ups that are short because of that."""

from __future__ import annotations

import pytest

from pleach.core.ring import tree_keeper
from pleach.core.ring.chord import Chord
from pleach.core.ring.config import RingConfig
from pleach.core.ring.tree_keeper import KeeperPhase, TreeKeeper
from pleach.core.ring.view import RingView
from support.ring.fingers import dear_look_ups, flaws_of_fingers, rest
from support.ring.rings import Churn, settle
from support.thorough import FACTOR

CONFIGS = {
    "few bits": RingConfig(bits=6, successors=3, survey_every=1000.0),
    "many bits": RingConfig(bits=10, successors=2, survey_every=1000.0),
}


def churned(config, seed, hosts=14):
    churn = Churn(config, f"fingers/{seed}", hosts)
    for _ in range(2 * hosts):
        churn.burst(2)
        churn.network.run(churn.network.now + config.stabilise_every)
    assert settle(churn.network, config) == []
    rest(churn.network, config)
    return churn.network


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(2 * FACTOR))
def test_after_a_rest_each_finger_is_the_true_successor_of_its_key(name, seed):
    network = churned(CONFIGS[name], seed)
    assert flaws_of_fingers(network.members(), CONFIGS[name]) == []
    assert dear_look_ups(network, CONFIGS[name], seed) == []


def nothing(*_args, **_more):
    return []


@pytest.mark.parametrize(("owner", "method"), [(Chord, "_fix_a_finger"), (Chord, "finger"), (RingView, "follow")])
def test_fingers_that_are_not_kept_up_are_noticed(monkeypatch, owner, method):
    config = CONFIGS["few bits"]
    if method == "follow":  # lower fingers stay, though nobody refreshes them any more
        follow = RingView.follow

        def hoarding(self, peers):
            before = dict(self.fingers)
            follow(self, peers)
            self.fingers = before

        monkeypatch.setattr(RingView, "follow", hoarding)
    else:
        monkeypatch.setattr(owner, method, nothing)
    assert any(kept_up_wrongly(config, seed) for seed in range(4))


def kept_up_wrongly(config, seed):
    network = churned(config, seed)
    stale = [number for host in network.members() for number in host.view.fingers if number < host.view.first_finger]
    return stale or flaws_of_fingers(network.members(), config)


def test_look_ups_that_take_the_next_host_each_time_are_noticed(monkeypatch):
    config = CONFIGS["many bits"]
    next_hop = RingView.next_hop

    def timid(self, key, avoid=()):
        hop = next_hop(self, key, avoid)
        return hop if hop is None or hop.is_last else hop._replace(peer=self.successors[0])

    monkeypatch.setattr(RingView, "next_hop", timid)
    assert dear_look_ups(churned(config, 0, hosts=24), config, 0)


def test_a_survey_that_is_given_up_is_not_settled(monkeypatch):
    """It asks for more than it may: the tree that it knows stays as it was, and the next check begins another one."""
    monkeypatch.setattr(tree_keeper, "LOOKUPS_MAX", 1)
    config = CONFIGS["few bits"]
    given_up = []
    look_up = TreeKeeper._look_up

    def noted(self, keys, now):
        effects = look_up(self, keys, now)
        if self._looked_up > 1:
            given_up.append(self.standing)
            assert effects == []
        return effects

    monkeypatch.setattr(TreeKeeper, "_look_up", noted)
    churn = Churn(config, "given up", 8)
    for _ in range(6):
        churn.come()
        churn.network.run(churn.network.now + 3.0)
    assert given_up
    assert set(given_up) == {KeeperPhase.DUE}
