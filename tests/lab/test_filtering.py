"""The simulation at the level of classes against real brokers: the same subscriptions and events, the same messages."""

from __future__ import annotations

import os
from collections import Counter
from functools import partial

import numpy as np
import pytest

from pleach.events.language import parse_filter
from pleach.lab.filtering import (
    HOP,
    Setting,
    Window,
    carried,
    changes,
    draw_publications,
    draw_subscriptions,
    renewals,
    told,
)
from pleach.lab.relayed_renewals import Lease, relayed
from pleach.lab.spans import SECOND
from pleach.messages import Forward, Install, Withdraw
from pleach.scenario.model import Client, Ordering, PerLink, Routing, Scenario, Stabilise, Stabiliser
from pleach.scenario.values import Span
from pleach.sim.run import ScenarioRun
from pleach.stabilise.lease import Renewal, phase_of

SETTING = Setting(fanout=2, levels=4, classes=3)
SEEN = Window(1 * SECOND, 13 * SECOND)
UNTIL = 15 * SECOND
REFRESH, PERIOD = 2 * SECOND, 2_300_000_000  # π > ρ + d·δ
NAME = "classes"


# The same in the simulator of brokers ---------------------------------------------------------------------------


def scenario(setting, subscriptions, renewal):
    links = tuple((f"b{(b - 1) // setting.fanout}", f"b{b}") for b in range(1, setting.brokers))
    subscribers = [Client(id=f"s{i}", broker=f"b{leaf}") for i, leaf in enumerate(subscriptions.leaf)]
    publishers = [Client(id=f"p{leaf}", broker=f"b{leaf}") for leaf in range(setting.first_leaf, setting.brokers)]
    ends = [(client.id, client.broker, Span(0.0, 0.0)) for client in (*subscribers, *publishers)]
    leases = Stabilise(
        kind=Stabiliser.LEASES, refresh=REFRESH / SECOND, period=PERIOD / SECOND, renewal=renewal or Renewal.HOP_BY_HOP
    )
    return Scenario(
        name=NAME,
        routing=Routing.IDENTITY,
        hierarchical=True,
        root="b0",
        ordering=Ordering.NONE,
        links=links,
        brokers=tuple(f"b{b}" for b in range(setting.brokers)),
        duration=UNTIL / SECOND,
        latency=PerLink(Span(HOP / SECOND, HOP / SECOND), tuple(ends)),
        stabilise=leases if renewal else None,
        clients=(*subscribers, *publishers),
    )


class Messages:
    """What brokers send each other within the window, by kind."""

    def __init__(self, run, seen):
        self.count = Counter()
        self._seen = seen
        self._brokers = run.brokers
        run.sim.on_send = self._sent

    def _sent(self, at, sender, to, message):
        if sender not in self._brokers or to not in self._brokers:
            return
        match message:
            case Forward():
                self.count["events"] += 1
            case Install(number=0) if self._is_seen(at):
                self.count["renewals"] += 1
            case Install() | Withdraw() if self._is_seen(at):
                self.count["changes", sender] += 1

    def _is_seen(self, at):
        return self._seen.low <= round(at * SECOND) < self._seen.high


def by_brokers(setting, subscriptions, published, renewal=None, seen=SEEN):
    run = ScenarioRun(scenario(setting, subscriptions, renewal), 0, kinds=frozenset())
    messages = Messages(run, seen)
    for i, (wanted, begins, ends) in enumerate(
        zip(subscriptions.wanted, subscriptions.begins, subscriptions.ends, strict=True)
    ):
        client, machine = f"s{i}", run.clients[f"s{i}"]
        subscribing = partial(machine.subscribe, "it", parse_filter(f"class = {wanted}"))
        run.sim.at(begins / SECOND, lambda c=client, do=subscribing: run.sim.perform(c, do()))
        if ends < UNTIL:
            run.sim.at(ends / SECOND, lambda c=client, m=machine: run.sim.perform(c, m.unsubscribe("it")))
    for leaf, about, at in zip(*published, strict=True):
        client, attributes = f"p{leaf}", {"class": int(about)}
        publishing = partial(run.clients[client].publish, attributes)
        run.sim.at(at / SECOND, lambda c=client, do=publishing: run.sim.perform(c, do()))
    run.advance(UNTIL / SECOND)
    return messages.count


def load(seed, active=14, lifetime=3.0):
    draw = np.random.default_rng(seed)
    subscriptions = draw_subscriptions(draw, SETTING, active, lifetime, UNTIL)
    return subscriptions, draw_publications(draw, SETTING, 10.0, SEEN)


SEEDS = range(6 * int(os.environ.get("PLEACH_THOROUGH", "1")))


@pytest.mark.parametrize("seed", SEEDS)
def test_subscriptions_and_events_take_the_messages_that_brokers_send(seed):
    subscriptions, published = load(seed)
    found = by_brokers(SETTING, subscriptions, published)
    levels = told(SETTING, subscriptions)
    by_level = Counter()
    for (_, sender), count in ((key, count) for key, count in found.items() if isinstance(key, tuple)):
        by_level[int(np.log2(int(sender[1:]) + 1))] += count
    assert [changes(spans, SEEN) for spans in levels] == [by_level[level] for level in (3, 2, 1)]
    assert min(by_level[level] for level in (1, 2, 3)) > 0
    assert carried(SETTING, levels, published).hops == found["events"]


@pytest.mark.parametrize("seed", SEEDS)
def test_renewals_hop_by_hop_are_those_that_brokers_send(seed):
    subscriptions, published = load(seed)
    found = by_brokers(SETTING, subscriptions, published, Renewal.HOP_BY_HOP)
    seconds = [phase_of(f"{NAME}/b{b}/renewal", REFRESH / SECOND) for b in range(SETTING.brokers)]
    phases = np.array([round(each * SECOND) for each in seconds])
    assert renewals(SETTING, told(SETTING, subscriptions), phases, REFRESH, SEEN) == found["renewals"] > 30


@pytest.mark.parametrize("seed", SEEDS)
def test_relayed_renewals_are_those_that_brokers_send(seed):
    subscriptions, published = load(seed)
    seen = Window(PERIOD, 5 * PERIOD)  # the first tick is after one period
    found = by_brokers(SETTING, subscriptions, published, Renewal.RELAYED, seen)
    phases = [phase_of(f"{NAME}/s{i}", REFRESH / SECOND) for i in range(subscriptions.leaf.size)]
    since = np.array([round(phase * SECOND) - REFRESH for phase in phases])  # clients renew by clocks of their own
    as_they_renew = subscriptions._replace(since=since)
    lease = Lease(REFRESH, PERIOD, tick=PERIOD)
    assert relayed(SETTING, as_they_renew, told(SETTING, subscriptions), lease, seen) == found["renewals"] > 30
