"""Checks between the parts of a scenario: the tree, the settings, the clients.

Steps are checked in `timeline.py`.
"""

from __future__ import annotations

from collections import deque
from itertools import chain

import msgspec

from pleach.core.events.language import parse_filter
from pleach.core.optimise.council_settings import council_complaints
from pleach.core.overlay.choice import CHOICES
from pleach.errors import FilterError
from pleach.scenario.clients import initial_advertisements
from pleach.scenario.model import PublishLoad, Routing, Scenario, ScenarioClient, Stabiliser
from pleach.scenario.positions import FlawError, Path
from pleach.scenario.read import instead
from pleach.scenario.steps import Slow

LOAD_EVENTS_MAX = 10_000_000  # of one `publish`
PARTS_SHOWN_MAX = 5
SILENCE_LATENCIES_MIN = 8  # a view is chosen within four, and two are asked for before


def with_brokers(scenario: Scenario) -> Scenario:
    """Fill in the brokers, in order of appearance, and the root."""
    brokers = tuple(dict.fromkeys(chain(scenario.brokers, chain.from_iterable(scenario.links))))
    if not brokers:
        raise FlawError(
            ("links",),
            '`links` is missing: pairs of brokers such as [["a", "b"]], or `brokers` = ["a"] for one',
        )
    return msgspec.structs.replace(scenario, brokers=brokers, root=scenario.root or brokers[0])


# The tree ---------------------------------------------------------------------------------------------------


def check_tree(scenario: Scenario) -> None:
    """The links connect all brokers without a cycle, unless `cyclic` allows one."""
    _check_cycles(scenario)
    part_of = {broker: [broker] for broker in scenario.brokers}  # brokers of one part share one list
    for i, (a, b) in enumerate(scenario.links):
        if part_of[a] is part_of[b]:
            if _may_close_cycle(scenario, i):
                continue
            raise FlawError(("links", i), _superfluous(scenario, i))
        joined, smaller = sorted((part_of[a], part_of[b]), key=len, reverse=True)
        joined.extend(smaller)
        part_of.update(dict.fromkeys(smaller, joined))
    parts = [part for broker, part in part_of.items() if part[0] == broker]
    if len(parts) > 1:
        shown = " and ".join("{" + ", ".join(sorted(part)) + "}" for part in parts[:PARTS_SHOWN_MAX])
        more = " and …" if len(parts) > PARTS_SHOWN_MAX else ""
        reason = f"the brokers fall into {len(parts)} parts: {shown}{more}; add a link between them"
        raise FlawError(("links",) if scenario.links else ("brokers",), reason)


def _check_cycles(scenario: Scenario) -> None:
    stabilise = scenario.stabilise
    if stabilise and stabilise.cyclic and not stabilise.kind.rebuilds:
        reason = f'only rebuilt tables can be `cyclic`; set kind = "{Stabiliser.REBUILD}", or leave `cyclic` out'
        raise FlawError(("stabilise", "cyclic"), reason)


def _may_close_cycle(scenario: Scenario, index: int) -> bool:
    a, b = scenario.links[index]
    is_new = a != b and not {(a, b), (b, a)} & {*scenario.links[:index]}
    return is_new and scenario.stabilise is not None and scenario.stabilise.cyclic


def _superfluous(scenario: Scenario, index: int) -> str:
    a, b = scenario.links[index]
    if a == b:
        return f"link {a}-{b} joins a broker to itself; a link needs two brokers"
    way = _way(scenario.links[:index], a, b)
    if len(way) == 2:
        return f"link {a}-{b} is there twice; leave one out"
    return f"link {a}-{b} closes a cycle: {'-'.join([*way, a])}; leave one of these links out"


def _way(links: tuple[tuple[str, str], ...], start: str, end: str) -> list[str]:
    """The brokers on the path between two brokers, which must be connected."""
    before = {start: start}
    queue = deque([start])
    while end not in before:
        here = queue.popleft()
        for a, b in links:
            there = b if here == a else a if here == b else here
            if there not in before:
                before[there] = here
                queue.append(there)
    way = [end]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]


def check_settings(scenario: Scenario) -> None:
    if scenario.root not in scenario.brokers:
        reason = f"`root` is {scenario.root!r}, which is not a broker{instead(scenario.root, scenario.brokers)}"
        raise FlawError(("root",), reason)
    if scenario.exchange not in CHOICES:
        reason = f"unknown exchange {scenario.exchange!r}{instead(scenario.exchange, CHOICES)}"
        raise FlawError(("exchange",), reason)
    if scenario.merge_bound and scenario.routing is not Routing.MERGING:
        reason = f'`merge_bound` does not apply to {scenario.routing} routing; set routing = "merging"'
        raise FlawError(("merge_bound",), reason)
    _check_standby(scenario)
    _check_improve(scenario)


def _check_standby(scenario: Scenario) -> None:
    standby = scenario.standby
    if standby is None:
        return
    if scenario.stabilise and scenario.stabilise.kind is Stabiliser.COLOURED:
        reason = "a coloured network goes on without the brokers that it loses; leave [standby] or the colours out"
        raise FlawError(("standby",), reason)
    if scenario.stabilise and scenario.stabilise.kind in (Stabiliser.REBUILD, Stabiliser.REBUILD_PRINTED):
        reason = (
            f'rounds by the clock do not wait for a broker that comes back; set kind = "{Stabiliser.REBUILD_PACED}"'
        )
        raise FlawError(("stabilise", "kind"), f"with [standby], {reason}")
    for i, machine in enumerate(standby.machines):
        if machine in scenario.brokers or any(machine == client.id for client in scenario.clients):
            reason = f"{machine!r} is the name of a broker or a client; machines have names of their own"
            raise FlawError(("standby", "machines", i), reason)
    count, wanted = len(scenario.brokers) + len(standby.machines), 2 * standby.copies - 1
    if count < wanted:
        reason = f"{standby.copies} copies need a majority of {wanted} machines, and there are {count}; add `machines`"
        raise FlawError(("standby",), reason)


def check_silence(scenario: Scenario) -> None:
    """Once [latency] is known: silence is longer than the messages take by which a view is chosen."""
    if scenario.standby is None:
        return
    latencies = [scenario.latency.default, *(latency for _, _, latency in scenario.latency.links)]
    latencies += [step.latency for step in scenario.steps if isinstance(step, Slow)]
    slowest = max(latency.high for latency in latencies)
    if scenario.standby.after < SILENCE_LATENCIES_MIN * slowest:
        reason = f"a link may take {slowest:g} s, and `after` must be {SILENCE_LATENCIES_MIN} times that at least"
        raise FlawError(("standby", "after"), f"`standby.after` is {scenario.standby.after:g} s: {reason}")


def _check_improve(scenario: Scenario) -> None:
    if scenario.improve is None:
        return
    for key, reason, remedy in council_complaints(scenario.improve):
        raise FlawError(("improve", key), f"`improve.{key}`: {reason}; {remedy}")
    if scenario.hierarchical:
        raise FlawError(("improve",), "hierarchical routing goes by the root, not by costs; leave `hierarchical` out")
    if scenario.stabilise and scenario.stabilise.kind is not Stabiliser.LEASES:
        reason = f'only leases go with [improve]; set kind = "{Stabiliser.LEASES}", or leave one of them out'
        raise FlawError(("improve",), reason)


# Clients ----------------------------------------------------------------------------------------------------


def check_clients(scenario: Scenario) -> None:
    seen: set[str] = set()
    brokers = set(scenario.brokers)
    for i, client in enumerate(scenario.clients):
        path: Path = ("clients", i)
        if client.id in seen:
            raise FlawError((*path, "id"), f"client {client.id!r} is there twice; ids are unique")
        if client.id in brokers:
            raise FlawError((*path, "id"), f"client {client.id!r} is named as a broker; nodes share one name space")
        if client.broker not in brokers:
            reason = f"client {client.id!r} is at {client.broker!r}, which is not a broker"
            raise FlawError((*path, "broker"), reason + instead(client.broker, brokers))
        seen.add(client.id)
        for j, load in enumerate(client.publish):
            _check_load(load, scenario.duration, (*path, "publish", j))
        _check_advertisements(scenario, client, path)


def _check_load(load: PublishLoad, duration: float, path: Path) -> None:
    until = duration if load.until is None else load.until
    if until > duration:
        reason = f"`until` is {until:g} s, after `duration` = {duration:g} s; prolong that or end before"
        raise FlawError((*path, "until"), reason)
    if load.start > until:
        reason = f"`from` is {load.start:g} s, after `until` ({until:g} s, by default the duration); swap them"
        raise FlawError((*path, "from"), reason)
    events = 2 * (until - load.start) / (load.every.low + load.every.high)
    if min(events, load.count or events) > LOAD_EVENTS_MAX:
        reason = f"about {events:.0e} events, more than {LOAD_EVENTS_MAX:,}; raise `every` or set `count`"
        raise FlawError((*path, "every"), reason)


def _check_advertisements(scenario: Scenario, client: ScenarioClient, path: Path) -> None:
    """Derived advertisements must not exceed the limits of a filter."""
    try:
        for text in initial_advertisements(scenario, client):
            parse_filter(text)
    except FilterError as error:
        reason = f"client {client.id!r}: no advertisement can be derived ({error.reason}); give it `advertise`"
        raise FlawError(path, reason) from None
