"""Pairs of features on real processes: scenarios that between them have every pair that processes may have.

A row of the covering array is a scenario of the generator (draw.py), at a pace that processes keep up with.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import MappingProxyType
from typing import Any

import msgspec

from pleach.scenario.model import Scenario, Stabilise
from pleach.scenario.steps import AdvertiseStep, Destroy, Restart, Step, SubscribeStep, UnadvertiseStep, UnsubscribeStep
from pleach.scenario.values import Span
from support.everything.covering import array_of, pairs_among, with_values
from support.everything.draw import drawn_case
from support.everything.features import Feature, Features, Pair

OF_SCENARIOS = "a scenario has no words for it; tests of its own: "
NOT_LIVE = MappingProxyType(
    {
        Feature.REBUILD: "on processes rounds wait for evidence: rebuild-paced",
        Feature.BACKUPS: "an old data directory has old sessions, and is refused: damage is done by `corrupt`",
        Feature.COMPONENTS: OF_SCENARIOS + "tests/server/test_components_live.py",
        Feature.COMPONENT_MOVES: OF_SCENARIOS + "tests/server/test_components_live.py",
        Feature.RING: OF_SCENARIOS + "python tests/long_run.py ring",
        Feature.SERVICE: "processes take the time that they take",
        Feature.MOVES_BOUNDED: "a machine that does other things, too, keeps no bound for delays",
    }
)
LIVE = tuple(feature for feature in Feature if feature not in NOT_LIVE)
STRETCH = 8.0  # times: of the simulator's bouts, which last a third of a second
REFRESH, PERIOD, PERIOD_OF_ROUNDS, SILENCE = 0.5, 2.0, 8.0, 2.0  # seconds
TIMES = ("at", "duration", "start", "until", "every", "window", "seconds")


def live_pairs() -> tuple[Pair, ...]:
    return pairs_among(LIVE)


def live_rows() -> tuple[frozenset[Feature], ...]:
    return array_of(LIVE)


def live_features(row: int) -> Features:
    return with_values(live_rows()[row], Random(f"live/{row}"), LIVE)


def live_scenario(row: int, seed: int) -> Scenario:
    features = live_features(row)
    case = drawn_case(seed, Random(f"live/{row}/{seed}"), features)
    scenario: Scenario = _stretched(case.scenario)
    return msgspec.structs.replace(
        scenario,
        name=f"live pairs {row}",
        stabilise=_stabilised(scenario.stabilise),
        steps=tuple(_apart(list(_without_repetitions(scenario)))),
        standby=scenario.standby and msgspec.structs.replace(scenario.standby, after=SILENCE),
    )


def _without_repetitions(scenario: Scenario) -> Iterator[Step]:
    """The client library refuses to subscribe to, or to advertise, what a client has already."""
    begins, ends = (SubscribeStep, AdvertiseStep), (UnsubscribeStep, UnadvertiseStep)
    active = {(client.id, text) for client in scenario.clients for text in (*client.subscribe, *client.advertise)}
    for step in scenario.steps:
        if isinstance(step, (*begins, *ends)):
            asked = (step.client, step.filter)
            if isinstance(step, begins) == (asked in active):
                continue
            active ^= {asked}
        yield step


def _apart(steps: list[Step]) -> list[Step]:
    """Before a machine is destroyed, the harness waits until all brokers have their copies: none is down by then."""
    last = max((step.at for step in steps if isinstance(step, Restart)), default=0.0)
    moved = (
        msgspec.structs.replace(step, at=max(step.at, last)) if isinstance(step, Destroy) else step for step in steps
    )
    return sorted(moved, key=lambda step: step.at)


def _stabilised(stabilise: Stabilise | None) -> Stabilise | None:
    if stabilise is None:
        return None
    period = PERIOD_OF_ROUNDS if stabilise.kind.rebuilds else PERIOD
    return Stabilise(kind=stabilise.kind, refresh=REFRESH, period=period)


def _stretched(value: Any, name: str = "") -> Any:
    """All times of a scenario but latencies, which are those of real links."""
    match value:
        case Span(low, high) if name in TIMES:
            return Span(low * STRETCH, high * STRETCH)
        case float() | int() if name in TIMES:
            return round(value * STRETCH, 4)
        case msgspec.Struct():
            fields = {each: _stretched(getattr(value, each), each) for each in value.__struct_fields__}
            return msgspec.structs.replace(value, **fields)
        case tuple():
            return tuple(_stretched(each, name) for each in value)
    return value
