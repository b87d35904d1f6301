"""Random networks whose state is damaged, for every policy and mode, and everything that must hold of them.

The faults are the worst that S1 §3.2.2 thinks of: any number of brokers at once, any part of their state, and the
messages under way on any link. The periods are as tight as the bounds allow.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import msgspec

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.effects import SetTimer
from pleach.core.messages import Layer, Node
from pleach.core.routing.clients import owner
from pleach.core.routing.entries import Entry
from pleach.core.routing.renewal_relay import Relaying
from pleach.core.stabilise.lease_settings import Renewal
from pleach.core.stabilise.rebuild import SWITCH
from pleach.core.stabilise.twin import TwinRouter
from pleach.scenario.advertisements import initial_advertisements
from pleach.scenario.model import Ordering, PerLink, Routing, Scenario, Stabilise, Stabiliser
from pleach.scenario.model import ScenarioClient as ClientModel
from pleach.scenario.stabilise_settings import check_stabilising, delays_of, period_min_of, stabilisation_of
from pleach.scenario.steps import AdvertiseStep, Corrupt, Crash, Garble, Restart, Step, UnadvertiseStep
from pleach.scenario.values import Span
from pleach.sim.run import ScenarioRun
from pleach.trace import Record, RecordKind, judge
from support.contract.judgement import FLAWS_SHOWN_MAX, expected_export
from support.contract.networks import changes_of_mind, random_scenario
from support.long_runs.output import explained, replay_command
from support.stabilise.rebuild_invariants import SAMPLES, flaws_of_twins, lets_through
from support.thorough import FACTOR

FAULT_AT = 2.5
BROKERS_MAX = 8
TIGHT = 1.02  # the period, as a multiple of what it must exceed
SEEDS_APART = 10_000  # settings meet different networks
PERIODS_AFTER = 3  # that a run goes on after it must be correct again
KINDS = frozenset(RecordKind) - {RecordKind.SEND}
PARTS = ("table", "flags", "clients", "waits", "all-but-the-clock")
PARTS_WITH_CLOCKS = ("table", "flags", "clock", "clients", "waits", "all", "all")


@dataclass(frozen=True)
class Setting:
    """One way to route and to renew, or to rebuild."""

    routing: Routing
    hierarchical: bool
    renewal: Renewal = Renewal.HOP_BY_HOP
    variant: int = 1
    kind: Stabiliser = Stabiliser.LEASES
    advertisements: bool = False
    cyclic: bool = False

    @property
    def name(self) -> str:
        by = "" if self.renewal is Renewal.HOP_BY_HOP else f"-relayed{self.variant}"
        by += "-advertised" if self.advertisements else ""
        shape = "cyclic" if self.cyclic else "hierarchical" if self.hierarchical else "peer-to-peer"
        return f"{f'{self.kind}-' if self.rebuilds else ''}{self.routing}{by}/{shape}"

    @property
    def rebuilds(self) -> bool:
        return self.kind.rebuilds


_ADVANCED = (Routing.IDENTITY, Routing.COVERING, Routing.MERGING)
_RELAYED = [(Routing.SIMPLE, 1), *((r, 1) for r in _ADVANCED), (Routing.COVERING, 2), (Routing.MERGING, 2)]
SETTINGS = tuple(
    setting
    for hierarchical in (False, True)
    for setting in (
        *(Setting(routing, hierarchical) for routing in Routing),
        *(Setting(routing, hierarchical, Renewal.RELAYED, variant) for routing, variant in _RELAYED),
        *(Setting(routing, hierarchical, advertisements=True) for routing in Routing),
    )
)
REBUILT = tuple(
    Setting(routing, shape == "hierarchical", kind=Stabiliser.REBUILD, advertisements=ads, cyclic=shape == "cyclic")
    for shape in ("peer-to-peer", "hierarchical", "cyclic")
    for ads in (False, True)
    for routing in Routing
)
PACED = tuple(replace(setting, kind=Stabiliser.REBUILD_PACED) for setting in REBUILT if not setting.cyclic)
BY_NAME = {setting.name: setting for setting in (*SETTINGS, *REBUILT, *PACED)}


def cases(settings: Sequence[Setting], count: int) -> list[tuple[Setting, int]]:
    """Settings with seeds, for `parametrize`."""
    return [(setting, SEEDS_APART * (1 + i) + n) for i, setting in enumerate(settings) for n in range(count * FACTOR)]


def named(value: object) -> str:
    """What a test calls its parameters."""
    return value.name if isinstance(value, Setting) else str(value)


@dataclass
class Judgement:
    """What one run came to. `flaws` says in words what does not hold; empty means that all does."""

    seed: int
    setting: Setting
    is_damaged: bool
    flaws: list[str] = field(default_factory=list)
    faults: int = 0
    published: int = 0
    deliveries: int = 0
    set_aside: int = 0  # violations during the time that the network has to find back
    wrong_at_first: int = 0  # flaws of the tables right after the fault
    lapses: int = 0  # ticks at which something ran out, in all


# Scenarios --------------------------------------------------------------------------------------------------


def struck_scenario(seed: int, setting: Setting, *, is_damaged: bool = True) -> Scenario:
    plain = _network(seed)
    stream = Random(f"struck/{seed}")
    refresh = round(stream.uniform(0.3, 1.0), 3)
    endless = msgspec.structs.replace(
        plain,
        routing=setting.routing,
        hierarchical=setting.hierarchical,
        advertisements=setting.advertisements,
        stabilise=Stabilise(
            kind=setting.kind,
            refresh=refresh,
            period=1e9,
            renewal=setting.renewal,
            variant=setting.variant,
            cyclic=setting.cyclic,
        ),
    )
    endless = _all_alike(endless, seed) if setting.rebuilds else endless
    endless = _with_cycles(endless, seed) if setting.cyclic else endless
    assert endless.stabilise
    tight = msgspec.structs.replace(endless.stabilise, period=period_min_of(endless) * TIGHT)
    scenario = msgspec.structs.replace(endless, stabilise=tight)
    check_stabilising(scenario)
    return _with_timeline(scenario, stream, is_damaged=is_damaged)


def _all_alike(scenario: Scenario, seed: int) -> Scenario:
    """Every other network has links that are all as slow as the slowest may be: there the bounds are tight."""
    stream = Random(f"alike/{seed}")
    high = stream.uniform(0.02, 0.15)
    alike = PerLink(Span(high * stream.choice((0.05, 0.5, 1.0)), high))
    return msgspec.structs.replace(scenario, latency=alike) if stream.random() < 0.5 else scenario


def _with_cycles(scenario: Scenario, seed: int) -> Scenario:
    stream = Random(f"cycles/{seed}")
    known = {frozenset(link) for link in scenario.links}
    pairs = [p for p in itertools.combinations(scenario.brokers, 2) if frozenset(p) not in known]
    more = stream.sample(pairs, min(len(pairs), stream.randint(1, 4)))
    return msgspec.structs.replace(scenario, links=(*scenario.links, *more), ordering=Ordering.FIFO)


def _network(seed: int) -> Scenario:
    """A tree, its latencies and clients, without a timeline."""
    for attempt in range(1000):
        found = random_scenario(1000 * seed + attempt)
        if len(found.brokers) <= BROKERS_MAX:
            return msgspec.structs.replace(found, name=f"struck {seed}", steps=())
    raise AssertionError("no small network found")


def _with_timeline(scenario: Scenario, stream: Random, *, is_damaged: bool) -> Scenario:
    assert scenario.stabilise
    correct_at = FAULT_AT + stabilisation_of(scenario)
    end = correct_at + PERIODS_AFTER * scenario.stabilise.period
    steps: list[Step] = []
    for index, client in enumerate(scenario.clients):
        moments = [
            *_moments(stream, 0.2, FAULT_AT),
            *_moments(stream, FAULT_AT, FAULT_AT + 0.3),
            *_moments(stream, correct_at, end),
        ]
        steps += changes_of_mind(stream, client, index, moments)
        steps += _advertising(stream, scenario, client, correct_at, end)
    if is_damaged:
        steps += _faults(stream, scenario)
    clients = tuple(
        msgspec.structs.replace(
            client,
            publish=tuple(
                msgspec.structs.replace(load, until=end - 0.1, every=Span(0.2, 0.2 + end / 20))
                for load in client.publish
            ),
        )
        for client in scenario.clients
    )
    ordered = tuple(sorted(steps, key=lambda step: step.at))
    return msgspec.structs.replace(scenario, clients=clients, steps=ordered, duration=end)


def _advertising(stream: Random, scenario: Scenario, client: ClientModel, low: float, high: float) -> list[Step]:
    """An advertisement is taken back and made again, before the fault and after it has been mended."""
    texts = initial_advertisements(scenario, client)
    if not texts or stream.random() < 0.5:
        return []
    moments = [*sorted(stream.uniform(0.2, FAULT_AT) for _ in range(2))]
    moments += sorted(stream.uniform(low, high) for _ in range(2))
    kinds = (UnadvertiseStep, AdvertiseStep, UnadvertiseStep, AdvertiseStep)
    return [kind(at=at, client=client.id, filter=texts[0]) for kind, at in zip(kinds, moments, strict=True)]


def _moments(stream: Random, low: float, high: float) -> list[float]:
    return sorted(stream.uniform(low, high) for _ in range(stream.randint(0, 2)))


def _faults(stream: Random, scenario: Scenario) -> list[Step]:
    assert scenario.stabilise
    is_leased = scenario.stabilise.kind is Stabiliser.LEASES
    one_clock = is_leased and scenario.stabilise.lease.needs_one_clock(scenario.routing.value)
    parts = PARTS if one_clock else PARTS_WITH_CLOCKS
    share = stream.choice((0.2, 0.5, 1.0))
    brokers = [b for b in scenario.brokers if stream.random() < stream.choice((0.3, 1.0))] or [scenario.brokers[0]]
    corrupted = [Corrupt(at=FAULT_AT, broker=b, what=stream.choice(parts), share=share) for b in brokers]
    links = [*scenario.links, *((client.id, client.broker) for client in scenario.clients)]
    garbled = [Garble(at=FAULT_AT, link=link, share=share) for link in links if stream.random() < 0.5]
    restarted = [] if one_clock else [_from_backup(stream, b) for b in scenario.brokers if stream.random() < 0.15]
    return [*corrupted, *garbled, *itertools.chain.from_iterable(restarted)]


def _from_backup(stream: Random, broker: Node) -> list[Step]:
    restart = Restart(at=FAULT_AT, broker=broker, state_from=stream.uniform(0.0, FAULT_AT - 0.1))
    return [Crash(at=FAULT_AT, broker=broker), restart]


# Judgement --------------------------------------------------------------------------------------------------


def judge_damaged(seed: int, setting: Setting, *, is_damaged: bool = True, extremes: bool = True) -> Judgement:
    """`extremes`: every message takes as little or as much time as it may, nothing in between."""
    scenario = struck_scenario(seed, setting, is_damaged=is_damaged)
    judgement = Judgement(seed, setting, is_damaged)
    run = ScenarioRun(scenario, seed, KINDS)
    if extremes:
        push_to_extremes(run, seed)
    if setting.rebuilds:
        switch_near_the_fault(run, seed)
    correct_at = FAULT_AT + stabilisation_of(scenario)
    run.advance(FAULT_AT)
    judgement.wrong_at_first = len(flaws_of_tables(run.brokers, run.clients))
    run.advance(correct_at)
    judgement.flaws += flaws_of_tables(run.brokers, run.clients)[:FLAWS_SHOWN_MAX]
    result = run.finish()
    judgement.flaws += flaws_of_tables(run.brokers, run.clients)[:FLAWS_SHOWN_MAX]
    judgement.flaws += [f"{name} waits for the confirmation of {sorted(asked)}" for name, asked in _unconfirmed(run)]
    judgement.flaws += _refused(result.records, scenario, correct_at)[:FLAWS_SHOWN_MAX]
    judgement.flaws += [f"refused: {refusal}" for refusal in result.refusals]
    lapses = [r for r in result.records if r.kind == RecordKind.STATE and "ran out" in r.detail]
    judged_from = correct_at if is_damaged else 0.0
    judgement.flaws += [f"{r.node} at {r.at:.3f}: {r.detail}" for r in lapses if r.at > judged_from][:FLAWS_SHOWN_MAX]
    verdict = judge(result.records)
    judgement.flaws += [str(violation) for violation in verdict.violations[:FLAWS_SHOWN_MAX]]
    judgement.flaws += [f"unusable: {verdict.unusable}"] if verdict.unusable else []
    judgement.faults = sum(record.kind == RecordKind.FAULT for record in result.records)
    judgement.published, judgement.deliveries = verdict.counts.published, verdict.counts.deliveries
    judgement.set_aside = verdict.counts.set_aside
    judgement.lapses = len(lapses)
    return judgement


def switch_near_the_fault(run: ScenarioRun, seed: int) -> None:
    """In two runs of three a round begins when the fault is felt: shortly before it, or as messages of it arrive."""
    stream = Random(f"switch/{seed}")
    assert run.scenario.stabilise
    delays, period = delays_of(run.scenario), run.scenario.stabilise.period
    early, late = -delays.hops * delays.high, 3 * delays.high
    if stream.random() < 2 / 3:
        at = (FAULT_AT + stream.uniform(early, late)) % period
        run.sim.perform(run.scenario.root, [SetTimer(SWITCH, at, is_upkeep=True)])


def push_to_extremes(run: ScenarioRun, seed: int) -> None:
    stream = Random(f"extremes/{seed}")
    for ends in (*run.scenario.links, *((client.id, client.broker) for client in run.scenario.clients)):
        for link in run.sim.links_between(*ends):
            link._draw = lambda: float(stream.random() < 0.5)


def _unconfirmed(run: ScenarioRun) -> list[tuple[Node, Sequence[str]]]:
    waiting = ((name, [*client._state.asked, *client._state.unconfirmed]) for name, client in run.clients.items())
    return [(name, asked) for name, asked in waiting if asked]


def _refused(records: Sequence[Record], scenario: Scenario, since: float) -> list[str]:
    """Events that were refused although their client had always advertised them, from `since` on."""
    fickle = {step.client for step in scenario.steps if isinstance(step, UnadvertiseStep)}
    fickle |= {client.id for client in scenario.clients if client.advertise}  # perhaps something else
    refused = (r for r in records if r.kind == RecordKind.PUBLISH_FAIL and r.at > since)
    return [f"{r.node} at {r.at:.3f}: {r.detail}" for r in refused if r.node not in fickle]


def flaws_of_tables(brokers: dict[Node, Broker], clients: dict[Node, ClientMachine]) -> list[str]:
    """Where the tables are not what the clients' subscriptions make of them, and nothing else.

    By induction from the clients: each broker has of its clients what they want, and of its neighbours what follows.
    """
    if any(isinstance(broker.router, TwinRouter) for broker in brokers.values()):
        return flaws_of_twins(brokers, clients)
    flaws = [flaw for layer in Layer for flaw in _flaws_of_layer(layer, brokers, clients)]
    for name, client in sorted(clients.items()):
        sessions, wanted = brokers[client.broker].sessions, client._state.subscriptions
        if name not in sessions or sessions.subscriptions(name) != wanted:
            flaws.append(f"{client.broker} knows other names of {name} than it has")
    return flaws


def _flaws_of_layer(layer: Layer, brokers: dict[Node, Broker], clients: dict[Node, ClientMachine]) -> list[str]:
    flaws = []
    for name, client in sorted(clients.items()):
        state = client._state
        wanted = state.subscriptions if layer is Layer.SUBSCRIPTIONS else state.advertisements
        entries = frozenset(Entry(owner(name, each), text) for each, text in wanted.items())
        if frozenset(brokers[client.broker].router.received_from(layer, name)) != entries:
            flaws.append(f"{client.broker} has other {layer.name} for {name} than it has")
    for name, broker in sorted(brokers.items()):
        for neighbour in broker.router.neighbours:
            flaws += _flaws_of_link(layer, broker, brokers[neighbour])
        known = {*broker.router.neighbours, *broker.sessions.clients}
        sources = {source for source, _ in broker.router._layers[layer].entries()}
        flaws += [f"{name} has {layer.name} of {source}" for source in sorted(sources - known)]
    return flaws


def _flaws_of_link(layer: Layer, teller: Broker, hearer: Broker) -> list[str]:
    x, y = teller.name, hearer.name
    config = teller.router.config
    is_told = config.policy != "flooding" and (layer is Layer.SUBSCRIPTIONS or config.advertisements)
    expected = expected_export(teller, y, layer) if is_told else frozenset()
    received = frozenset(hearer.router.received_from(layer, x))
    if received != expected and config.relaying is Relaying.FRESH and _mean_the_same(received, expected):
        received = expected
    flaws = []
    if teller.router.told(layer, y) != expected:
        flaws.append(f"{x} told {y} other {layer.name} than follows from what it knows")
    if received != expected:
        missing, more = len(expected - received), len(received - expected)
        flaws.append(f"{y} has {layer.name} of {x}: missing {missing}, superfluous {more}")
    return flaws


def _mean_the_same(received: frozenset[Entry], expected: frozenset[Entry]) -> bool:
    """The first variant tells what is renewed before its cover, or in part before it is merged, and takes it back.

    So its tables are never at rest, with or without faults; but the events that they let through are always the same.
    """
    return all(lets_through(received, event) == lets_through(expected, event) for event in SAMPLES)


def replay(judgement: Judgement) -> str:
    options = ["--only", judgement.setting.name, *([] if judgement.is_damaged else ["--faultless"])]
    return explained(replay_command("stabilise", judgement.seed, *options), judgement.flaws)
