"""A chain with two side branches, of which one client moves from end to end: what single movements are looked at in.

      u       w        every broker has a client that wants something and answers; s has the one that moves: it
      │       │        publishes, wants what some others want, too, and what nobody else wants
s ─── b ─── c ─── t
"""

from __future__ import annotations

from itertools import combinations

import msgspec

from pleach.core.messages import Node
from pleach.scenario.model import Ordering, PerLink, PublishLoad, Reply, Routing, Scenario, ScenarioClient
from pleach.scenario.steps import MoveClient, Step
from pleach.scenario.values import Span, Uniform
from support.mobility.moving_clients import WatchedMoves
from support.overlay.faults_at_messages import Journey

MOVES_AT = 0.1
DURATION = 0.3
BROKERS = ("s", "b", "c", "t", "u", "w")
LINKS = (("s", "b"), ("b", "c"), ("c", "t"), ("b", "u"), ("c", "w"))
PATH = ("s", "b", "c", "t")
SLOW = {("b", "c"): 0.008, ("c", "t"): 0.003}  # seconds; others 1 ms
LATENCY_CLIENT = 0.0005
GAP = 0.02
MOVER = "mover"
MOVE = MoveClient(at=MOVES_AT, client=MOVER, to="t")

WANTED = {  # the mover's `said > 2` hides and is hidden; `answered = 'at-s'` is its own
    MOVER: ("said > 2", "answered = 'at-s'", "said = 1"),
    "at-s": ("said > 7",),
    "at-b": ("said > 4", "EXISTS answered"),
    "at-c": ("said > 4 AND said < 7",),
    "at-t": ("said >= 0",),
    "at-u": ("said = 8",),
    "at-w": ("said > 6", "answered = 'mover'"),
}


def route(*steps: Step, at: str = "s", **changes) -> Scenario:
    """`at`: where the mover begins."""
    scenario = Scenario(
        name="route",
        routing=Routing.COVERING,
        ordering=Ordering.CAUSAL,
        root="c",
        links=LINKS,
        brokers=BROKERS,
        duration=DURATION,
        latency=PerLink(Span(LATENCY_CLIENT, LATENCY_CLIENT), tuple(_latencies())),
        clients=tuple(_client(name, at if name == MOVER else name[-1]) for name in WANTED),
        steps=steps,
    )
    return msgspec.structs.replace(scenario, **changes)


def _latencies():
    for a, b in combinations(BROKERS, 2):
        seconds = SLOW.get((a, b), 0.001)
        yield a, b, Span(seconds, seconds)


def _client(name: Node, broker: Node) -> ScenarioClient:
    return ScenarioClient(
        id=name,
        broker=broker,
        publish=(PublishLoad(every=Span(GAP * 0.5, GAP * 1.5), attributes={"said": Uniform(0, 9)}),),
        reply=(Reply(to="said > 5", attributes={"answered": name}, probability=0.3),),
        subscribe=WANTED[name],
    )


class Trip(Journey):
    """A journey whose clients are looked after, too."""

    def __init__(self, scenario, mishaps=()):
        super().__init__(scenario, mishaps, traffic_notes=WatchedMoves)

    @property
    def place(self) -> list[Node]:
        return [name for name, broker in sorted(self.run.brokers.items()) if MOVER in broker.sessions]
