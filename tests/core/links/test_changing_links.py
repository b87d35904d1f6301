"""Links that machines open and close, and their timers, through cuts, crashes, lost and doubled frames."""

from __future__ import annotations

from random import Random

import pytest

from pleach.core.effects import Concluded, LinkDown, LinkUp, SetTimer
from pleach.core.links.endpoint import Endpoint, Saved
from pleach.core.links.frames import Ack, Bye, ByeReason, Data, Hello
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import Subscribed, encode
from support.links.changing_links import ChangingWorld, Linker
from support.links.unreliable_endpoints import Weather
from support.thorough import FACTOR

SEEDS = 40 * FACTOR
STEPS = 250
ACTS = 0.2  # per step
WEATHERS = {
    "calm": Weather(cut=0.0, crash=0.0),
    "cuts": Weather(cut=0.05, half_open=0.4, crash=0.0, double=0.02),
    "crashes": Weather(cut=0.02, crash=0.04),
    "all": Weather(cut=0.03, crash=0.03, lose=0.01, double=0.01, lazy=0.6),
}


@pytest.mark.parametrize("weather", WEATHERS)
def test_links_that_come_and_go_lose_double_and_reorder_nothing(weather):
    totals = {}
    for seed in range(SEEDS):
        world = ChangingWorld(Random(f"changing/{weather}/{seed}"), WEATHERS[weather])
        for _ in range(2):
            for _ in range(STEPS):
                if world.stream.random() < ACTS:
                    world.act()
                world.step()
            world.heal()
            assert world.faults() + world.missing() + world.forgotten() == [], seed
        totals = {name: totals.get(name, 0) + number for name, number in world.counts.items()}
    assert min(totals[name] for name in ("concluded", "dialled", "retired", "fired", "reopened")) > SEEDS, totals
    assert (totals["crashed"] > SEEDS) == (WEATHERS[weather].crash > 0), totals


# One endpoint ----------------------------------------------------------------------------------------------------

DONE = Bye(ByeReason.DONE, "a has no more for b", 0)


def done(received):
    """What b says once it has no more for a."""
    return Bye(ByeReason.DONE, "b has no more for a", received)


def opened():
    """An endpoint `a` with an open link to `b`, over which it has said one thing that b has confirmed."""
    endpoint = Endpoint(Linker("a"), 5)
    tell(endpoint, "open b hello")
    endpoint.take_batch()
    endpoint.connected("b", now=0.0)
    endpoint.receive("b", Hello("b", 3, 5, 0, 1), now=0.0)
    endpoint.receive("b", Ack(1), now=0.0)
    endpoint.take_batch()
    return endpoint


def tell(endpoint, text, now=0.0):
    endpoint.request(Subscribed(text), now=now)


def transmitted(batch):
    return [frame for _, frame in batch.transmits]


def from_b(sequence, text):
    return Data(sequence, encode(Subscribed(text)))


def test_opening_a_link_is_told_with_the_address_and_what_is_sent_waits_in_the_session():
    endpoint = Endpoint(Linker("a"), 5)
    tell(endpoint, "open b hello")
    batch = endpoint.take_batch()
    assert batch.dial == [("b", "where b is")]
    assert batch.concluded == [Concluded("hello")]
    assert [(entry.peer, entry.timer) for entry in batch.journal] == [("", "")]
    assert [(q.peer, q.sequence) for q in batch.queued] == [("b", 1)]
    assert not batch.transmits


def test_a_side_is_done_once_all_is_confirmed_and_the_link_ends_once_both_are():
    endpoint = opened()
    tell(endpoint, "close b x")
    first = endpoint.take_batch()
    assert [type(frame) for frame in transmitted(first)] == [Data]
    endpoint.receive("b", Ack(2), now=0.0)
    second = endpoint.take_batch()
    assert transmitted(second) == [DONE]
    assert not second.hangups
    endpoint.receive("b", done(2), now=0.0)
    third = endpoint.take_batch()
    assert (third.hangups, third.retired) == ([("b", "the link is closed")], ["b"])
    assert endpoint.upkeep.phase("b") is LinkPhase.FORMER


def test_a_peer_that_is_done_first_does_not_end_the_link():
    endpoint = opened()
    endpoint.receive("b", done(1), now=0.0)
    assert not endpoint.take_batch().hangups
    tell(endpoint, "say b more")
    assert [type(frame) for frame in transmitted(endpoint.take_batch())] == [Data]


def test_a_peer_that_was_done_before_it_knew_all_is_not_taken_at_its_word():
    """It may have answered what came after, and has to say it again."""
    endpoint = opened()
    endpoint.receive("b", done(1), now=0.0)
    tell(endpoint, "close b x")
    endpoint.take_batch()
    endpoint.receive("b", Ack(2), now=0.0)
    assert not endpoint.take_batch().retired
    endpoint.receive("b", done(2), now=0.0)
    assert endpoint.take_batch().retired == ["b"]


def test_what_comes_after_done_makes_it_be_said_again():
    endpoint = opened()
    tell(endpoint, "close b x")
    endpoint.take_batch()
    endpoint.receive("b", Ack(2), now=0.0)
    assert transmitted(endpoint.take_batch()) == [DONE]
    endpoint.receive("b", from_b(1, "b closes late"), now=0.0)
    assert transmitted(endpoint.take_batch()) == [Ack(1), Bye(ByeReason.DONE, "a has no more for b", 1)]


def test_a_peer_that_has_not_heard_the_end_is_told_when_it_comes_again():
    endpoint = opened()
    endpoint.receive("b", done(1), now=0.0)
    endpoint.perform([LinkDown("b")], now=0.0)
    assert endpoint.take_batch().retired == ["b"]
    endpoint.disconnected("b")
    endpoint.connected("b", now=1.0)
    endpoint.receive("b", Hello("b", 3, 5, 1, 1), now=1.0)
    assert DONE in transmitted(endpoint.take_batch())
    endpoint.receive("b", done(1), now=1.0)
    assert endpoint.take_batch().hangups == [("b", "the link is closed")]


def test_what_still_comes_over_a_link_that_is_given_up_is_delivered():
    endpoint = opened()
    tell(endpoint, "close b x")
    endpoint.receive("b", from_b(1, "b closes late"), now=0.0)
    assert endpoint.machine.kept == {"b": ["b closes late"]}


def test_done_counts_for_one_connection():
    endpoint = opened()
    endpoint.receive("b", done(1), now=0.0)
    endpoint.disconnected("b")
    endpoint.connected("b", now=1.0)
    endpoint.receive("b", Hello("b", 3, 5, 1, 1), now=1.0)
    endpoint.perform([LinkDown("b")], now=1.0)
    batch = endpoint.take_batch()
    assert DONE in transmitted(batch)
    assert not batch.retired


def test_a_link_that_is_wanted_again_after_done_gets_a_new_connection():
    endpoint = opened()
    endpoint.perform([LinkDown("b")], now=0.0)
    assert transmitted(endpoint.take_batch()) == [DONE]
    endpoint.perform([LinkUp("b")], now=0.0)
    batch = endpoint.take_batch()
    assert batch.hangups == [("b", "the link is wanted again")]
    assert batch.dial == [("b", "where b is")]  # the address is remembered


@pytest.mark.parametrize(("confirmed", "is_over"), [(True, True), (False, False)])
def test_a_peer_that_knows_nothing_of_us_has_given_the_link_up_too_unless_something_is_left_for_it(confirmed, is_over):
    endpoint = opened()
    tell(endpoint, "close b x")
    if confirmed:
        endpoint.receive("b", Ack(2), now=0.0) if endpoint.take_batch() else None
    endpoint.disconnected("b")
    endpoint.connected("b", now=1.0)
    endpoint.receive("b", Bye(ByeReason.REFUSED, "who are you?"), now=1.0)
    assert endpoint.take_batch().retired == (["b"] if is_over else [])


def test_timers_fire_in_the_order_in_which_they_are_due_and_are_journalled():
    endpoint = opened()
    tell(endpoint, "later b second", now=0.2)
    tell(endpoint, "later b first", now=0.1)
    assert endpoint.upkeep.next_due == pytest.approx(0.4)
    endpoint.fire(now=0.3)
    endpoint.take_batch()
    endpoint.fire(now=1.0)
    batch = endpoint.take_batch()
    assert [(entry.timer, entry.now) for entry in batch.journal] == [("first", 1.0), ("second", 1.0)]
    assert endpoint.upkeep.next_due is None


def test_recovery_knows_the_links_of_the_snapshot_and_of_the_journal_and_resumes():
    endpoint = opened()
    tell(endpoint, "open c hello")
    endpoint.take_batch()
    state = endpoint.capture()
    tell(endpoint, "close b x")
    tell(endpoint, "later c soon")
    batch = endpoint.take_batch()
    sessions = {peer: session.capture() for peer, session in endpoint.sessions.items()}
    again = Endpoint(Linker("a"), 5)
    again.recover(Saved(state, batch.journal, sessions), now=9.0)
    assert again.upkeep.links == endpoint.upkeep.links
    assert [again.upkeep.phase(peer) for peer in "bc"] == [LinkPhase.RETIRING, LinkPhase.WANTED]
    assert again.upkeep.timers == {"soon": pytest.approx(9.3)}
    assert again.capture() == endpoint.capture()


def test_a_timer_that_is_set_anew_counts_from_then():
    endpoint = Endpoint(Linker("a"), 5)
    endpoint.perform([SetTimer("t", 1.0), SetTimer("t", 5.0)], now=0.0)
    assert endpoint.upkeep.timers == {"t": 5.0}
