"""A case: a scenario, and what is done beside it that the language of scenarios has no words for.

Components are hosted and moved by requests of an operator; the ring is looked at by a steward. All of it travels as a
table `[beside]` in the file of a case (files.py).
"""

from __future__ import annotations

import msgspec

from pleach.core.messages import Node
from pleach.scenario.model import Scenario


class HostedComponent(msgspec.Struct, frozen=True, kw_only=True):
    """A running sum of the events that match `filter`."""

    id: Node
    broker: Node
    filter: str
    at: float


class ComponentMove(msgspec.Struct, frozen=True, kw_only=True):
    component: Node
    to: Node
    at: float
    delay_max: float = 0.0


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """`ring_every`: seconds between two looks of the steward; 0: there is no ring. `ring_until`: of its last look."""

    components: tuple[HostedComponent, ...] = ()
    component_moves: tuple[ComponentMove, ...] = ()
    ring_every: float = 0.0
    ring_until: float = 1e9


NOTHING = Beside()


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """`features` are names, for reports. A run is a function of the case alone."""

    seed: int
    scenario: Scenario
    beside: Beside = NOTHING
    features: tuple[str, ...] = ()
