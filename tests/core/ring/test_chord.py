"""Chord: joining, stabilising, rectifying, leaving, failing; each step by itself where order matters."""

import pytest

from pleach.core.effects import SetTimer
from pleach.core.messages import AskRing, FindPlace, Notify, Peer, RingPlace, RingPlaceTaken, RingState
from pleach.core.ring.chord import JOIN_ATTEMPTS_MAX, RingPhase
from pleach.core.ring.config import RingConfig
from pleach.core.ring.effects import Cast, JoinEnded
from pleach.core.ring.host import RingHost
from pleach.core.ring.pending_answers import ANSWERS
from pleach.sim.ring_network import RingNetwork
from support.ring.rings import STEP, flaws, peer, settle

CONFIG = RingConfig(bits=6, successors=3)


def ring_of(*keys, config=CONFIG, **network):
    network = RingNetwork(config, "chord", **network)
    for key in keys:
        network.add(peer(key), [peer(keys[0])] if network.hosts else [])
        assert settle(network, config) == []
    return network


def casts(effects, kind):
    return [
        (each.to.key, each.message) for each in effects if isinstance(each, Cast) and isinstance(each.message, kind)
    ]


def member(key, before, *following):
    """A host in the middle of a ring that it has just joined; its first question is answered."""
    host = RingHost(peer(key), CONFIG)
    ((_, find),) = casts(host.join([peer(before)], now=0.0), FindPlace)
    effects = host.handle("h", RingPlace(find.ticket, peer(before), [peer(each) for each in following], []), now=0.1)
    ((to, ask),) = casts(effects, AskRing)
    assert to == following[0]
    host.handle("h", RingState(ask.ticket, peer(before), [peer(each) for each in following[1:]]), now=0.2)
    return host


def keys_of(peers):
    return [each.key for each in peers]


# Joining --------------------------------------------------------------------------------------------------------


def test_a_newcomer_takes_over_predecessor_and_successors_in_one_step():
    host = member(20, 10, 30, 40, 50)
    assert host.phase is RingPhase.MEMBER
    assert host.view.predecessor == peer(10)
    assert keys_of(host.view.successors) == [30, 40, 50]


def test_a_key_that_another_host_has_is_refused():
    network = ring_of(10, 20)
    network.add(Peer(20, "somebody else"), [peer(10)])
    network.run(network.now + 5.0)
    assert "key 20 is that of h20" in network.refusals["somebody else"]
    assert network.hosts["somebody else"].phase is RingPhase.OUT


def test_a_host_that_is_back_before_it_was_missed_gets_its_place_again():
    network = ring_of(10, 20, 30)
    network.fail("h20")
    network.add(peer(20), [peer(10)])
    assert settle(network, CONFIG) == []
    assert not network.refusals


def test_without_an_answer_from_any_seed_joining_ends_with_a_reason():
    network = RingNetwork(CONFIG, "nobody")
    network.add(peer(1), [peer(2), peer(3)])
    network.run(JOIN_ATTEMPTS_MAX * CONFIG.find_within + 1.0)
    assert network.hosts["h1"].phase is RingPhase.OUT
    assert "none of the seeds answers" in network.refusals["h1"]
    network.perform(network.hosts["h1"], network.hosts["h1"].found(now=network.now))
    assert network.hosts["h1"].phase is RingPhase.MEMBER


def test_seeds_are_tried_in_turn():
    network = ring_of(10, 20)
    network.add(peer(1), [peer(50), peer(51), peer(10)])
    assert settle(network, CONFIG) == []


def test_who_is_joining_answers_nobody_as_a_member():
    host = RingHost(peer(5), CONFIG)
    host.join([peer(1)], now=0.0)
    assert host.handle("h1", AskRing(7, peer(1)), now=0.1) == []


def test_a_second_answer_to_the_same_question_changes_nothing():
    host = member(20, 10, 30, 40, 50)
    assert host.handle("h1", RingPlace(1, peer(11), [peer(12)], []), now=0.3) == []
    assert host.handle("h1", RingPlaceTaken(1, peer(20)), now=0.3) == []
    assert host.view.predecessor == peer(10)


# Stabilising (Zave) -----------------------------------------------------------------------------------------------


def test_a_host_between_me_and_my_successor_is_asked_before_it_is_followed():
    host = member(20, 10, 30, 40, 50)
    ((_, ask),) = casts(host.handle_timer("ring:stabilise", now=1.0), AskRing)
    effects = host.handle("h30", RingState(ask.ticket, peer(25), [peer(40), peer(50), peer(10)]), now=1.1)
    assert keys_of(host.view.successors) == [30, 40, 50], "not before it has answered"
    assert not casts(effects, Notify)
    ((to, ask),) = casts(effects, AskRing)
    assert to == 25
    effects = host.handle("h25", RingState(ask.ticket, peer(20), [peer(30), peer(40), peer(50)]), now=1.2)
    assert keys_of(host.view.successors) == [25, 30, 40]
    assert [to for to, _ in casts(effects, Notify)] == [25]


def test_a_dead_host_between_is_not_followed_and_the_successor_is_notified():
    host = member(20, 10, 30, 40, 50)
    ((_, ask),) = casts(host.handle_timer("ring:stabilise", now=1.0), AskRing)
    host.handle("h30", RingState(ask.ticket, peer(25), [peer(40), peer(50), peer(10)]), now=1.1)
    effects = host.handle_timer(ANSWERS, now=3.0)
    assert keys_of(host.view.successors) == [30, 40, 50]
    assert [to for to, _ in casts(effects, Notify)] == [30]


def test_a_successor_that_does_not_answer_twice_is_passed_over():
    host = member(20, 10, 30, 40, 50)
    host.handle_timer("ring:stabilise", now=1.0)
    effects = host.handle_timer(ANSWERS, now=3.0)
    assert [to for to, _ in casts(effects, AskRing)] == [30], "a message may have been lost"
    assert keys_of(host.view.successors) == [30, 40, 50]
    effects = host.handle_timer(ANSWERS, now=5.0)
    assert keys_of(host.view.successors) == [40, 50]
    assert [to for to, _ in casts(effects, AskRing)] == [40]


def test_a_list_ends_where_it_has_come_round():
    host = member(20, 10, 30, 10)
    assert keys_of(host.view.successors) == [30, 10]
    ((_, ask),) = casts(host.handle_timer("ring:stabilise", now=1.0), AskRing)
    host.handle("h30", RingState(ask.ticket, peer(20), [peer(10), peer(20), peer(30)]), now=1.1)
    assert keys_of(host.view.successors) == [30, 10]


def test_a_nearer_predecessor_is_taken_at_once_a_farther_one_if_mine_is_silent():
    host = member(20, 10, 30, 40, 50)
    host.handle("h15", Notify(peer(15)), now=1.0)
    assert host.view.predecessor == peer(15)
    effects = host.handle("h12", Notify(peer(12)), now=1.1)
    assert [to for to, _ in casts(effects, AskRing)] == [15]
    assert host.view.predecessor == peer(15), "it may be there"
    host.handle_timer(ANSWERS, now=3.0)
    assert host.view.predecessor == peer(15), "a message may have been lost"
    host.handle_timer(ANSWERS, now=5.0)
    assert host.view.predecessor == peer(12)


def test_a_farther_predecessor_is_not_taken_if_mine_answers():
    host = member(20, 10, 30, 40, 50)
    ((_, ask),) = casts(host.handle("h5", Notify(peer(5)), now=1.0), AskRing)
    host.handle("h10", RingState(ask.ticket, peer(5), [peer(20)]), now=1.1)
    host.handle_timer(ANSWERS, now=3.0)
    host.handle_timer(ANSWERS, now=5.0)
    assert host.view.predecessor == peer(10)


# Rings --------------------------------------------------------------------------------------------------------------


def test_one_host_is_a_ring_and_owns_everything():
    network = ring_of(7)
    assert all(key in network.hosts["h7"].view.arc for key in range(64))


@pytest.mark.parametrize("keys", [(1, 2), (63, 0), (5, 40, 20), (10, 30, 50, 60, 1, 2, 3)])
def test_hosts_that_join_one_after_another_make_a_ring(keys):
    ring_of(*keys)


def test_hosts_that_join_all_at_once_make_a_ring():
    network = ring_of(30)
    for key in range(0, 60, 4):
        network.add(peer(key), [peer(30)])
    assert settle(network, CONFIG) == []


def test_a_ring_survives_the_failure_of_all_but_one_successor_at_once():
    network = ring_of(*range(0, 60, 6))
    for key in (6, 12):
        network.fail(f"h{key}")
    assert settle(network, CONFIG) == []


def test_who_leaves_is_not_waited_for():
    """A leave takes a few messages, a failure an answer that does not come."""
    slow = RingConfig(bits=6, successors=3, answer_within=20.0, find_within=20.0)
    network = ring_of(*range(0, 60, 6), config=slow)
    network.leave("h12")
    assert settle(network, slow, limit=10 * STEP) == []


def test_two_hosts_that_held_each_other_for_dead_find_together_again():
    network = ring_of(10, 40)
    for key, other in ((10, 40), (40, 10)):
        host = network.hosts[f"h{key}"]
        host._chord._former[peer(other)] = 5
        host.view.forget(other)
        assert host.view.is_alone
    assert settle(network, CONFIG) == []


def test_a_restarted_host_goes_on_from_what_it_knew():
    network = ring_of(10, 20, 30, 40)
    state = network.hosts["h20"].capture()
    network.fail("h20")
    network.run(network.now + 10.0)
    again = RingHost(peer(20), CONFIG)
    again.restore(state)
    assert again.capture() == state
    assert any(isinstance(effect, SetTimer) for effect in again.resume())
    network.admit(again)
    assert settle(network, CONFIG) == []


def test_a_host_that_listens_elsewhere_after_a_restart_is_known_by_its_new_address():
    network = ring_of(10, 20, 30, 40)
    network.fail("h20")
    network.add(Peer(20, "h20", "elsewhere:1"), [peer(10)])
    assert settle(network, CONFIG) == []
    network.run(network.now + 20.0)
    seen = [
        each.address
        for host in network.hosts.values()
        for each in (host.view.predecessor, *host.view.successors, *host.neighbourhood.all)
        if each.name == "h20"
    ]
    assert len(seen) > 3
    assert set(seen) == {"elsewhere:1"}


def test_who_was_joining_when_it_stopped_is_out():
    host = RingHost(peer(5), CONFIG)
    host.join([peer(1)], now=0.0)
    again = RingHost(peer(5), CONFIG)
    again.restore(host.capture())
    assert again.phase is RingPhase.OUT
    assert again.resume() == []
    assert JoinEnded() in again.found(now=1.0)


def test_flaws_are_seen():
    """The judge of all these tests has something to say where something is wrong."""
    network = ring_of(10, 20, 30)
    network.fail("h20")
    assert flaws(network.hosts.values(), CONFIG)
