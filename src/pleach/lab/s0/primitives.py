"""S0 Fig. 12–16: what SwapLink, AddBroker and RemoveBroker cost in the default scenario, and what that depends on.

SwapLink is measured as published and as corrected (docs/protocols/swaplink.md), which sends copies of flooded events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from pleach.lab.experiment import Case, Sample, Size
from pleach.lab.rounds import Rounds, undisturbed
from pleach.lab.s0.default_scenario import (
    COMPLETE,
    CORRECTED,
    JOINING_ELSEWHERE,
    JOINING_MESSAGES,
    KB,
    KINDS,
    LABELS,
    OTHER,
    PARTIAL,
    PUB,
    PUBLISHED,
    REMOVAL_KB,
    WireMeter,
    WireTally,
    joining_of,
    publishers,
    removal_of,
    scenario_of,
    swap_of,
)

DEFAULT: Case = {
    "variant": CORRECTED,
    "knowledge": PARTIAL,
    "brokers": 100,
    "subscriptions": 10,
    "gap_ms": 750,
    "swaps": 100,
    "varies": "",  # which parameter is not the default one
}
SCALE: dict[Size, Case] = {
    Size.QUICK: {"brokers": 12, "swaps": 3},
    Size.USUAL: {"brokers": 100, "swaps": 20},
    Size.FULL: {"brokers": 100, "swaps": 100},
}
VARIED: dict[Size, dict[str, Sequence[int]]] = {
    Size.QUICK: {"subscriptions": (0, 1, 40), "brokers": (6,), "gap_ms": (20,)},
    Size.USUAL: {"subscriptions": (0, 1, 30, 100, 300), "brokers": (25, 50, 150), "gap_ms": (50, 250)},
    Size.FULL: {
        "subscriptions": (0, 1, 3, 30, 100, 300, 1000),
        "brokers": (25, 50, 75, 150, 200, 300),
        "gap_ms": (25, 50, 100, 250, 500, 1500, 3000),
    },
}
REMOVALS_SHARE = 0.1  # of the brokers, in one run: more would leave another network than the default one
JOININGS = 3


def cases(size: Size) -> list[Case]:
    base = {**DEFAULT, **SCALE[size]}
    varied = VARIED[size]
    variants, all_knowledge = (CORRECTED, PUBLISHED), (PARTIAL, COMPLETE)
    found: list[Case] = [{**base, "knowledge": k, "variant": v} for k in all_knowledge for v in variants]
    for parameter in ("subscriptions", "brokers"):
        found += [{**base, "knowledge": k, **_but(parameter, n)} for k in all_knowledge for n in varied[parameter]]
    return [*found, *({**base, "variant": v, **_but("gap_ms", gap)} for gap in varied["gap_ms"] for v in variants)]


def _but(parameter: str, value: int) -> Case:
    return {parameter: value, "varies": parameter}


def cost(case: Case) -> float:
    """Most of it is to bring all subscriptions everywhere."""
    brokers, subscriptions = float(case["brokers"]), float(case["subscriptions"])
    tables = min(KINDS, brokers * subscriptions) if case["knowledge"] == PARTIAL else 0.0
    return brokers * (tables + subscriptions) * (1.0 + 0.02 * float(case["swaps"])) + 1000.0


# Measuring ------------------------------------------------------------------------------------------------------


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """Per reconfiguration: first swaps, then leaves that are removed, then some that join."""
    rounds, meter = _warmed_up(case, seed)
    stream = Random(f"s0/{seed}/reconfigurations")
    swaps, removals = int(case["swaps"]), max(2, round(REMOVALS_SHARE * int(case["brokers"])))
    yield from _costs_of_swaps(_swapped(rounds, meter, stream, swaps), swaps)
    yield Sample(REMOVAL_KB, _removed(rounds, meter, stream, removals).bytes.total() / removals / KB)
    joined = _joined(rounds, meter, stream)
    yield Sample(JOINING_MESSAGES, joined.messages.total() / JOININGS)
    yield Sample(JOINING_ELSEWHERE, joined.elsewhere / JOININGS)
    rounds.finish()


def _warmed_up(case: Case, seed: int) -> tuple[Rounds, WireMeter]:
    """All subscriptions are everywhere, and all clients publish."""
    run = undisturbed(scenario_of(case, seed), seed)
    for client in run.clients.values():
        client.is_observed = False
    meter = WireMeter(run)
    rounds = Rounds(run)
    rounds.settle()
    rounds.publish(publishers(case, seed))
    rounds.wait(2 * float(case["gap_ms"]) / 1000.0)
    return rounds, meter


def _costs_of_swaps(tally: WireTally, count: int) -> Iterator[Sample]:
    yield Sample("messages", tally.messages.total() / count)
    yield Sample("KB", (tally.bytes.total() + tally.additional_bytes) / count / KB)
    yield Sample("KB without pub", tally.bytes.total() / count / KB)
    yield Sample("additional events", tally.additional / count)
    yield Sample(f"KB {PUB}", tally.additional_bytes / count / KB)
    for label in (*LABELS.values(), OTHER):
        yield Sample(f"KB {label}", tally.bytes[label] / count / KB)


def _swapped(rounds: Rounds, meter: WireMeter, stream: Random, count: int) -> WireTally:
    tally = meter.start()
    for _ in range(count):
        swap = swap_of(stream, rounds.topology)
        meter.three = swap.brokers
        rounds.carry_out(swap)
    return tally


def _removed(rounds: Rounds, meter: WireMeter, stream: Random, count: int) -> WireTally:
    tally = meter.start()
    for _ in range(count):
        rounds.carry_out(removal_of(stream, rounds.topology))
    return tally


def _joined(rounds: Rounds, meter: WireMeter, stream: Random) -> WireTally:
    tally = meter.start()
    for number in range(JOININGS):
        meter.joining = f"new{number}"
        rounds.carry_out(joining_of(stream, rounds.topology, meter.joining))
    return tally
