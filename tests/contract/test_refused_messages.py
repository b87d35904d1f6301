"""Whatever a broker refuses as an error of its sender changes nothing: not its memory, and so not what its disk has.

Every state in which a broker handled a message of a reconfiguration meets every such message that anybody got in that
run, each from all who spoke: most of them fit neither the state nor the sender.
"""

from __future__ import annotations

from typing import get_args

import pytest

from pleach.core.broker import Broker
from pleach.core.messages import (
    ExchangeMessage,
    MembershipMessage,
    MovementMessage,
    Seek,
    Sought,
    SwapLinkMessage,
    encode,
)
from pleach.errors import ProtocolError
from pleach.scenario.machines import make_machine, tree_of
from pleach.scenario.steps import Exchange, MoveClient
from pleach.sim.run import ScenarioRun
from support.overlay.small_networks import ADD, BEGINS_AT, REMOVE, SWAP, station

KINDS = frozenset(
    (
        *get_args(MembershipMessage),
        *get_args(SwapLinkMessage),
        *get_args(ExchangeMessage),
        *get_args(MovementMessage),
        Seek,
        Sought,
    )
)
CYCLE = Exchange(at=BEGINS_AT, remove=("a", "b"), add=("x", "c"), protocol="advanced-coordinated")
MOVE = MoveClient(at=BEGINS_AT, client="at-x", to="z")
OPERATIONS = {"add": ADD, "remove": REMOVE, "swap": SWAP, "move": MOVE, "cycle": CYCLE}


def seen(scenario, monkeypatch):
    """The states before each message, and all messages with their senders."""
    run = ScenarioRun(scenario, 1)
    states, messages = {}, {}
    inner = Broker.handle

    def handle(broker, sender, message, *, now):
        if type(message) in KINDS:
            states[broker.name, broker.capture()] = None
            messages[sender, encode(message)] = message
        return inner(broker, sender, message, now=now)

    with monkeypatch.context() as traffic_notes:
        traffic_notes.setattr(Broker, "handle", handle)
        run.finish()
    return states, [(sender, message) for (sender, _), message in messages.items()]


def is_refused(broker, sender, message):
    try:
        broker.handle(sender, message, now=1.0)
    except ProtocolError:
        return True
    return False


def tried(scenario, monkeypatch):
    """Returns how often what was said was refused, and changed nothing."""
    states, messages = seen(scenario, monkeypatch)
    refused = 0
    for name, state in states:
        clone = None
        for sender, message in messages:
            if clone is None:
                clone = make_machine(scenario, tree_of(scenario), name)
                clone.restore(state)
            if is_refused(clone, sender, message):
                assert clone.capture() == state, (name, sender, message)
                refused += 1
            else:
                clone = None
    return refused


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_refused_changes_nothing(operation, monkeypatch):
    refused = tried(station(OPERATIONS[operation]), monkeypatch)
    assert (refused > 0) == (operation != "add")  # of which all is answered, or dropped as late
