"""Settings of a soak, and the network that it runs on: brokers with everything on, and clients that publish and answer.

The same seed gives the same network, the same clients and, as far as the network goes the same way, the same actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from random import Random
from types import MappingProxyType

import msgspec

from pleach.core.messages import Node
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.scenario.model import (
    PerLink,
    PublishLoad,
    Reply,
    Routing,
    Scenario,
    ScenarioClient,
    Stabilise,
    Stabiliser,
    StandbyTable,
)
from pleach.scenario.values import Sequence, Span, Uniform

# How often the monkey chooses which kind of action.
WEIGHTS: Mapping[str, float] = MappingProxyType(
    {
        "swap": 3.0,
        "exchange": 2.0,
        "join": 2.0,
        "leave": 2.0,
        "move_client": 6.0,
        "storm": 2.0,
        "traffic": 1.0,
        "move_broker": 1.5,
        "kill": 3.0,
        "power_cut": 1.5,
        "upgrade": 1.5,
        "destroy": 1.0,
        "stop": 1.5,
        "full_disk": 1.0,
        "slow_disk": 1.0,
        "damage": 0.0,
        "cut": 2.0,
        "flap": 1.0,
        "partition": 1.5,
        "loss": 1.5,
        "slow": 1.5,
    }
)
ZONES = ("east", "north", "west")
COMPONENT = "k-"  # names of components begin so
TREE_DEGREE_MAX = 3
WANTED = (2, 3, 5)  # a subscriber wants the topics of brokers so many places further on
ANSWERS_WANTED = (1, 3)
PRICE_MAX, ANSWERED_ABOVE = 99, 91  # 8 of 100 events are answered by each of their subscribers
ANSWERED_SHARE = (PRICE_MAX - ANSWERED_ABOVE) / (PRICE_MAX + 1)
AFTER_SECONDS = 1.0  # of silence
HEARTBEAT_SECONDS = 0.5
RELAY_TUNNELS = 20  # of others, at each broker
LATENCY = Span(0.0002, 0.002)


class SoakSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`per_second`: events of all clients together, with answers. `every`: seconds between two actions, on average.

    `patience`: how much longer than usual brokers wait before they take others for dead, on a machine that is busy.
    """

    seed: int = 1
    seconds: float = 1_800.0
    brokers: int = 9
    per_second: float = 500.0
    movers: int = 6
    components: int = 2  # each sums up what one publisher publishes
    patience: float = 1.0
    every: float = 4.0
    calm: int = 12  # actions at the beginning that come one at a time
    overlap: int = 3  # actions that may be under way at once, later
    settle_every: int = 8  # actions, then the network must become whole
    window: float = 180.0  # seconds that the judge remembers
    grace: float = 600.0  # seconds after which an event is lost that somebody waits for
    weights: dict[str, float] = msgspec.field(default_factory=lambda: dict(WEIGHTS))

    @property
    def run(self) -> str:
        return f"soak-{self.seed}"


def environment_of(settings: SoakSettings) -> dict[str, str]:
    """What brokers are told besides: anybody may join, links have relays, operators may fill disks."""
    heartbeat = f"{HEARTBEAT_SECONDS * settings.patience:g}"
    return {
        "PLEACH_WELCOME": "*",
        "PLEACH_RELAY_TUNNELS": str(RELAY_TUNNELS),
        "PLEACH_DEBUG_FAULTS": "true",
        "PLEACH_HEARTBEAT": heartbeat,
    }


def scenario_of(settings: SoakSettings) -> Scenario:
    """The network and its clients; the monkey adds what happens to them."""
    names = broker_names(settings)
    return Scenario(
        name=settings.run,
        routing=Routing.COVERING,
        root=names[0],
        links=tuple(_tree(names, Random(f"{settings.seed}/tree"))),
        brokers=names,
        duration=settings.seconds,
        latency=PerLink(LATENCY),
        stabilise=Stabilise(kind=Stabiliser.LEASES, refresh=2.0 * settings.patience, period=8.0 * settings.patience),
        standby=StandbyTable(copies=2, after=AFTER_SECONDS * settings.patience),
        improve=CouncilSettings(every=2.0, window=20.0),
        clients=(*_publishers(settings, names), *_subscribers(names), *_movers(settings, names)),
    )


def broker_names(settings: SoakSettings) -> tuple[Node, ...]:
    return tuple(f"b{number}" for number in range(1, settings.brokers + 1))


def zones_of(settings: SoakSettings) -> dict[Node, str]:
    return {name: ZONES[number % len(ZONES)] for number, name in enumerate(broker_names(settings))}


def _tree(names: tuple[Node, ...], rng: Random) -> list[tuple[Node, Node]]:
    degrees = dict.fromkeys(names, 0)
    links = []
    for earlier, name in pairwise(names):
        free = [each for each in names[: names.index(name)] if degrees[each] < TREE_DEGREE_MAX] or [earlier]
        to = rng.choice(free)
        links.append((to, name))
        degrees[to] += 1
        degrees[name] += 1
    return links


def _publishers(settings: SoakSettings, names: tuple[Node, ...]) -> list[ScenarioClient]:
    apart = len(names) * (1 + len(_further(WANTED, names)) * ANSWERED_SHARE) / settings.per_second
    every = Span(0.5 * apart, 1.5 * apart)
    return [
        ScenarioClient(
            id=f"p-{name}",
            broker=name,
            publish=(
                PublishLoad(every=every, attributes={"topic": name, "price": Uniform(0, PRICE_MAX), "n": Sequence()}),
            ),
        )
        for name in names
    ]


def _subscribers(names: tuple[Node, ...]) -> list[ScenarioClient]:
    """Disjoint by topic, so that a lost routing entry shows; they see events, and what others answer to these."""
    found = []
    for here, name in enumerate(names):
        topics = ", ".join(f"'{names[(here + step) % len(names)]}'" for step in _further(WANTED, names))
        answers = ", ".join(f"'{names[(here + step) % len(names)]}'" for step in _further(ANSWERS_WANTED, names))
        reply = Reply(to=f"price > {ANSWERED_ABOVE}", attributes={"answer": name, "n": Sequence()})
        wanted = (f"topic IN ({topics})", f"answer IN ({answers})")
        found.append(ScenarioClient(id=f"s-{name}", broker=name, subscribe=wanted, reply=(reply,)))
    return found


def _further(steps: tuple[int, ...], names: tuple[Node, ...]) -> list[int]:
    return sorted({step % len(names) for step in steps} - {0})


def _movers(settings: SoakSettings, names: tuple[Node, ...]) -> list[ScenarioClient]:
    places = [number % len(names) for number in range(settings.movers)]
    return [
        ScenarioClient(id=f"m{number}", broker=names[here], subscribe=(f"topic = '{names[-1 - here]}'",))
        for number, here in enumerate(places)
    ]
