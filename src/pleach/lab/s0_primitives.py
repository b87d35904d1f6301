"""S0 Fig. 12–16: what SwapLink, AddBroker and RemoveBroker cost in the default scenario, and what that depends on.

SwapLink is measured as published and as corrected (docs/protocols/swaplink.md), which sends copies of flooded events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from pleach.lab.experiment import Case, Experiment, Sample, Size
from pleach.lab.rounds import Rounds, undisturbed
from pleach.lab.s0_figures import FIGURES
from pleach.lab.s0_scenario import (
    ADD,
    COMPLETE,
    CORRECTED,
    KB,
    KINDS,
    LABELS,
    OTHER,
    PARTIAL,
    PUB,
    PUBLISHED,
    REMOVE,
    SWAP,
    Meter,
    joining_of,
    publishers,
    removal_of,
    scenario_of,
    swap_of,
)

DEFAULT: Case = {
    "operation": SWAP,
    "variant": CORRECTED,
    "knowledge": PARTIAL,
    "brokers": 100,
    "subscriptions": 10,
    "gap_ms": 750,
    "operations": 100,
    "varies": "",  # which parameter is not the default one
}
SCALE: dict[Size, Case] = {
    Size.QUICK: {"brokers": 12, "operations": 3},
    Size.USUAL: {"brokers": 100, "operations": 20},
    Size.FULL: {"brokers": 100, "operations": 100},
}
VARIED: dict[Size, dict[str, Sequence[int]]] = {
    Size.QUICK: {"subscriptions": (1, 50), "brokers": (6,), "gap_ms": (20,)},
    Size.USUAL: {"subscriptions": (1, 3, 30, 100, 300), "brokers": (25, 50, 150, 200), "gap_ms": (50, 150, 2000)},
    Size.FULL: {
        "subscriptions": (1, 3, 30, 100, 300, 1000),
        "brokers": (25, 50, 75, 150, 200, 300),
        "gap_ms": (25, 50, 100, 250, 500, 1500, 3000),
    },
}
REMOVALS_SHARE = 0.1  # of the brokers, in one run: more would leave another network than the default one


def cases(size: Size) -> list[Case]:
    base = {**DEFAULT, **SCALE[size]}
    varied = VARIED[size]
    found: list[Case] = [{**base, "variant": variant} for variant in (CORRECTED, PUBLISHED)]
    found += [{**base, "knowledge": COMPLETE, "variant": variant} for variant in (CORRECTED, PUBLISHED)]
    for parameter in ("subscriptions", "brokers"):
        for knowledge in (PARTIAL, COMPLETE):
            found += [{**base, "knowledge": knowledge, **_but(parameter, value)} for value in varied[parameter]]
    found += [{**base, "variant": v, **_but("gap_ms", gap)} for gap in varied["gap_ms"] for v in (CORRECTED, PUBLISHED)]
    for operation in (ADD, REMOVE):
        few = {**base, "operation": operation, "operations": max(2, round(REMOVALS_SHARE * int(base["brokers"])))}
        found += [few, *({**few, **_but("subscriptions", value)} for value in (0, *varied["subscriptions"]))]
    return found


def _but(parameter: str, value: int) -> Case:
    return {parameter: value, "varies": parameter}


def cost(case: Case) -> float:
    """Most of it is to bring all subscriptions everywhere."""
    brokers, subscriptions = float(case["brokers"]), float(case["subscriptions"])
    tables = min(KINDS, brokers * subscriptions) if case["knowledge"] == PARTIAL else 0.0
    return brokers * (tables + subscriptions) * (1.0 + 0.02 * float(case["operations"])) + 1000.0


# Measuring ------------------------------------------------------------------------------------------------------


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """Per reconfiguration."""
    meter = _metered(case, seed)
    count = int(case["operations"])
    yield Sample("messages", meter.messages.total() / count)
    yield Sample("KB", (meter.bytes.total() + meter.additional_bytes) / count / KB)
    yield Sample("KB without pub", meter.bytes.total() / count / KB)
    yield Sample("additional events", meter.additional / count)
    yield Sample(f"KB {PUB}", meter.additional_bytes / count / KB)
    for label in (*LABELS.values(), OTHER):
        yield Sample(f"KB {label}", meter.bytes[label] / count / KB)
    if case["operation"] == ADD:
        yield Sample("messages elsewhere", meter.elsewhere / count)


def _metered(case: Case, seed: int) -> Meter:
    run = undisturbed(scenario_of(case, seed), seed)
    for client in run.clients.values():
        client.is_observed = False
    meter = Meter(run)
    rounds = Rounds(run)
    rounds.settle()
    rounds.publish(publishers(case, seed))
    rounds.wait(2 * float(case["gap_ms"]) / 1000.0)
    meter.is_on = True
    stream = Random(f"s0/{seed}/{case['operation']}")
    for i in range(int(case["operations"])):
        _carry_out(rounds, meter, str(case["operation"]), stream, f"n{i}")
    rounds.finish()
    return meter


def _carry_out(rounds: Rounds, meter: Meter, operation: str, stream: Random, name: str) -> None:
    tree = rounds.topology
    if operation == SWAP:
        swap = swap_of(stream, tree)
        meter.three = swap.brokers
        rounds.carry_out(swap)
    elif operation == ADD:
        meter.joining = name
        rounds.carry_out(joining_of(stream, tree, name))
    else:
        rounds.carry_out(removal_of(stream, tree))


PRIMITIVES = Experiment(
    name="s0-primitives",
    about="what SwapLink, AddBroker and RemoveBroker cost on the wire",
    cases=cases,
    seeds={Size.QUICK: 2, Size.USUAL: 2, Size.FULL: 10},
    measure=measure,
    cost=cost,
    figures=FIGURES,
)
