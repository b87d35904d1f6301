"""Scenarios that a file may have: steps that the language refuses are left out, in pairs where they come in pairs.

A step that names a broker which has left by then, or has not come because an earlier step went, is refused when the
file is read (scenario/timeline.py). Whoever draws or shrinks steps need not know: here they are dropped.
"""

from __future__ import annotations

import msgspec

from pleach.scenario.model import PerLink, Scenario
from pleach.scenario.positions import FlawError
from pleach.scenario.steps import AddBroker, Crash, Cut, Exchange, Heal, MoveClient, RemoveBroker, Restart, Step, Swap
from pleach.scenario.timeline import check_steps, in_order


def valid(scenario: Scenario) -> Scenario:
    scenario = _with(scenario, in_order(scenario.steps))
    while (flawed := _first_flaw(scenario)) is not None:
        scenario = _with(scenario, [step for i, step in enumerate(scenario.steps) if i != flawed])
    return _with_known_latencies(_with(scenario, ended(scenario.steps)))


def _with_known_latencies(scenario: Scenario) -> Scenario:
    """Links that exist only later have a latency of their own where a step, or [improve], may open them."""
    later = Swap | Exchange | RemoveBroker | MoveClient
    if scenario.improve or any(isinstance(step, later) for step in scenario.steps):
        return scenario
    added = [(step.broker, step.to) for step in scenario.steps if isinstance(step, AddBroker)]
    known = {frozenset(link) for link in (*scenario.links, *added, *((c.id, c.broker) for c in scenario.clients))}
    links = tuple(each for each in scenario.latency.links if frozenset(each[:2]) in known)
    return msgspec.structs.replace(scenario, latency=PerLink(scenario.latency.default, links))


def _with(scenario: Scenario, steps: list[Step] | tuple[Step, ...]) -> Scenario:
    return msgspec.structs.replace(scenario, steps=tuple(steps))


def _first_flaw(scenario: Scenario) -> int | None:
    try:
        check_steps(scenario)
    except FlawError as flaw:
        return int(flaw.path[1])
    return None


def ended(steps: tuple[Step, ...]) -> list[Step]:
    """Without outages that do not end, and ends of outages that have not begun."""
    kept: dict[int, Step] = dict(enumerate(steps))
    begun: dict[tuple[str, ...], list[int]] = {}
    for index, step in enumerate(steps):
        match step:
            case Crash(broker=broker):
                begun.setdefault((broker,), []).append(index)
            case Cut(link=link):
                begun.setdefault(tuple(sorted(link)), []).append(index)
            case Restart(broker=broker):
                _end(begun, (broker,), kept, index)
            case Heal(link=link):
                _end(begun, tuple(sorted(link)), kept, index)
    for index in (index for indices in begun.values() for index in indices):
        del kept[index]
    return list(kept.values())


def _end(begun: dict[tuple[str, ...], list[int]], key: tuple[str, ...], kept: dict[int, Step], index: int) -> None:
    if begun.get(key):
        begun[key].pop()
    else:
        del kept[index]
