"""Rounds of damage to a broker's table under load, on real processes: correct again within the stated bound.

    python tests/live/corruption_rounds.py --rounds 10
    python tests/live/corruption_rounds.py --rounds 10 --kind rebuild

Nine brokers in a tree, thirty clients, of which twenty want a topic each that nobody else wants. In every round a share
of the table of a random broker is damaged; what goes astray within the bound is counted, and after it nothing may.
Prints a line per round: the broker, what went astray, when the last of it did, and by how much the brokers' counters
rose. The exit code is 1 if the verdict is not clean.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kill_rounds import BROKERS, LINKS
from msgspec.structs import replace

from pleach.live.network import LiveNetwork
from pleach.live.run import LiveResult, run_live
from pleach.scenario.model import Client, PerLink, Publish, Routing, Scenario, Stabilise, Stabiliser
from pleach.scenario.stabilising import flight_of, stabilisation_of
from pleach.scenario.steps import Corrupt
from pleach.scenario.values import Choice, Span
from pleach.trace import RecordKind, Verdict, explain, judge

PUBLISHERS, SUBSCRIBERS = 10, 20
EVENTS_PER_SECOND = 10  # of one publisher
WARM_UP = 3.0
JUDGED_SECONDS = 2.0  # of each round, between the bound and what may be under way when the next one begins
SHARE = 0.3
WATCH_SECONDS = 0.2
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
        duration=1.0,
        latency=PerLink(Span(0.0, 0.005)),
        stabilise=MENDED[damage.kind],
        clients=(*_publishers(rng), *_subscribers(rng)),
    )
    spacing = stabilisation_of(still) + JUDGED_SECONDS + flight_of(still)
    steps = tuple(
        Corrupt(at=WARM_UP + number * spacing, broker=rng.choice(BROKERS), what=damage.what, share=damage.share)
        for number in range(rounds)
    )
    return replace(still, duration=WARM_UP + rounds * spacing, steps=steps)


def _publishers(rng: Random) -> list[Client]:
    every = Span(0.5 / EVENTS_PER_SECOND, 1.5 / EVENTS_PER_SECOND)
    topics = Choice(tuple(f"t{i}" for i in range(SUBSCRIBERS)))
    load = (Publish(every=every, start=1.0, attributes={"topic": topics}),)
    return [Client(id=f"p{i}", broker=rng.choice(BROKERS), publish=load) for i in range(PUBLISHERS)]


def _subscribers(rng: Random) -> list[Client]:
    """Disjoint filters, so that a lost routing entry shows."""
    return [Client(id=f"s{i}", broker=rng.choice(BROKERS), subscribe=(f"topic = 't{i}'",)) for i in range(SUBSCRIBERS)]


@dataclass
class Watch:
    """The counters of all brokers together, every now and then: by seconds since the run began."""

    seen: list[tuple[float, dict[str, int]]] = field(default_factory=list)

    async def __call__(self, network: LiveNetwork) -> None:
        clock = asyncio.get_running_loop().time
        started = clock()
        while True:
            found = [await metrics_of(network, broker) for broker in network.running]
            self.seen.append((clock() - started, {key: sum(each[key] for each in found) for key in WATCHED}))
            await asyncio.sleep(WATCH_SECONDS)

    def rise(self, key: str, since: float, until: float) -> int:
        before = [counts[key] for at, counts in self.seen if at <= since]
        after = [counts[key] for at, counts in self.seen if at <= until]
        return (after or [0])[-1] - (before or [0])[-1]


async def metrics_of(network: LiveNetwork, broker: str) -> dict[str, int]:
    """The counters of one broker, as Prometheus gets them."""
    host, _, port = network.directory.admin[broker].rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
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
    until: float
    astray: int  # events lost, doubled or misdirected
    last_after: float  # seconds after the damage at which the last of them was published or delivered


@dataclass(frozen=True)
class Rounds:
    result: LiveResult
    verdict: Verdict
    watch: Watch
    bound: float
    rounds: list[Round]


def run_rounds(rounds: int, seed: int, directory: Path, damage: Damage = TABLE_OF_LEASES) -> Rounds:
    watch = Watch()
    scenario = corruption_scenario(rounds, seed, damage)
    result = asyncio.run(run_live(scenario, directory, seed=seed, watch=watch))
    return Rounds(result, judge(result.records), watch, stabilisation_of(result.scenario), _rounds(result))


def _rounds(result: LiveResult) -> list[Round]:
    """What went astray in each: as the oracle sees it that knows of no fault."""
    faults = [record for record in result.records if record.kind == RecordKind.FAULT]
    strict = judge([record for record in result.records if record.kind != RecordKind.FAULT])
    rounds = []
    for number, fault in enumerate(faults):
        is_last = number + 1 == len(faults)
        until = result.ended_at if is_last else faults[number + 1].at - flight_of(result.scenario)
        found = [violation.at - fault.at for violation in strict.violations if fault.at <= violation.at < until]
        rounds.append(Round(fault.node, fault.at, until, len(found), max(found, default=0.0)))
    return rounds


def line(found: Round, watch: Watch, bound: float) -> str:
    expired, restored = (watch.rise(key, found.at, found.until) for key in ("lease_expired", "lease_restored"))
    astray = f"{found.astray:>4} astray, the last after {found.last_after:.2f} s of {bound:.2f} s"
    return f"{found.at:>7.1f} s  broker {found.broker}: {astray}; {expired} ran out, {restored} brought back"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--what", default="table", help="table, flags, clock, clients, waits, all, all-but-the-clock")
    parser.add_argument("--share", type=float, default=SHARE)
    parser.add_argument("--kind", choices=sorted(MENDED), default=Stabiliser.LEASES.value)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        damage = Damage(options.what, options.share, Stabiliser(options.kind))
        found = run_rounds(options.rounds, options.seed, Path(directory), damage)
    for each in found.rounds:
        _say(line(each, found.watch, found.bound))
    counts, verdict = found.verdict.counts, found.verdict
    before = found.watch.rise("lease_expired", 0.0, found.rounds[0].at)
    _say(
        f"{found.result.scenario.routing.value}: {len(found.rounds)} rounds, {counts.published:,} published,"
        f" {counts.deliveries:,} delivered, {counts.set_aside} set aside, {before} ran out before the first;"
        f" {verdict.outcome.value}"
    )
    if not verdict.clean:
        _say("\n".join([*found.result.unrest, explain(verdict, found.result.records)]))
    return 0 if verdict.clean else 1


if __name__ == "__main__":
    sys.exit(main())
