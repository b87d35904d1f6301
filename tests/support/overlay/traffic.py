"""What reconfigurations cost on the wire (S0 §VI), and S0's default scenario to measure it in."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import get_args

from pleach.core.messages import Mark, Marked, MembershipMessage, Message, Node, Redirect, SwapLinkMessage
from pleach.scenario.model import Ordering, PerLink, PublishLoad, Routing, Scenario, ScenarioClient
from pleach.scenario.values import Span, Uniform
from pleach.sim.run import ScenarioRun, SimResult
from pleach.trace import RecordKind
from support.overlay.changing_trees import Sketch

CONTROL = frozenset(kind.__name__ for kind in (*get_args(SwapLinkMessage), *get_args(MembershipMessage), Redirect))


@dataclass
class Traffic:
    """What was sent, by type of message. `copies`: flooded events that came by way of a third broker."""

    messages: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    flooded: int = 0
    copies: int = 0

    @property
    def control(self) -> Counter[str]:
        return Counter({kind: count for kind, count in self.messages.items() if kind in CONTROL})

    @property
    def control_bytes(self) -> int:
        return sum(size for kind, size in self.bytes.items() if kind in CONTROL)


def traffic(scenario: Scenario, seed: int, *, since: float = 0.0) -> tuple[Traffic, SimResult]:
    """Run the scenario; count what was sent from `since` on."""
    run = ScenarioRun(scenario, seed)
    found = Traffic()
    recorded = run.sim.on_send
    assert recorded is not None

    def on_send(at: float, sender: Node, to: Node, message: Message) -> None:
        recorded(at, sender, to, message)
        if isinstance(message, Marked) and message.mark is Mark.FLOOD:
            found.flooded += sender == message.origin
            found.copies += sender != message.origin

    run.sim.on_send = on_send
    result = run.finish()
    for record in result.records:
        if record.kind == RecordKind.SEND and record.at >= since:
            found.messages[record.message] += 1
            found.bytes[record.message] += record.bytes
    return found, result


# S0's default scenario --------------------------------------------------------------------------------------

ATTRIBUTES = 5
VALUES = 1000  # of an attribute: 0 … 999
MATCHING_PER_ATTRIBUTE = 251  # of them: five such constraints together let 0.1% of events through
PAYLOAD_BYTES = 640  # with it an event has 0.76 KB
WARM_UP = 3.0  # seconds: until all subscriptions are known
BETWEEN_SWAPS = 0.25


@dataclass(frozen=True)
class Defaults:
    """S0 §VI: "a medium-scale system". Other values give Fig. 13 (subscriptions), 14 (brokers) and 15 (every)."""

    brokers: int = 100
    clients: int = 100
    subscriptions: int = 10  # of each client
    every: float = 0.75  # seconds between events of a client
    swaps: int = 100
    routing: Routing = Routing.COVERING
    ordering: Ordering = Ordering.CAUSAL
    exchange: str = "swaplink"


def default_scenario(seed: int, defaults: Defaults = Defaults()) -> Scenario:  # noqa: B008 - frozen
    """100 brokers, half of them pure forwarders, and random swaps one after the other."""
    stream = Random(f"default/{seed}")
    brokers = [f"b{i}" for i in range(defaults.brokers)]
    links = [(stream.choice(brokers[:i]), brokers[i]) for i in range(1, len(brokers))]
    serving = stream.sample(brokers, len(brokers) // 2)
    sketch = Sketch(list(brokers), list(links))
    swaps = [sketch.swap(stream, WARM_UP + BETWEEN_SWAPS * i) for i in range(defaults.swaps)]
    duration = WARM_UP + BETWEEN_SWAPS * (defaults.swaps + 1)
    return Scenario(
        name=f"default {seed}",
        routing=defaults.routing,
        ordering=defaults.ordering,
        exchange=defaults.exchange,
        root=brokers[0],
        links=tuple(links),
        brokers=tuple(brokers),
        duration=duration,
        latency=PerLink(Span(0.001, 0.005)),
        clients=tuple(_client(stream, i, stream.choice(serving), defaults) for i in range(defaults.clients)),
        steps=tuple(swap for swap in swaps if swap is not None),
    )


def _client(stream: Random, index: int, broker: str, defaults: Defaults) -> ScenarioClient:
    load = PublishLoad(
        every=Span(0.5 * defaults.every, 1.5 * defaults.every),
        start=stream.uniform(WARM_UP - 1.0, WARM_UP),
        attributes={f"attribute{i}": Uniform(0, VALUES - 1) for i in range(ATTRIBUTES)},
        payload_bytes=PAYLOAD_BYTES,
    )
    wanted = dict.fromkeys(_filter(stream) for _ in range(defaults.subscriptions))
    return ScenarioClient(id=f"c{index}", broker=broker, publish=(load,), subscribe=tuple(wanted))


def _filter(stream: Random) -> str:
    lows = [stream.randint(0, VALUES - MATCHING_PER_ATTRIBUTE) for _ in range(ATTRIBUTES)]
    return " AND ".join(
        f"attribute{i} BETWEEN {low} AND {low + MATCHING_PER_ATTRIBUTE - 1}" for i, low in enumerate(lows)
    )


def cost_of_swaps(seed: int, defaults: Defaults = Defaults()) -> Traffic:  # noqa: B008 - frozen
    """All control messages of the default scenario, for Fig. 12 to 15: divide by `defaults.swaps`."""
    found, result = traffic(default_scenario(seed, defaults), seed, since=WARM_UP)
    assert result.quiet
    assert not result.refusals, result.refusals
    return found
