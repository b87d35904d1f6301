"""Calls that wait for an answer, and turns that others wait for."""

import asyncio

import pytest

from pleach.client.pending import PendingRequests
from pleach.client.session_driver import LoopTurn, tell
from pleach.core.messages import Advertised, Layer, Subscribed, Unadvertised, Unsubscribed
from pleach.errors import AdvertiseRefusedError, ClientClosedError, SubscribeRefusedError

CLOSED = ClientClosedError("closed")


def test_who_asks_for_the_same_gets_the_same_answer():
    async def story():
        requests = PendingRequests()
        first, again, other = (requests.asked(Subscribed, name) for name in ("s", "s", "t"))
        requests.answer(Subscribed, "s")
        assert first is again
        assert first.done()
        assert not other.done()
        assert requests.futures == [other]
        assert not requests.is_waiting(Subscribed, "s")
        assert requests.asked(Subscribed, "s") is not first  # that was another request
        requests.answer(Unsubscribed, "nobody asked")

    asyncio.run(story())


@pytest.mark.parametrize("is_layer_said", [True, False])
@pytest.mark.parametrize(
    ("kind", "error", "layer"),
    [
        (Subscribed, SubscribeRefusedError, Layer.SUBSCRIPTIONS),
        (Unsubscribed, SubscribeRefusedError, Layer.SUBSCRIPTIONS),
        (Advertised, AdvertiseRefusedError, Layer.ADVERTISEMENTS),
        (Unadvertised, AdvertiseRefusedError, Layer.ADVERTISEMENTS),
    ],
)
def test_a_refusal_is_for_whatever_was_asked_under_that_name(kind, error, layer, is_layer_said):
    layer = layer if is_layer_said else None

    async def story():
        requests = PendingRequests()
        refused, other = requests.asked(kind, "n"), requests.asked(kind, "m")
        requests.refuse("n", "too wide", layer)
        with pytest.raises(error, match="too wide"):
            await refused
        assert not other.done()

    asyncio.run(story())


def test_a_refused_subscription_says_nothing_of_an_advertisement_of_its_name():
    async def story():
        requests = PendingRequests()
        refused, other = requests.asked(Subscribed, "n"), requests.asked(Advertised, "n")
        requests.refuse("n", "too wide", Layer.SUBSCRIPTIONS)
        assert refused.done()
        assert not other.done()

    asyncio.run(story())


def test_all_of_some_kinds_are_answered_and_all_others_fail():
    async def story():
        requests = PendingRequests()
        gone, kept = requests.asked(Unadvertised, "a"), requests.asked(Subscribed, "s")
        requests.answer_all(Unsubscribed, Unadvertised)
        assert gone.result() is None
        assert requests
        requests.fail_all(CLOSED)
        assert kept.exception() is CLOSED
        assert not requests

    asyncio.run(story())


@pytest.mark.parametrize("error", [None, CLOSED])
def test_a_turn_ends_once_and_who_waits_for_it_hears_how(error):
    async def story():
        ends = []

        def settle():
            ends.append(turn.end())
            tell(ends[-1], error)

        turn = LoopTurn(settle)
        turn.end_soon()
        turn.end_soon()
        answers = await asyncio.gather(turn.ended(), turn.ended(), return_exceptions=True)
        assert answers == [error, error]
        assert len(ends) == 2  # the first turn, however often it was to end, and the one that both waited for
        assert ends[0] is None
        assert turn.end() is None  # nobody waits for the next one

    asyncio.run(story())
