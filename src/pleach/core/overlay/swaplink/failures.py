"""What becomes of a swap if one of its brokers dies for good (docs/protocols/healing.md).

Once c is on the new routing the swap is completed, before that it is undone. Whoever can tell decides, and says so:

    dead   decides                                              the others
    a      b, until it has passed `swap` on: undone;            wait for what b or c says
           then c, which has got it: completed
    b      c: on the new routing, or not                        a waits for `swap` or `abort` from c
    c      b, until it has passed `swap` on: undone;            b waits for `close` or `abort` from a
           then a, which has heard of c, or never will
    two    the third, for itself: undone but where it has adopted the new routing

All that the dead one has sent has arrived when its neighbours are told. Meanwhile events from outside wait: which way
they go is open.
"""

from __future__ import annotations

from enum import StrEnum

from pleach.core.overlay.swaplink.events import SwapPhase, Swapping, SwapRole


class SwapFate(StrEnum):
    WAIT = "wait"  # another one decides
    UNDO = "undo"
    GIVE_UP = "give up"  # b: as when a lease is over
    ASK = "ask"  # a: b gives up, and says so
    COMPLETE = "complete"  # as if the dead one had closed its paths
    END = "end"  # it was being undone, and only the dead one's answer is missing


def fate(swap: Swapping) -> SwapFate:
    match swap.role:
        case SwapRole.A:
            return _at_a(swap)
        case SwapRole.B:
            return _at_b(swap)
        case SwapRole.C:
            return _at_c(swap)


def _at_a(swap: Swapping) -> SwapFate:
    is_b_dead, is_c_dead = swap.b in swap.dead, swap.c in swap.dead
    match swap.phase:
        case SwapPhase.LOCKED:
            return SwapFate.UNDO if is_b_dead else SwapFate.WAIT
        case SwapPhase.ADOPTED:
            return SwapFate.COMPLETE
        case SwapPhase.ABORTING:
            return SwapFate.END if is_b_dead else SwapFate.WAIT
    if is_b_dead:
        return SwapFate.UNDO if is_c_dead else SwapFate.WAIT
    return SwapFate.ASK


def _at_b(swap: Swapping) -> SwapFate:
    match swap.phase:
        case SwapPhase.LOCKED | SwapPhase.FLOODING:
            return SwapFate.GIVE_UP
        case SwapPhase.ADOPTED:
            return SwapFate.COMPLETE
        case SwapPhase.ABORTING:
            return SwapFate.END if swap.c in swap.dead else SwapFate.WAIT
    return SwapFate.UNDO if len(swap.dead) > 1 else SwapFate.WAIT


def _at_c(swap: Swapping) -> SwapFate:
    if swap.phase is not SwapPhase.FLOODING:
        return SwapFate.COMPLETE
    return SwapFate.UNDO if swap.b in swap.dead else SwapFate.WAIT
