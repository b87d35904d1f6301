"""The acts of the demo: each has steps of the scenario language and a description.

A new act is a new entry of `ACTS`; the clients, their load and the initial tree are those of
scenario/demo.toml.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations

import msgspec

from pleach.core.messages import Node
from pleach.scenario import steps
from pleach.scenario.load import parse_scenario
from pleach.scenario.model import PerLink, Scenario, ScenarioClient
from pleach.scenario.values import Span

ZONES = {"fra": "Frankfurt", "iad": "Virginia", "nrt": "Tokyo"}  # by the first letters of a broker's name
ZONE_LETTERS = 3
FAR = {  # seconds, one way
    ("fra", "iad"): Span(0.040, 0.050),
    ("iad", "nrt"): Span(0.075, 0.095),
    ("fra", "nrt"): Span(0.110, 0.130),
}
DEMO_SECONDS_MAX = 900.0  # loads end here if the demo takes longer


@dataclass(frozen=True)
class DemoAct:
    """`steps`: `at` is in seconds after the act begins. Those of one moment go together; later ones wait for them."""

    name: str
    title: str
    says: str
    steps: tuple[steps.Step, ...] = ()
    looks: int = 0  # rounds of the control loop after the steps


ACTS: tuple[DemoAct, ...] = (
    DemoAct(
        "calm",
        "Load, and one more reader that subscribes to it",
        "Shops, sensors and tickers publish; whoever wants that sits in other zones, an ocean away or two.",
        (steps.SubscribeStep(at=0.0, client="reader-science", filter="news = 'science'"),),
    ),
    DemoAct(
        "swap",
        "Swap a link: iad3 hangs on iad1, and shall hang on iad2",
        "SwapLink moves one end of a link by one hop. Twelve messages; events go on, in order.",
        (steps.Swap(at=0.0, brokers=("iad3", "iad1", "iad2")),),
    ),
    DemoAct(
        "add",
        "Add a broker: iad4 starts, and joins at iad1",
        "A new process, and a new leaf of the tree. It learns who wants what before it takes part.",
        (steps.AddBroker(at=0.0, broker="iad4", to="iad1"),),
    ),
    DemoAct(
        "remove",
        "Remove iad2, which carries iad3 and five clients",
        "Its links go to others first; its clients are sent to a neighbour, with what was not delivered yet.",
        (steps.RemoveBroker(at=0.0, broker="iad2"),),
    ),
    DemoAct(
        "destroy",
        "Destroy the machine of fra1, which carries all of Frankfurt: kill -9, and its disk is deleted",
        "A copy of the disk is elsewhere: after a second of silence fra1 runs there, and knows all that it knew.",
        (steps.Destroy(at=0.0, broker="fra1"),),
    ),
    DemoAct(
        "move",
        "Move three clients over an ocean, a publisher among them",
        "By a transaction along the path between their brokers; whoever publishes meanwhile does not notice.",
        (
            steps.MoveClient(at=0.0, client="archive-nrt", to="nrt3"),
            steps.MoveClient(at=0.0, client="alarm-nrt", to="nrt1"),
            steps.MoveClient(at=0.0, client="ticker-fra", to="nrt2"),
        ),
    ),
    DemoAct(
        "exchange",
        "Exchange a distant link for one more distant: fra1-iad1 goes, fra2-nrt2 comes",
        "Advanced coordinated reconfiguration: all brokers along the cycle change over at once. Not a good idea.",
        (
            steps.Exchange(at=0.0, remove=("fra1", "iad1"), add=("fra2", "nrt2"), protocol="advanced-coordinated"),
        ),
    ),
    DemoAct(
        "improve",
        "The tree improves itself",
        "Brokers measure how far they are from each other, and which of them share events; links follow the traffic.",
        looks=2,
    ),
)  # fmt: skip


def demo_scenario(acts: Sequence[DemoAct] = ACTS) -> Scenario:
    """The scenario of the demo. Its steps are those of the acts, in order; `run.py` decides when they happen."""
    text = files("pleach.scenario").joinpath("demo.toml").read_text()
    ground = parse_scenario(text, file="demo.toml")
    taken = tuple(
        msgspec.structs.replace(step, at=float(number) + step.at / DEMO_SECONDS_MAX)
        for number, act in enumerate(acts)
        for step in act.steps
    )
    return msgspec.structs.replace(
        ground,
        clients=tuple(map(_endless, ground.clients)),
        steps=taken,
        duration=DEMO_SECONDS_MAX,
        latency=PerLink(ground.latency.default, tuple(_far_links(_brokers(ground, taken)))),
    )


def zones(scenario: Scenario) -> dict[Node, str]:
    """The zone of each broker, including those that join later."""
    return {broker: ZONES[zone_of(broker)] for broker in _brokers(scenario, scenario.steps)}


def zone_of(broker: Node) -> str:
    return broker[:ZONE_LETTERS]


def _brokers(scenario: Scenario, taken: Sequence[steps.Step]) -> list[Node]:
    return [*scenario.brokers, *(step.broker for step in taken if isinstance(step, steps.AddBroker))]


def _endless(client: ScenarioClient) -> ScenarioClient:
    loads = tuple(msgspec.structs.replace(load, until=None) for load in client.publish)
    return msgspec.structs.replace(client, publish=loads)


def _far_links(brokers: Sequence[Node]) -> list[tuple[Node, Node, Span]]:
    """Latencies between all brokers of different zones, for any link that may come."""
    pairs = [(a, b, tuple(sorted((zone_of(a), zone_of(b))))) for a, b in combinations(brokers, 2)]
    return [(a, b, FAR[zone, other]) for a, b, (zone, other) in pairs if zone != other]
