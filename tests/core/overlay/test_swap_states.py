"""SwapLink, states × messages: every message from everybody in every (role, phase) that real runs reach.

What TRANSITIONS has is handled and leads to its phase; all else is refused with ProtocolError, and changes nothing.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import get_args

import pytest

from pleach.core.messages import (
    OPERATOR,
    Abort,
    Aborted,
    Close,
    Forgot,
    Lock,
    LockAck,
    LockNack,
    Open,
    RequestSwap,
    Swap,
    SwapLinkMessage,
)
from pleach.core.overlay.swaplink import failures, machine, state
from pleach.core.overlay.swaplink.transitions import (
    BEGINNINGS,
    FAILURES,
    FATES,
    LATE,
    OUTCOMES,
    PAPER,
    TRANSITIONS,
    SwapFate,
    SwapPhase,
    SwapRole,
)
from pleach.errors import ProtocolError
from support.overlay.three import Three, new_broker, swap_at
from support.thorough import FACTOR

OPERATION = "1~1"  # the first attempt of request 1
STEPS = {**PAPER, **FAILURES}  # without what every locked broker answers
STATES = sorted({(role, phase) for role, phase, _, _ in STEPS if phase})
SENDERS = ("a", "b", "c", "x")
RUNS = 40 * FACTOR


def message_of(kind, receiver, sender, operation=OPERATION):
    """A message of this type as `sender` would send it to `receiver`."""
    match kind.__name__:
        case "RequestSwap":
            return RequestSwap("2", receiver, "b" if receiver != "b" else "a", "z")
        case "Lock":
            return Lock("2~1", sender, receiver, "z")
        case "LockNack":
            return LockNack(operation, "busy", is_busy=True)
        case "Forgot":
            return Forgot(operation, next(name for name in "abc" if name not in (receiver, sender)))
    return kind(operation)


def role_of(sender):
    return {"a": SwapRole.A, "b": SwapRole.B, "c": SwapRole.C}.get(sender)


def keep(found, three):
    """Note what is new: the captured state of each broker, by its role and phase."""
    for broker in three.brokers.values():
        swap = swap_at(broker)
        if swap is not None:
            found.setdefault((swap.role, swap.phase), broker.capture())


def play(three, found, *links):
    for link in links:
        three.deliver(*link)
        keep(found, three)


@cache
def reached():
    """Captured brokers by (role, phase), from a swap that is done, and one that is given up."""
    found = {}
    done = Three()
    done.swap()
    keep(found, done)
    play(done, found, "ab", "bc", "cb", "ba")  # 1 to 4
    done.publish("c")  # its way to b is slow: b has a copy first, and waits for the event itself
    play(done, found, "ca", "ab", "ab", "bc", "ca", "ab", "ac", "bc")  # the event; 5, its copy; 6, 7, 9, 8, 10
    while any(done.queues.values()):
        play(done, found, done.ready()[0])
    assert not any(broker.operation for broker in done.brokers.values())
    given_up = Three()
    given_up.swap()
    play(given_up, found, "ab", "bc", "cb", "ba")
    given_up.lease_over()
    keep(found, given_up)
    play(given_up, found, "ba")
    given_up.drain()
    assert not any(broker.operation for broker in given_up.brokers.values())
    return found


def broker_in(role, phase):
    broker = new_broker("abc"[role])
    broker.restore(reached()[role, phase])
    return broker


def phase_at(broker):
    swap = swap_at(broker)
    return SwapPhase.IDLE if swap is None else swap.phase


def check(role, phase, kind, sender):
    """One pair of state and message, against TRANSITIONS as the tests know it."""
    broker = broker_in(role, phase)
    before = broker.capture()
    message = message_of(kind, broker.name, sender)
    following = TRANSITIONS.get((role, phase, kind, role_of(sender)))
    if following is None:
        with pytest.raises(ProtocolError) as refused:
            broker.handle(sender, message, now=0.0)
        assert broker.capture() == before
        assert phase.name in str(refused.value)
        return
    swap = swap_at(broker)
    broker.handle(OPERATOR if kind is RequestSwap else sender, message, now=0.0)
    assert phase_at(broker) is (SwapPhase.IDLE if swap.is_over else following)


def test_every_state_is_reached_and_every_message_tried():
    assert set(reached()) == set(STATES) == set(FATES)
    assert {kind for _, _, kind, _ in TRANSITIONS} == set(get_args(SwapLinkMessage))


@pytest.mark.parametrize("sender", SENDERS)
@pytest.mark.parametrize("kind", get_args(SwapLinkMessage), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("role", "phase"), STATES, ids=lambda part: part.name)
def test_a_message_is_in_the_table_or_refused(role, phase, kind, sender):
    if sender != "abc"[role]:
        check(role, phase, kind, sender)


@pytest.mark.parametrize("kind", get_args(SwapLinkMessage), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("role", "phase"), [*STATES, (None, SwapPhase.IDLE)], ids=lambda part: part and part.name)
def test_a_message_of_another_swap_is_late_or_refused(role, phase, kind):
    if kind in BEGINNINGS:
        return
    broker = new_broker("b") if role is None else broker_in(role, phase)
    before = broker.capture()
    for sender in set(SENDERS) - {broker.name}:
        message = message_of(kind, broker.name, sender, operation="another")
        if kind in LATE:
            assert broker.handle(sender, message, now=0.0) == []
        else:
            with pytest.raises(ProtocolError):
                broker.handle(sender, message, now=0.0)
    assert broker.capture() == before


@pytest.mark.parametrize(
    ("receiver", "sender", "brokers"), [("b", "c", "abc"), ("b", "a", "acz"), ("c", "a", "abc"), ("a", "b", "abc")]
)
def test_a_lock_comes_from_the_broker_before(receiver, sender, brokers):
    """S0 §IV-A: a sends it to b, b to c."""
    broker = new_broker(receiver)
    before = broker.capture()
    with pytest.raises(ProtocolError):
        broker.handle(sender, Lock("1~1", *brokers), now=0.0)
    assert broker.capture() == before


def test_every_step_of_the_paper_happens():
    """The table has no row too many: random runs of three brokers, in any order of delivery, meet each of them."""
    met = set()
    for seed in range(RUNS):
        stream, three = Random(f"rows/{seed}"), Three()
        three.swap()
        while ready := three.ready():
            sender, to = stream.choice(ready)
            message, swap = three.queues[sender, to][0], swap_at(three.brokers[to])
            if type(message) in three.brokers[to].machine(machine.SwapLink).accepts:
                role, phase = (swap.role, swap.phase) if swap else (SwapRole("abc".index(to)), SwapPhase.IDLE)
                met.add((role, phase, type(message), role_of(sender)))
            three.deliver(sender, to)
    begun = {(SwapRole.A, SwapPhase.IDLE, RequestSwap, None)}
    refused = {key for key in PAPER if key[2] is LockNack}  # nobody is locked here
    assert met | begun | refused == set(PAPER)


# Mutants -------------------------------------------------------------------------------------------------------------


def swapped_out(monkeypatch, table):
    for module in (machine, state):
        monkeypatch.setattr(module, "TRANSITIONS", MappingProxyType(table))


@pytest.mark.parametrize("key", [key for key in STEPS if key[1]], ids=str)
def test_a_missing_key_is_noticed(key, monkeypatch):
    reached()
    swapped_out(monkeypatch, {k: v for k, v in TRANSITIONS.items() if k != key})
    role, phase, kind, sender = key
    with pytest.raises(ProtocolError):
        check(role, phase, kind, "abc"[sender])


@pytest.mark.parametrize(
    "key",
    [
        (SwapRole.A, SwapPhase.SWAPPING, LockAck, SwapRole.B),
        (SwapRole.B, SwapPhase.FLOODING, Close, SwapRole.A),
        (SwapRole.C, SwapPhase.ADOPTED, Abort, SwapRole.B),
        (SwapRole.A, SwapPhase.ADOPTED, Aborted, SwapRole.C),
        (SwapRole.B, SwapPhase.SWAPPING, Open, SwapRole.A),
        (SwapRole.C, SwapPhase.FLOODING, Swap, SwapRole.A),
    ],
    ids=str,
)
def test_a_key_too_many_is_noticed(key, monkeypatch):
    reached()
    swapped_out(monkeypatch, {**TRANSITIONS, key: key[1]})
    role, phase, kind, sender = key
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check(role, phase, kind, "abc"[sender])


@pytest.mark.parametrize("key", [key for key, value in STEPS.items() if key[1] and value not in (key[1], 0)], ids=str)
def test_a_wrong_phase_is_noticed(key, monkeypatch):
    reached()
    swapped_out(monkeypatch, {**TRANSITIONS, key: key[1]})
    role, phase, kind, sender = key
    with pytest.raises(AssertionError):
        check(role, phase, kind, "abc"[sender])


# The table of losses -------------------------------------------------------------------------------------------------


def test_every_fate_has_an_outcome():
    """WAIT changes nothing; COMPLETE is `Close` of the lost broker, by TRANSITIONS. One more is an operator's."""
    decided = {(*state_of, each) for state_of, losses in FATES.items() for each in losses}
    assert {key for key in decided if key[2] not in (SwapFate.WAIT, SwapFate.COMPLETE)} == {
        key for key in OUTCOMES if key != (SwapRole.A, SwapPhase.LOCKED, SwapFate.GIVE_UP)
    }


@pytest.mark.parametrize("lost", [(0,), (1,), (0, 1)], ids=["the first", "the second", "both"])
@pytest.mark.parametrize(("role", "phase"), STATES, ids=lambda part: part.name)
def test_a_loss_in_any_state_is_decided_by_the_table(role, phase, lost):
    """All at once: `lost` are known before anything is decided."""
    broker = broker_in(role, phase)
    swap = swap_at(broker)
    swap.lost = sorted(swap.others[i] for i in lost)
    fate = failures.fate(swap)
    broker.machine(machine.SwapLink)._failures.peer_reset(swap.lost[0])
    if fate is SwapFate.COMPLETE:
        assert phase_at(broker) in (phase, SwapPhase.ADOPTED, SwapPhase.IDLE)
        return
    following = OUTCOMES.get((role, phase, fate), phase)
    if fate is SwapFate.GIVE_UP and following and swap.c in swap.lost:  # there is no answer to wait for
        following = OUTCOMES[role, following, SwapFate.END]
    assert phase_at(broker) is following


class TestFates:
    """What swaplink/failures.py makes of the table."""

    @staticmethod
    def of(role, phase, *lost):
        return failures.fate(
            state.Swapping("1", "a", "b", "c", role, is_corrected=True, phase=phase, lost=sorted(lost))
        )

    @pytest.mark.parametrize("phase", [SwapPhase.LOCKED, SwapPhase.FLOODING])
    @pytest.mark.parametrize("lost", ["a", "c", "ac"])
    def test_b_gives_up_until_it_has_passed_the_tables_on(self, phase, lost):
        assert self.of(SwapRole.B, phase, *lost) is SwapFate.GIVE_UP

    def test_then_it_waits_for_who_is_left(self):
        assert self.of(SwapRole.B, SwapPhase.SWAPPING, "a") is SwapFate.WAIT
        assert self.of(SwapRole.B, SwapPhase.SWAPPING, "c") is SwapFate.WAIT
        assert self.of(SwapRole.B, SwapPhase.SWAPPING, "a", "c") is SwapFate.UNDO

    @pytest.mark.parametrize("lost", ["a", "b", "ab"])
    def test_c_completes_what_it_has_adopted(self, lost):
        assert self.of(SwapRole.C, SwapPhase.SWAPPING, *lost) is SwapFate.COMPLETE

    def test_and_undoes_what_it_has_not(self):
        assert self.of(SwapRole.C, SwapPhase.FLOODING, "b") is SwapFate.UNDO
        assert self.of(SwapRole.C, SwapPhase.FLOODING, "a") is SwapFate.WAIT

    def test_a_asks_b_to_let_go_of_a_lost_c(self):
        assert self.of(SwapRole.A, SwapPhase.SWAPPING, "c") is SwapFate.ASK
        assert self.of(SwapRole.A, SwapPhase.SWAPPING, "b") is SwapFate.WAIT
        assert self.of(SwapRole.A, SwapPhase.SWAPPING, "b", "c") is SwapFate.UNDO
        assert self.of(SwapRole.A, SwapPhase.LOCKED, "b") is SwapFate.UNDO
        assert self.of(SwapRole.A, SwapPhase.ADOPTED, "b") is SwapFate.COMPLETE


# The rule that phases change through the tables only ---------------------------------------------------------------


@pytest.mark.parametrize("module", sorted(Path(failures.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_only_the_part_sets_a_phase(module):
    targets = [
        target.attr
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute)
    ]
    assert ("phase" in targets) == (module.stem == "state")
