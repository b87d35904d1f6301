"""Rounds of damage to a broker's table under load, on real processes: correct again within the stated bound.

Nine brokers in a tree, thirty clients, of which twenty want a topic each that nobody else wants. In every round, once
all that they want is installed everywhere, a share of the table of a random broker is damaged; what goes astray within
the bound is counted, and after it nothing may. The bound follows from how long messages take: from what the network was
told, or from the slowest delivery of the round, where a busy machine took longer than that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from msgspec.structs import replace

from pleach.harness.network import LiveNetwork
from pleach.harness.run import LiveResult, LiveRun, run_live
from pleach.scenario.model import PerLink, PublishLoad, Routing, Scenario, ScenarioClient, Stabilise, Stabiliser
from pleach.scenario.stabilise_settings import flight_of, stabilisation_of
from pleach.scenario.steps import Corrupt, Step
from pleach.scenario.values import Choice, Span
from pleach.trace import RecordKind, Verdict, judge
from support.live.kill_rounds import BROKERS, LINKS
from support.live.recovery_bounds import as_it_was, slowest_delivery, with_delays

PUBLISHERS, SUBSCRIBERS = 10, 20
EVENTS_PER_SECOND = 5  # of one publisher
WARM_UP = 3.0  # with all installed: two periods, and more
JUDGED_SECONDS = 2.0  # of each round, between the bound and what may be under way when the next one begins
ROUND_SECONDS_MAX = 300.0
POLL_SECONDS = 0.05
SHARE = 0.3
WATCHED = (
    "lease_expired",
    "lease_restored",
    "renewals_received",
    "renewals_sent",
    "rebuild_rounds",
    "rebuild_missing",
    "rebuild_musters",
)
# Delays are those of a message on one link, on a machine that has much else to do; a round of rebuilding has to go
# through the whole tree, so that its period grows with them.
MENDED = {
    Stabiliser.LEASES: Stabilise(kind=Stabiliser.LEASES, refresh=0.4, period=1.2, delay=Span(0.0, 0.25)),
    Stabiliser.REBUILD: Stabilise(kind=Stabiliser.REBUILD_PACED, refresh=0.4, period=2.1, delay=Span(0.0, 0.15)),
}


@dataclass(frozen=True)
class Damage:
    what: str = "table"
    share: float = SHARE
    kind: Stabiliser = Stabiliser.LEASES  # of the network that is damaged


TABLE_OF_LEASES = Damage()


def corruption_scenario(rounds: int, seed: int, damage: Damage) -> Scenario:
    rng = Random(seed)
    still = Scenario(
        name=f"{rounds} rounds of damage",
        routing=rng.choice([Routing.COVERING, Routing.SIMPLE, Routing.IDENTITY, Routing.MERGING]),
        root="a",
        links=LINKS,
        brokers=BROKERS,
        duration=(rounds + 1) * ROUND_SECONDS_MAX,  # at most: loads end with the last round
        latency=PerLink(Span(0.0, 0.005)),
        stabilise=MENDED[damage.kind],
        clients=(*_publishers(rng), *_subscribers(rng)),
    )
    steps = tuple(
        Corrupt(at=0.0, broker=rng.choice(BROKERS), what=damage.what, share=damage.share) for _ in range(rounds)
    )
    return replace(still, steps=steps)


def _publishers(rng: Random) -> list[ScenarioClient]:
    every = Span(0.5 / EVENTS_PER_SECOND, 1.5 / EVENTS_PER_SECOND)
    topics = Choice(tuple(f"t{i}" for i in range(SUBSCRIBERS)))
    load = (PublishLoad(every=every, start=1.0, attributes={"topic": topics}),)
    return [ScenarioClient(id=f"p{i}", broker=rng.choice(BROKERS), publish=load) for i in range(PUBLISHERS)]


def _subscribers(rng: Random) -> list[ScenarioClient]:
    """Disjoint filters, so that a lost routing entry shows."""
    return [
        ScenarioClient(id=f"s{i}", broker=rng.choice(BROKERS), subscribe=(f"topic = 't{i}'",))
        for i in range(SUBSCRIBERS)
    ]


@dataclass
class Director:
    """Takes the steps of a scenario one after the other, each when what it needs is there."""

    struck: list[Struck] = field(default_factory=list)

    async def __call__(self, run: LiveRun) -> None:
        async with asyncio.timeout(ROUND_SECONDS_MAX):
            await _until_installed(run)
            await asyncio.sleep(WARM_UP)
        for step in run.scenario.steps:
            async with asyncio.timeout(ROUND_SECONDS_MAX):
                if self.struck:
                    await asyncio.sleep(flight_of(self.struck[-1].scenario))
                self.struck.append(await _strike(run, step))


@dataclass(frozen=True)
class Struck:
    """A fault, and what was seen of it from outside. `before`, `after`: the counters of all brokers together."""

    at: float
    scenario: Scenario  # with delays as they were
    before: dict[str, int]
    after: dict[str, int]


async def _until_installed(run: LiveRun) -> None:
    """A table has to be full before a share of it says anything."""
    wanting = {client.id for client in run.scenario.clients if client.subscribe}
    installed: set[str] = set()
    while wanting - installed:
        installed = {each.who for each in run.recorder.records if each.kind == RecordKind.SUBSCRIBE_ACK}
        await asyncio.sleep(POLL_SECONDS)


async def _strike(run: LiveRun, step: Step) -> Struck:
    before = await counted(run.network)
    known = len(run.recorder.records)
    await run.carry_out(step)
    at = next(each.at for each in run.recorder.records[known:] if each.kind == RecordKind.FAULT)
    while True:
        slowed = with_delays(run.scenario, slowest_delivery(run.recorder.records, at))
        left = at + stabilisation_of(slowed) + JUDGED_SECONDS - run.now
        if left <= 0.0:
            return Struck(at, slowed, before, await counted(run.network))
        await asyncio.sleep(left)


async def counted(network: LiveNetwork) -> dict[str, int]:
    found = [await metrics_of(network, broker) for broker in network.running]
    return {key: sum(each[key] for each in found) for key in WATCHED}


async def metrics_of(network: LiveNetwork, broker: str) -> dict[str, int]:
    """The counters of one broker, as Prometheus gets them."""
    host, _, port = network.directory.admin[broker].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET /metrics HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        text = (await reader.read()).decode()
    finally:
        writer.close()
        await writer.wait_closed()
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("pleach_"))
    return {key: int(samples[f"pleach_{key}_total"]) for key in WATCHED}


@dataclass(frozen=True)
class Round:
    broker: str
    at: float
    bound: float  # seconds after the damage within which all is right again
    astray: int  # events lost, doubled or misdirected
    last_after: float  # seconds after the damage at which the last of them was published or delivered
    judged: int  # deliveries of events that were published after the bound
    before: dict[str, int]
    after: dict[str, int]

    def rise(self, key: str) -> int:
        return self.after[key] - self.before[key]


@dataclass(frozen=True)
class Rounds:
    result: LiveResult
    verdict: Verdict
    rounds: list[Round]


def run_rounds(rounds: int, seed: int, directory: Path, damage: Damage = TABLE_OF_LEASES) -> Rounds:
    director = Director()
    scenario = corruption_scenario(rounds, seed, damage)
    result = asyncio.run(run_live(scenario, directory, seed=seed, direct=director))
    slowed = {each.at: each.scenario for each in director.struck}
    records = [as_it_was(each, result.scenario, slowed.get(each.at, result.scenario)) for each in result.records]
    return Rounds(result, judge(records), _rounds(result, director.struck))


def _rounds(result: LiveResult, struck: Sequence[Struck]) -> list[Round]:
    """What went astray in each: as the oracle sees it that knows of no fault."""
    faults = [record for record in result.records if record.kind == RecordKind.FAULT]
    strict = judge([record for record in result.records if record.kind != RecordKind.FAULT])
    published = {record.event: record.at for record in result.records if record.kind == RecordKind.PUBLISH}
    delivered = [published[record.event] for record in result.records if record.kind == RecordKind.DELIVER]
    rounds = []
    for number, (fault, each) in enumerate(zip(faults, struck, strict=True)):
        is_last, bound = number + 1 == len(faults), stabilisation_of(each.scenario)
        until = result.ended_at if is_last else faults[number + 1].at - flight_of(each.scenario)
        found = [violation.at - fault.at for violation in strict.violations if fault.at <= violation.at < until]
        judged = sum(fault.at + bound < at < until for at in delivered)
        last_after = max(found, default=0.0)
        rounds.append(Round(fault.node, fault.at, bound, len(found), last_after, judged, each.before, each.after))
    return rounds


def line(found: Round) -> str:
    expired, restored = found.rise("lease_expired"), found.rise("lease_restored")
    astray = f"{found.astray:>4} astray, the last after {found.last_after:.2f} s of {found.bound:.2f} s"
    return f"{found.at:>7.1f} s  broker {found.broker}: {astray}; {expired} ran out, {restored} brought back"
