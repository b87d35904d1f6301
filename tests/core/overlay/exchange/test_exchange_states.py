"""Every state of a broker that an exchange can reach meets every message of exchanges, by every protocol.

The states are those of all orders of messages and timers, on cycles of each shape. A pair of state and message is
either in the protocol's table, and handled, or it is refused and changes nothing.
"""

from __future__ import annotations

from functools import cache, partial
from typing import get_args

import pytest

from pleach.core.messages import (
    Activate,
    Begin,
    Begun,
    CycleAbandoned,
    CycleEnded,
    CycleForgotten,
    CycleRefused,
    Done,
    EndOfRelay,
    ExchangeMessage,
    Flush,
    Layer,
    LockCycle,
    Reconfigure,
    Reconfigured,
    RelayRouting,
    RelayTables,
    Removed,
    RequestExchange,
    Separator,
    Unlock,
    Withdraw,
)
from pleach.core.overlay.exchange.contract import Start, TablePart, TimerDue
from pleach.core.overlay.exchange.coordinated import SENT_ANEW
from pleach.core.overlay.exchange.machine import ExchangeMachine
from pleach.core.overlay.registry import CYCLES, MISPRINTS, PRINTED
from pleach.errors import ProtocolError
from pleach.explore.world import BrokenError
from support.overlay.exchange.reachable import SHAPES, in_state, reached, shaped

EXACT = sorted(set(CYCLES) - set(MISPRINTS))
RELAYING = ("advanced-coordinated", "a broker between u and x")  # where what comes over r late is relayed
OPERATION = "1.1"


def class_of(protocol):
    maker = CYCLES[protocol]
    return maker.func if isinstance(maker, partial) else maker


@cache
def reached_by(protocol, shape):
    return reached(shaped(protocol, shape))


def rows_of(protocol):
    """The rows that are used, and the phases that follow, on cycles of all shapes."""
    walks = [reached_by(protocol, shape) for shape in SHAPES]
    if protocol == RELAYING[0]:
        walks.append(reached(shaped(*RELAYING, is_subscribed=True)))
    rows = {}
    for walk in walks:
        for row, after in walk.rows.items():
            rows.setdefault(row, set()).update(after)
    return rows


def messages(cycle):
    """One of each type, for each sender and side that it can name."""
    yield from (kind(OPERATION) for kind in (Begin, Begun, Activate, EndOfRelay, Reconfigure, Reconfigured, Removed))
    yield from (Unlock(OPERATION), CycleAbandoned(OPERATION), CycleRefused(OPERATION, "no"))
    yield from (Flush(OPERATION, cycle.u), Flush(OPERATION, cycle.v))
    yield RelayTables(OPERATION, [], [], is_settled=True)
    yield RelayRouting(OPERATION, Withdraw(Layer.SUBSCRIPTIONS, "", "price > 1"))
    yield LockCycle(OPERATION, cycle.path, cycle.cut, cycle.protocol)
    for end in (cycle.x, cycle.y):
        yield from (Done(OPERATION, end), Separator(OPERATION, end), Separator(OPERATION, end, is_relayed=True))


def test_every_message_of_an_exchange_is_tried():
    part = part_of(next(taking_part("path", "u–x–y–v")))
    apart = {RequestExchange, CycleForgotten, CycleEnded}  # not of an exchange under way: see failures.py
    assert {type(message) for message in messages(part.cycle)} == {*get_args(ExchangeMessage)} - apart


def part_of(broker):
    return broker.machine(ExchangeMachine)._part


def taking_part(protocol, shape):
    scenario = shaped(protocol, shape)
    for name, states in reached_by(protocol, shape).states.items():
        for state in states:
            broker = in_state(scenario, name, state)
            if part_of(broker) is not None:
                yield broker


def is_legal(broker, sender, message):
    part, machine = part_of(broker), broker.machine(ExchangeMachine)
    has_begun = machine._state.phase == "begun"
    match message:
        case LockCycle():
            return broker.name == part.cycle.u and sender == part.cycle.v and not has_begun
        case CycleRefused():
            return not has_begun and part.cycle.is_next(broker.name, sender)
        case CycleAbandoned():
            return not has_begun and broker.name != part.cycle.u and part.cycle.is_next(sender, broker.name)
    if broker.name == part.cycle.u and not has_begun:
        return False
    cause = part._input(sender, message)
    return any((role, phase, cause) in part.TRANSITIONS for role, phase in part.phases())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("protocol", EXACT)
def test_a_message_is_in_the_table_or_refused(protocol, shape):
    tried = {True: 0, False: 0}
    for broker in taking_part(protocol, shape):
        before, cycle = broker.capture(), part_of(broker).cycle
        for message in messages(cycle):
            for sender in (node for node in cycle.path if cycle.are_beside(broker.name, node)):
                legal = is_legal(broker, sender, message)
                tried[legal] += 1
                if legal:
                    broker.handle(sender, message, now=0.0)
                else:
                    with pytest.raises(ProtocolError):
                        broker.handle(sender, message, now=0.0)
                    assert broker.capture() == before
                broker.restore(before)
    assert tried[False] > tried[True] > 10


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("protocol", [PRINTED])  # its errors one by one are the same code
def test_as_printed_messages_that_are_not_for_a_role_are_refused(protocol, shape):
    """S1 has no states in which a message is wrong; what its messages do in wrong places is not ours to say."""
    for broker in taking_part(protocol, shape):
        before, cycle = broker.capture(), part_of(broker).cycle
        for message in messages(cycle):
            for sender in (node for node in cycle.path if cycle.are_beside(broker.name, node)):
                if not is_legal(broker, sender, message):
                    with pytest.raises(ProtocolError):
                        broker.handle(sender, message, now=0.0)
                    assert broker.capture() == before


@pytest.mark.parametrize("protocol", EXACT)
def test_the_table_has_what_happens_and_nothing_else(protocol):
    table = dict(class_of(protocol).TRANSITIONS)
    if protocol == "coordinated":
        table = {row: after for row, after in table.items() if row not in SENT_ANEW}
    rows = rows_of(protocol)
    assert rows.keys() == table.keys()
    for row, after in table.items():
        assert {*after} <= rows[row], row


def mutants(protocol):
    """Tables without one of the rows that no other row makes up for."""
    whole, shape = class_of(protocol).TRANSITIONS, "u–x–y–v"
    used = [row for row in reached_by(protocol, shape).rows if row[2] not in (Start, TimerDue)]
    alone = [row for row in used if not any(e[0] is row[0] and e[2] is row[2] for e in whole if e[1] is not row[1])]
    for row in alone:
        yield {each: after for each, after in whole.items() if each != row}


@pytest.mark.parametrize("protocol", EXACT)
def test_a_table_that_lacks_a_row_is_noticed(protocol, monkeypatch):
    tried = 0
    for mutant in mutants(protocol):
        monkeypatch.setattr(class_of(protocol), "TRANSITIONS", mutant)
        with pytest.raises(BrokenError, match="does not fit"):
            reached(shaped(protocol, "u–x–y–v"))
        tried += 1
    assert tried > 1


def test_a_phase_that_changes_against_the_table_is_an_assertion():
    broker = next(each for each in taking_part("deferred", "u–x–y–v") if each.name == "2")
    part = part_of(broker)
    before = part.phases()
    part.state.old = type(part.state.old).GONE
    with pytest.raises(AssertionError):
        TablePart._checked(part, before, Begin, ())
