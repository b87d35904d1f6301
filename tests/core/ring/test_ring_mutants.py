"""Rings with a rule left out: the judge of the other tests must see it."""

import pytest

from pleach.core.ring import view as views
from pleach.core.ring.chord import Chord, Reason
from pleach.core.ring.config import RingConfig
from pleach.core.ring.tree_keeper import TreeKeeper
from support.ring.rings import Churn, settle
from support.ring.unordered_hosts import Disorder

CONFIG = RingConfig(bits=6, successors=3, survey_every=1000.0)


def nothing(*_args, **_more):
    return []


def churned(config=CONFIG):
    """What is wrong after some bursts, if anything is."""
    churn = Churn(config, "mutant", 14)
    for _ in range(30):
        churn.burst(2)
        found = settle(churn.network, config, limit=40.0)
        if found:
            return found
    return []


def cut_off():
    """Two hosts that do not hear each other for some seconds; then they do."""
    world = Disorder(CONFIG)
    for key in (3, 41):
        world.come(key)
        assert world.calm() == []
    while not all(host.view.is_alone for host in world.hosts.values()):
        world.ring(min(world.timers, key=lambda timer: (world.timers[timer], timer)))
        world.messages.clear()
    return world.calm()


def test_without_a_mutant_all_is_right():
    assert churned() == []
    assert cut_off() == []


@pytest.mark.parametrize(
    ("owner", "method"),
    [
        (Chord, "_notify"),  # successors do not learn who is before them
        (Chord, "notified"),
        (Chord, "stabilise"),
        (TreeKeeper, "check"),
        (TreeKeeper, "no_answer"),  # failures in the tree are not seen
    ],
)
def test_a_part_that_does_nothing_is_noticed(monkeypatch, owner, method):
    monkeypatch.setattr(owner, method, nothing)
    assert churned()


def test_a_silent_predecessor_that_is_never_replaced_is_noticed(monkeypatch):
    no_answer = Chord.no_answer
    monkeypatch.setattr(
        Chord, "no_answer", lambda self, a, now: [] if a.reason is Reason.PREDECESSOR else no_answer(self, a, now)
    )
    assert churned()


def test_successors_that_are_never_given_up_are_noticed(monkeypatch):
    monkeypatch.setattr(views.RingView, "forget", lambda self, key: None)
    assert churned()


def test_rule_5_without_asking_again_two_hosts_make_two_rings(monkeypatch):
    monkeypatch.setattr(Chord, "_ask_a_former", nothing)
    assert cut_off()
