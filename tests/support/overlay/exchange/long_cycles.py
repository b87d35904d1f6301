"""Random networks around a cycle whose length is drawn first: four to twelve brokers, and some that are not on it.

Where any link is exchanged for any other, as in `exchanged.drawn_exchange`, most cycles have three brokers, and both
links meet at one of them: what is relayed then has no way to go. Here nearly all have four ends apart, sides of several
brokers each, and brokers outside, whose tables have to stay as they are.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

from pleach.scenario.model import PerLink, Routing, Scenario
from pleach.scenario.steps import Exchange, Step
from pleach.scenario.values import Span
from support.overlay.changing_trees import LATENCY_FASTEST, clients_of, latencies_of, unrest_of

CYCLE_MIN, CYCLE_MAX = 4, 12
OUTSIDE_MIN, OUTSIDE_MAX = 1, 4
UNREST = (0.0, 0.15, 0.35)  # seconds after the exchange has begun: about the lock, the way to r, and the way back
LOAD_AFTER = 0.8


def around_a_cycle(seed: int, at: float) -> tuple[Scenario, Exchange]:
    """A network, and the exchange that is to happen in it."""
    stream = Random(f"cycle/{seed}")
    cycle = [f"b{i}" for i in range(stream.randint(CYCLE_MIN, CYCLE_MAX))]
    brokers, links = list(cycle), list(pairwise(cycle))
    for index in range(len(cycle), len(cycle) + stream.randint(OUTSIDE_MIN, OUTSIDE_MAX)):
        links.append((stream.choice(brokers), f"b{index}"))
        brokers.append(f"b{index}")
    clients = clients_of(stream, brokers, at + LOAD_AFTER)
    steps: list[Step] = []
    for index, client in enumerate(clients):
        steps += unrest_of(stream, client, index, [at + after for after in UNREST])
    scenario = Scenario(
        name=f"cycle {seed}",
        routing=Routing.SIMPLE,
        root=stream.choice(brokers),
        links=tuple(links),
        brokers=tuple(brokers),
        duration=at + LOAD_AFTER,
        latency=PerLink(Span(LATENCY_FASTEST, LATENCY_FASTEST), latencies_of(stream, brokers, clients)),
        clients=tuple(clients),
        steps=tuple(sorted(steps, key=lambda step: step.at)),
    )
    return scenario, _exchange(stream, cycle, at)


def _exchange(stream: Random, cycle: list[str], at: float) -> Exchange:
    """Any link of the chain for the one that closes it, asked for at either end of it."""
    cut = stream.randrange(len(cycle) - 1)
    ends = (cycle[0], cycle[-1])
    added = ends if stream.random() < 0.5 else ends[::-1]
    return Exchange(at=at, remove=(cycle[cut], cycle[cut + 1]), add=added)
