"""What the seam held goes on in the order in which it came, whatever it is; states of earlier versions are read."""

from __future__ import annotations

import pytest

from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import Forward, Install, Layer, Withdraw
from pleach.core.overlay.seam import HeldState, Hold, Pass, Seam
from support.overlay.exchange.exchange_networks import Cycles
from support.overlay.exchange.judgement import judge_exchange, replay, trial_of

LINK = "far"
WANTED = parse_filter("price > 9")


class HoldsAll:
    keeps_causal_order = True
    peers = frozenset((LINK,))

    def arriving(self, _sender, _message):
        return Hold()

    def leaving(self, _source, _cause, sends):
        return sends


def forward(number):
    return Forward(Event(EventId("p", 0, number), {"price": number}))


def held(*messages):
    seam = Seam()
    seam.join(HoldsAll())
    for message in messages:
        assert seam.arrive(LINK, message) == Hold()
    return seam


INSTALL, WITHDRAW = Install(Layer.ADVERTISEMENTS, 1, "", WANTED), Withdraw(Layer.ADVERTISEMENTS, "", WANTED)
MIXED = (INSTALL, forward(10), forward(11), WITHDRAW, forward(12))


def test_nothing_that_is_told_overtakes_an_event():
    seam = held(*MIXED)
    assert seam.held_count == len(MIXED)
    assert seam.take_released(LINK) == list(MIXED)
    assert seam.held_bytes == 0
    assert LINK not in seam.held_events()


def test_so_it_is_after_a_restart():
    restored = Seam()
    restored.restore(held(*MIXED).capture())
    assert restored.held_bytes == held(*MIXED).held_bytes
    assert restored.take_released(LINK) == list(MIXED)


def test_earlier_versions_kept_routing_messages_apart():
    restored = Seam()
    restored.restore(HeldState({LINK: [forward(10)]}, {LINK: [INSTALL]}))
    assert restored.take_released(LINK) == [INSTALL, forward(10)]


def test_what_is_void_are_routing_messages():
    seam = held(*MIXED)
    seam.void(LINK)
    assert seam.take_released(LINK) == [message for message in MIXED if isinstance(message, Forward)]
    seam.void(LINK)
    assert LINK not in seam.held_events()


@pytest.mark.parametrize(("waiting", "passing"), [(WITHDRAW, forward(1)), (forward(1), WITHDRAW)])
def test_neither_waits_for_the_other(waiting, passing):
    class HoldsOne(HoldsAll):
        def arriving(self, sender, message):
            return Hold() if message == waiting else Pass(sender, message)

    seam = Seam()
    seam.join(HoldsOne())
    assert seam.arrive(LINK, waiting) == Hold()
    assert seam.arrive(LINK, passing) == Pass(LINK, passing)


def test_an_advertisement_that_is_taken_back_stays_behind_events_that_wait_at_a_new_link():
    """It was told further ahead of them, and its answers took away the subscriptions by which they were to go on."""
    judgement = judge_exchange(7750, trial_of(7750, "advanced-coordinated", "causal", cycles=Cycles.LONG))
    assert not judgement.flaws, replay(judgement)
