"""The simulation at the level of classes against real brokers: the same subscriptions and events, the same messages."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from pleach.core.events.language import parse_filter
from pleach.core.messages import Forward, Install, Withdraw
from pleach.core.stabilise.lease_settings import Renewal
from pleach.core.timing import phase_of
from pleach.errors import InvalidInputError
from pleach.lab.s1.chapter3.class_filtering import (
    HOP,
    FilteringTree,
    RenewalPeriods,
    Window,
    carried,
    changes,
    crowds,
    draw_publications,
    draw_subscriptions,
    entries,
    relayed,
    renewals,
    told,
)
from pleach.lab.s1.chapter3.spans import SECOND, places_of, times_of
from pleach.scenario.model import Ordering, PerLink, Routing, Scenario, ScenarioClient, Stabilise, Stabiliser
from pleach.scenario.values import Span
from pleach.sim.run import ScenarioRun
from support.thorough import FACTOR

SETTING = FilteringTree(fanout=2, levels=4, classes=3)
SEEN = Window(1 * SECOND, 13 * SECOND)
UNTIL = 15 * SECOND
REFRESH, PERIOD = 2 * SECOND, 2_300_000_000  # π > ρ + d·δ
NAME = "classes"


# The same in the simulator of brokers ---------------------------------------------------------------------------


def scenario(setting, subscriptions, renewal):
    links = tuple((f"b{(b - 1) // setting.fanout}", f"b{b}") for b in range(1, setting.brokers))
    subscribers = [ScenarioClient(id=f"s{i}", broker=f"b{leaf}") for i, leaf in enumerate(subscriptions.leaf)]
    publishers = [
        ScenarioClient(id=f"p{leaf}", broker=f"b{leaf}") for leaf in range(setting.first_leaf, setting.brokers)
    ]
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
    """What brokers send each other: how many events, and of subscriptions when, which broker, which class."""

    def __init__(self, run):
        self.events = 0
        self.changes = []
        self.renewals = []
        self._brokers = run.brokers
        run.sim.on_send = self._sent

    def _sent(self, at, sender, to, message):
        if sender not in self._brokers or to not in self._brokers:
            return
        match message:
            case Forward():
                self.events += 1
            case Install(number=0):
                self.renewals.append(self._told(at, sender, message))
            case Install() | Withdraw():
                self.changes.append(self._told(at, sender, message))

    @staticmethod
    def _told(at, sender, message):
        return round(at * SECOND), int(sender[1:]), int(message.filter.text.split()[-1])


def within(told_at, seen=SEEN):
    return sorted(message for message in told_at if seen.low <= message[0] < seen.high)


def by_brokers(setting, subscriptions, published, renewal=None):
    run = ScenarioRun(scenario(setting, subscriptions, renewal), 0, kinds=frozenset())
    messages = Messages(run)
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
    return messages


def load(seed, active=14, lifetime=3.0):
    draw = np.random.default_rng(seed)
    subscriptions = draw_subscriptions(draw, SETTING, active, lifetime, UNTIL)
    return subscriptions, draw_publications(draw, SETTING, 10.0, SEEN)


SEEDS = range(6 * FACTOR)


@pytest.mark.parametrize("seed", SEEDS)
def test_subscriptions_and_events_take_the_messages_that_brokers_send(seed):
    subscriptions, published = load(seed)
    found = by_brokers(SETTING, subscriptions, published)
    levels = told(SETTING, subscriptions)
    at = np.concatenate([ends for spans in levels for ends in spans])
    ours = zip(
        times_of(at).tolist(), *(part.tolist() for part in np.divmod(places_of(at), SETTING.classes)), strict=True
    )
    assert within(ours) == within(found.changes)
    assert sum(changes(spans, SEEN) for spans in levels) == len(within(found.changes)) > 30
    assert carried(SETTING, levels, published).hops == found.events > 200


@pytest.mark.parametrize("seed", SEEDS)
def test_renewals_hop_by_hop_are_those_that_brokers_send(seed):
    subscriptions, published = load(seed)
    found = within(by_brokers(SETTING, subscriptions, published, Renewal.HOP_BY_HOP).renewals)
    seconds = [phase_of(f"{NAME}/b{b}/renewal", REFRESH / SECOND) for b in range(SETTING.brokers)]
    phases = np.array([round(each * SECOND) for each in seconds])
    assert renewals(SETTING, told(SETTING, subscriptions), phases, REFRESH, SEEN) == len(found) > 30


@pytest.mark.parametrize("seed", SEEDS)
def test_relayed_renewals_are_those_that_brokers_send(seed):
    subscriptions, published = load(seed)
    seen = Window(PERIOD, 5 * PERIOD)  # the first tick is after one period
    found = within(by_brokers(SETTING, subscriptions, published, Renewal.RELAYED).renewals, seen)
    phases = [phase_of(f"{NAME}/s{i}", REFRESH / SECOND) for i in range(subscriptions.leaf.size)]
    since = np.array([round(phase * SECOND) - REFRESH for phase in phases])  # clients renew by clocks of their own
    as_they_renew = subscriptions._replace(since=since)
    lease = RenewalPeriods(REFRESH, PERIOD, tick=PERIOD)
    assert relayed(SETTING, as_they_renew, told(SETTING, subscriptions), lease, seen) == len(found) > 30


# What brokers do not say by messages -----------------------------------------------------------------------------


def under(broker):
    """Leaves below a broker, and how far down they are."""
    height, leaves = 0, [broker]
    while leaves[0] < SETTING.first_leaf:
        height, leaves = height + 1, [2 * leaf + child for leaf in leaves for child in (1, 2)]
    return leaves, height


def is_wanted(subscriptions, broker, about, at):
    """Whether a broker has told of a class by then: somebody below wanted it, as many hops ago as there are."""
    leaves, height = under(broker)
    mine = np.isin(subscriptions.leaf, leaves) & (subscriptions.wanted == about)
    then = at - height * HOP
    return bool(np.any(mine & (subscriptions.begins <= then) & (subscriptions.ends > then)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_detour_is_each_hop_up_from_where_nobody_wants_the_event(seed):
    subscriptions, published = load(seed)
    detour = 0
    for leaf, about, at in zip(*(column.tolist() for column in published), strict=True):
        broker = leaf
        for hop in range(SETTING.levels - 1):
            detour += not is_wanted(subscriptions, broker, about, at + hop * HOP)
            broker = (broker - 1) // 2
    found = carried(SETTING, told(SETTING, subscriptions), published)
    assert found.detour == detour > 0
    assert found.hops > found.detour


def test_entries_are_those_of_all_links_and_classes_on_average():
    subscriptions, _ = load(1)
    links = [(broker, about) for broker in range(1, SETTING.brokers) for about in range(SETTING.classes)]
    at = range(SEEN.low, SEEN.high, SECOND // 20)
    found = sum(is_wanted(subscriptions, broker, about, time) for broker, about in links for time in at) / len(at)
    assert entries(told(SETTING, subscriptions), SEEN) == pytest.approx(found, rel=0.02)


def test_crowds_count_every_leaf_and_class_and_every_subscription_once():
    subscriptions, _ = load(2)
    at = 5 * SECOND
    active = np.count_nonzero((subscriptions.begins <= at) & (subscriptions.ends > at))
    found = crowds(SETTING, subscriptions, at)
    assert found.sum() == SETTING.leaves * SETTING.classes
    assert np.dot(found, np.arange(found.size)) == active > 0


def test_nobody_there_costs_nothing_but_the_way_to_the_root():
    draw = np.random.default_rng(0)
    nobody = draw_subscriptions(draw, SETTING, 0, 3.0, UNTIL)
    published = draw_publications(draw, SETTING, 10.0, SEEN)
    levels = told(SETTING, nobody)
    events = published.at.size
    assert carried(SETTING, levels, published) == (3 * events, 3 * events)
    assert relayed(SETTING, nobody, levels, RenewalPeriods(REFRESH, PERIOD, tick=PERIOD), SEEN) == 0
    assert entries(levels, SEEN) == 0


@pytest.mark.parametrize("shape", [(0, 3, 5), (3, 1, 5), (3, 3, 0), (3, 10, 1000)])
def test_a_setting_that_makes_no_sense_or_does_not_fit_is_refused(shape):
    with pytest.raises(InvalidInputError):
        FilteringTree(*shape)
