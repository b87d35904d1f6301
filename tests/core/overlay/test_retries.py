"""A request that meets a locked broker is put off for longer and longer, and refused in the end."""

from functools import partial

import pytest

from pleach.core.broker import Broker
from pleach.core.effects import Concluded, Send, SetTimer
from pleach.core.messages import (
    OPERATOR,
    Attach,
    LockNack,
    Reject,
    RemoveNack,
    RequestMove,
    RequestRemove,
    RequestSwap,
)
from pleach.core.mobility.machine import Mobility
from pleach.core.overlay.membership.machine import Membership
from pleach.core.overlay.retries import RETRIES_MAX, RETRY_SECONDS
from pleach.core.overlay.swaplink.machine import SwapLink
from pleach.core.routing.router import RoutingConfig

REQUESTS = [
    (partial(SwapLink, ordering="fifo"), RequestSwap("op", "me", "n", "c"), LockNack),
    (Membership, RequestRemove("op", "me"), RemoveNack),
    (Mobility, RequestMove("op", "k", ["me", "n"]), Reject),
]


def turned_away(broker, effects, refusal):
    """What comes of it that n refuses what it was asked for."""
    (asked,) = {effect.message.operation for effect in effects if isinstance(effect, Send) and effect.to == "n"}
    return broker.handle("n", refusal(asked, "n is locked", is_busy=True), now=0.0)


@pytest.mark.parametrize(("machine", "request_", "refusal"), REQUESTS)
def test_who_is_always_turned_away_asks_so_often_after_growing_waits_and_is_told_why(machine, request_, refusal):
    broker = Broker("me", RoutingConfig("simple"), neighbours=["n"], machines=[machine])
    broker.handle("k", Attach(), now=0.0)
    effects = turned_away(broker, broker.handle(OPERATOR, request_, now=0.0), refusal)
    for attempt in range(1, RETRIES_MAX + 1):
        assert not [effect for effect in effects if isinstance(effect, Concluded)]
        (timer,) = (effect for effect in effects if isinstance(effect, SetTimer) and "op" in effect.name)
        assert 0.5 <= timer.after / (RETRY_SECONDS * 2**attempt) <= 1.5
        effects = turned_away(broker, broker.handle_timer(timer.name, now=0.0), refusal)
    (end,) = (effect for effect in effects if isinstance(effect, Concluded))
    assert end.refusal == f"n is locked; asked {RETRIES_MAX + 1} times"
