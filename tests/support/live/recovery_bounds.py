"""What is promised of a network that finds back, with the delays that it had: on a busy machine longer than stated.

Bounds follow from how long messages take. Where they took longer than a scenario says, events are the evidence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from msgspec.structs import replace

from pleach.scenario.model import Scenario
from pleach.scenario.stabilise_settings import delays_of, flight_of, period_min_of, stabilisation_of
from pleach.trace import Record, RecordKind

PROMISED = re.compile(r"stabilises=(\S+) flight=\S+")


def slowest_delivery(records: Sequence[Record], since: float) -> float:
    """Of all events that came after this moment: no link was slower for them."""
    published = {each.event: each.at for each in records if each.kind == RecordKind.PUBLISH}
    late = (each.at - published[each.event] for each in records if each.kind == RecordKind.DELIVER and each.at >= since)
    return max(late, default=0.0)


def with_delays(scenario: Scenario, seconds: float) -> Scenario:
    """The scenario where a message takes so long on all its way, if that is longer than was stated: bounds follow.

    Bounds count a link to where something begins, and then a way from there to the last broker: each takes no longer.
    Where periods are too short for that, no entry runs out before a whole round has come (leases), and no round begins
    before the last one is whole (rebuild): as if periods were as many times as long.
    """
    stabilise = scenario.stabilise
    delay = replace(stabilise.delay, high=max(stabilise.delay.high, 2 * seconds / delays_of(scenario).hops))
    least = max(
        period_min_of(replace(scenario, stabilise=replace(stabilise, delay=delay))), stabilise.refresh + seconds
    )
    period = stabilise.period * max(1, math.ceil(least / stabilise.period))
    return replace(scenario, stabilise=replace(stabilise, delay=delay, period=period))


def as_it_was(record: Record, stated: Scenario, slowed: Scenario) -> Record:
    """Of a fault: its record says how long it takes to mend, as was reckoned when it came."""
    later = stabilisation_of(slowed) - stabilisation_of(stated)

    def promised(found: re.Match[str]) -> str:
        return f"stabilises={float(found[1]) + later:.9g} flight={flight_of(slowed):.9g}"

    return replace(record, detail=PROMISED.sub(promised, record.detail)) if record.kind == RecordKind.FAULT else record


def judged_as(records: Sequence[Record], scenario: Scenario) -> list[Record]:
    """The records of a run, with what is promised of each fault in view of the slowest delivery after the first."""
    faults = [record.at for record in records if record.kind == RecordKind.FAULT]
    if scenario.stabilise is None or not faults:
        return list(records)
    slowed = with_delays(scenario, slowest_delivery(records, faults[0]))
    return [as_it_was(record, scenario, slowed) for record in records]
