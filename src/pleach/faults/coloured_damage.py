"""Faults that damage a coloured broker (S1 §4.5.3): colours, pointers, tables, clocks, and whatever else it keeps.

Out of reach is what S1 keeps in ROM: the code, the name, the periods, the root group; and here, what an operator has
decided: that the broker leaves, or has left, and who has its clients then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from msgspec.structs import replace

from pleach.core.messages import Node, ParentChange, pack, unpack
from pleach.core.overlay.coloured.broker import ColouredState
from pleach.core.overlay.coloured.client_handover import TURNS_MAX, HandoverState
from pleach.core.overlay.coloured.holding import HoldingState
from pleach.core.overlay.coloured.keeper import ChildState, ColouredPhase, KeeperState
from pleach.core.overlay.coloured.planes import COLOURS, PlaneState
from pleach.core.overlay.coloured.requests import CensusState, RequestsState
from pleach.faults.damage import Hand, any_time, damaged_clients, damaged_entries

ColouredDamage: TypeAlias = Callable[[ColouredState, Hand], ColouredState]


def damaged_coloured(state: bytes, what: str, hand: Hand) -> bytes:
    return pack(COLOURED_PARTS[what](unpack(state, ColouredState), hand))


def colours(state: ColouredState, hand: Hand) -> ColouredState:
    """Any colour is new."""
    return replace(state, planes=replace(state.planes, new=hand.stream.randrange(COLOURS)))


def pointers(state: ColouredState, hand: Hand) -> ColouredState:
    """Parents and children, in every colour: none, or any broker; and what is known of the children."""
    struck = _each_plane(state, lambda plane: _pointed_anywhere(plane, hand))
    known = {child: hand.stream.choice(tuple(ChildState)) for child in hand.brokers if hand.strikes}
    keeper = replace(struck.keeper, standing={**struck.keeper.standing, **known})
    return replace(struck, keeper=keeper)


def _pointed_anywhere(plane: PlaneState, hand: Hand) -> PlaneState:
    parent = hand.stream.choice((None, *hand.brokers)) if hand.strikes else plane.parent
    children = [child for child in plane.children if not hand.strikes]
    return replace(plane, parent=parent, children=sorted({*children, *(_somebody(hand) for _ in hand.some())}))


def _somebody(hand: Hand) -> Node:
    return hand.stream.choice(hand.brokers)


def table(state: ColouredState, hand: Hand) -> ColouredState:
    return _each_plane(state, lambda plane: _with_other_entries(plane, hand))


def _with_other_entries(plane: PlaneState, hand: Hand) -> PlaneState:
    known = plane.router.subscriptions
    entries = replace(known, received=damaged_entries(known.received, hand), stale={})
    return replace(plane, router=replace(plane.router, subscriptions=entries))


def clients(state: ColouredState, hand: Hand) -> ColouredState:
    return _each_plane(state, lambda plane: replace(plane, clients=damaged_clients(plane.clients, hand)))


def clock(state: ColouredState, hand: Hand) -> ColouredState:
    """The timer is due at any time."""
    return replace(state, keeper=replace(state.keeper, due=any_time(hand)))


def duties(state: ColouredState, hand: Hand) -> ColouredState:
    """What a broker takes itself for, whom it takes for the root, and what it has collected or holds."""
    former = state.keeper
    keeper = KeeperState(
        phase=former.phase if former.phase is ColouredPhase.OUTSIDE else hand.stream.choice(tuple(ColouredPhase)[1:]),
        root=_somebody(hand),
        depth=hand.stream.randrange(-1, 9),
        due=former.due,
        leaving=former.leaving,
        asking=hand.stream.randrange(9),
        lost=_somebody(hand),
        standing=former.standing,
        census=former.census if hand.strikes else CensusState({_somebody(hand): [(_somebody(hand), _somebody(hand))]}),
        requests=RequestsState(moves=[ParentChange(_somebody(hand), _somebody(hand)) for _ in hand.some()]),
    )
    held = [item for item in state.holding.published if not hand.strikes]
    holding = HoldingState(hand.strikes, held, [item for item in state.holding.sends if not hand.strikes])
    guests = HandoverState(state.guests.relay, {client: TURNS_MAX for client in hand.clients if hand.strikes})
    early = [item for item in state.early if not hand.strikes]
    return replace(state, keeper=keeper, holding=holding, guests=guests, early=early)


def everything(state: ColouredState, hand: Hand) -> ColouredState:
    for part in (colours, pointers, table, clients, clock, duties):
        state = part(state, hand)
    return state


def _each_plane(state: ColouredState, struck: Callable[[PlaneState], PlaneState]) -> ColouredState:
    return replace(state, planes=replace(state.planes, planes=[struck(plane) for plane in state.planes.planes]))


COLOURED_PARTS: Mapping[str, ColouredDamage] = MappingProxyType(
    {
        "colours": colours,
        "pointers": pointers,
        "table": table,
        "clients": clients,
        "clock": clock,
        "duties": duties,
        "all": everything,
    }
)
