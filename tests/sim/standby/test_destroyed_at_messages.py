"""A machine is destroyed at a message of each protocol: the one that handles it, one with a copy, or the sender's.

Whatever happens, the operation is done or refused, what is left is a tree whose tables agree, and the oracle finds
nothing. `python tests/long_run.py standby-points` goes through all messages; here are some of each kind.
"""

import pytest

from support.standby.ordeals import CASES
from support.thorough import FACTOR

PROTOCOLS = [name for name in CASES if ":" not in name]
OTHERS = [name for name in CASES if ":" in name]
MISHAPS = 12 * FACTOR  # of each case

EXPECTED = {
    "swap": {"RequestSwap", "Lock", "LockAck", "Swap", "Open", "Close"},
    "add": {"RequestAdd", "Connect", "ConnectAck"},
    "remove": {"RemoveReq", "RemoveAck", "Handover", "CloseAB", "Said", "Farewell", "ClientLeft", "Left"},
    "move": {"Negotiate", "Approve", "Halted", "MoveState", "MoveAck", "MoveCommit"},
    "add: replication": {"BeginFill", "EndFill", "Append", "Appended", "ViewInstalled"},
    "swap: promotion, destroyed": {"Ask", "Unheard", "Prepare", "Promise", "Propose", "Accepted", "ViewInstalled"},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_message_is_a_point(name):
    assert EXPECTED[name] <= {point.message for point in CASES[name].points}


@pytest.mark.parametrize("name", [*PROTOCOLS, *OTHERS])
def test_a_machine_goes_at_a_message(name):
    case = CASES[name]
    mishaps = [*case.mishaps()]
    for point, mishap in mishaps[3 :: max(1, len(mishaps) // MISHAPS)]:
        assert not case.ordeal(mishap).finish(), f"{name}: {point}, {mishap}"


def test_a_mishap_is_one():
    """Else nothing above would say anything."""
    case = CASES["swap"]
    point, mishap = next(case.mishaps())
    ordeal = case.ordeal(mishap)
    assert not ordeal.finish()
    assert len(ordeal.run.standbys.destroyed) == 1, point
