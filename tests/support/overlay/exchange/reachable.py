"""Every state of a broker that an exchange can reach on a small cycle, and every row of its table that is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from unittest import mock

import msgspec

from pleach.core.broker import Broker
from pleach.core.messages import Node
from pleach.core.overlay.exchange.contract import Input, TablePart
from pleach.core.overlay.exchange.cycle import CycleRole
from pleach.explore.world import World
from pleach.scenario import Scenario
from pleach.scenario.machines import make_broker, tree_of
from pleach.scenario.script import ExploreOptions, script_of
from support.explore.chains import Chain, client, subscribe

OPTIONS = ExploreOptions(instant_clients=True, timers=True)
SHAPES = {  # brokers, and the first end of r on the path
    "u–x–y–v": ("1234", 1),
    "u = x": ("123", 0),
    "y = v": ("123", 1),
    "a broker between u and x": ("12345", 2),
    "a broker between y and v": ("12345", 1),
}


def shaped(protocol: str, shape: str, *, is_subscribed: bool = False) -> Scenario:
    """With `is_subscribed`, a client beyond r subscribes while the exchange is under way."""
    brokers, cut = SHAPES[shape]
    exchange = f"do = 'exchange'\nremove = {list(brokers[cut : cut + 2])}\nadd = {[brokers[0], brokers[-1]]}"
    changes = (subscribe("s", "price > 50"),) if is_subscribed else ()
    clients = (client("s", brokers[cut + 1]),) if is_subscribed else ()
    chain = Chain(brokers=brokers, routing="simple", clients=clients, steps=(exchange, *changes))
    return msgspec.structs.replace(chain.scenario(), exchange=protocol)


@dataclass
class Reached:
    """`states`: of each broker, what it captured in every state. `rows`: those of the table that were used, and how."""

    states: dict[Node, list[bytes]] = field(default_factory=dict)
    rows: dict[tuple[CycleRole, StrEnum, Input], set[StrEnum]] = field(default_factory=dict)


def reached(scenario: Scenario) -> Reached:
    """Every order of messages and timers. Raises BrokenError where a machine raises: a row is missing."""
    found = Reached()
    original = TablePart._checked

    def recorded(part: TablePart, before: Any, cause: Input, reaction: Any) -> Any:
        after = {type(phase): phase for _, phase in part.phases()}
        for role, phase in before:
            if (role, phase, cause) in part.TRANSITIONS:
                found.rows.setdefault((role, phase, cause), set()).add(after[type(phase)])
        return original(part, before, cause, reaction)

    with mock.patch.object(TablePart, "_checked", recorded):
        world = World(script_of(scenario, OPTIONS))
        for name, state in _brokers(world, scenario.brokers):
            found.states.setdefault(name, []).append(state)
    return found


def _brokers(world: World, names: tuple[Node, ...]) -> Iterator[tuple[Node, bytes]]:
    known, waiting, seen = {world.start}, [world.start], set()
    while waiting:
        state = waiting.pop()
        for place, name in enumerate(names):
            if (name, state[place]) not in seen:
                seen.add((name, state[place]))
                yield name, world.brokers(state)[name].capture()
        following = {world.take(state, move) for move in world.moves(state)} - known
        known |= following
        waiting += following


def in_state(scenario: Scenario, name: Node, state: bytes) -> Broker:
    broker = make_broker(scenario, tree_of(scenario), name)
    broker.restore(state)
    return broker
