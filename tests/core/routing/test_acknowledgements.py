"""A subscription's acknowledgement means that it is installed network-wide (decision 3).

From the moment a client gets `Subscribed`, an event that matches, published at any broker by a client that may
publish it, reaches that client: whatever is still under way, in whatever order links move, whoever else comes and
goes. The hard cases are subscriptions that cause no message because a wider one was told before, and that one is
still in flight, or just being withdrawn.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from pleach.core.events.event import Event, EventId
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.messages import (
    Advertise,
    Advertised,
    Deliver,
    Message,
    Node,
    Publish,
    Published,
    PublishRefused,
    Subscribe,
    Subscribed,
    Unadvertise,
    Unsubscribe,
    Unsubscribed,
)
from pleach.core.routing.policies import POLICIES
from pleach.core.routing.router import RoutingConfig
from support.routing.fifo_network import CONFIGS, EVENTS, FILTERS, Adversary, Tree, Wires, config_name, random_tree
from support.thorough import FACTOR

SCHEDULES = 40 * FACTOR  # for each of 24 configurations
BROKERS_MAX = 6
RIVALS = 3
SUBJECT = "subject"
GOAL = "goal"


@dataclass
class Story:
    """One network, one subject whose acknowledgement is put to the test, rivals and publishers around it."""

    config: RoutingConfig
    stream: Random
    plans: dict[Node, list[Message]] = field(default_factory=dict)  # what each client still wants to ask for
    injected: list[Event] = field(default_factory=list)
    is_tested: bool = False

    def __post_init__(self) -> None:
        tree = random_tree(self.stream, BROKERS_MAX)
        self.wanted: Filter = self.stream.choice(FILTERS)
        homes = {SUBJECT: self.stream.choice(tree.brokers)}
        homes |= {f"rival{i}": self.stream.choice(tree.brokers) for i in range(RIVALS)}
        homes |= {f"publisher-{broker}": broker for broker in tree.brokers}
        self.publishers = [client for client in sorted(homes) if client.startswith("publisher-")]
        self.wires = Wires(tree, self.config, homes)
        self.adversary = Adversary(self.stream)
        self.asked: dict[Node, list[Message]] = {client: [] for client in homes}
        self._plan()

    def _plan(self) -> None:
        for i in range(RIVALS):
            self.plans[f"rival{i}"] = self._fickle(Subscribe, Unsubscribe, 4)
        if self.config.advertisements:
            for publisher in self.publishers:
                self.plans[publisher] = self._fickle(Advertise, Unadvertise, 3)
        before = self._fickle(Subscribe, Unsubscribe, 2)
        again = [Subscribe(GOAL, self.wanted), Unsubscribe(GOAL)] * self.stream.randint(0, 2)
        self.plans[SUBJECT] = [*before, *again, Subscribe(GOAL, self.wanted)]

    def _fickle(self, make: type, take_back: type, count: int) -> list[Message]:
        """Ask for a few filters, and take some of them back later."""
        requests: list[Message] = []
        kept: list[str] = []
        for i in range(self.stream.randint(0, count)):
            requests.append(make(f"n{i}", self.stream.choice(FILTERS)))
            kept.append(f"n{i}")
            if self.stream.random() < 0.4:
                requests.append(take_back(kept.pop(self.stream.randrange(len(kept)))))
        return requests

    def run(self) -> None:
        while moves := [*self.wires.waiting(), *self._askers()]:
            sender, receiver = self.adversary.choose(moves)
            if receiver:
                self.wires.deliver((sender, receiver))
            else:
                self._ask(sender)
            if not self.is_tested and self._is_acknowledged():
                self.is_tested = True
                self._inject()

    def _askers(self) -> list[tuple[Node, Node]]:
        return [(client, "") for client, plan in sorted(self.plans.items()) if plan]

    def _ask(self, client: Node) -> None:
        message = self.plans[client].pop(0)
        self.asked[client].append(message)
        self.wires.request(client, message)

    def _is_acknowledged(self) -> bool:
        """An acknowledgement counts for the last request: all that was taken back before has been confirmed."""
        if self.plans[SUBJECT]:
            return False
        mailbox = self.wires.mailbox[SUBJECT]
        taken_back = self.asked[SUBJECT].count(Unsubscribe(GOAL))
        if mailbox.count(Unsubscribed(GOAL)) < taken_back:
            return False
        since = [i for i, message in enumerate(mailbox) if message == Unsubscribed(GOAL)]
        return Subscribed(GOAL) in mailbox[since[-1] if since else 0 :]

    def _inject(self) -> None:
        """Every publisher that may publishes events that the subject wants, now."""
        for publisher in self.publishers:
            wanted = [a for a in EVENTS if self.wanted.matches(a) and self._may_publish(publisher, a)]
            for number, attributes in enumerate(self.stream.sample(wanted, min(3, len(wanted))), start=1):
                event = Event(EventId(publisher, 0, number), dict(attributes))
                self.injected.append(event)
                self._publish(publisher, event)

    def _publish(self, publisher: Node, event: Event) -> None:
        """Either the event is with the broker at once, or it has to travel first."""
        broker = self.wires.home[publisher]
        if self.stream.random() < 0.5:
            self.wires.perform(broker, self.wires.handle(broker, publisher, Publish(event)))
        else:
            self.wires.request(publisher, Publish(event))

    def _may_publish(self, publisher: Node, attributes: dict[str, str | int]) -> bool:
        if not self.config.advertisements:
            return True
        asked = self.asked[publisher]
        return any(
            Advertised(request.advertisement) in self.wires.mailbox[publisher]
            and Unadvertise(request.advertisement) not in asked
            and request.filter.matches(attributes)
            for request in asked
            if isinstance(request, Advertise)
        )

    def flaws(self) -> list[str]:
        """What does not hold at the end. All that is published matches GOAL, so each event comes exactly once."""
        mailbox = self.wires.mailbox
        refused = [m for p in self.publishers for m in mailbox[p] if isinstance(m, PublishRefused)]
        delivered = Counter(m.event.id for m in mailbox[SUBJECT] if isinstance(m, Deliver))
        published = Counter(event.id for event in self.injected)
        return [
            *(["the acknowledgement never came"] if not self.is_tested else []),
            *(f"refused: {message}" for message in refused),
            *(f"lost: {event}" for event in published - delivered),
            *(f"too many: {event}" for event in delivered - published),
        ]


@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
def test_what_is_acknowledged_is_installed_network_wide(config):
    injected = 0
    for seed in range(SCHEDULES):
        story = Story(config, Random(f"acknowledgement/{seed}"))
        story.run()
        assert not story.flaws(), f"seed {seed}, {story.wanted}"
        injected += len(story.injected)
    assert injected > SCHEDULES, "hardly anything was tested"


# Cases one by one --------------------------------------------------------------------------------------------

CHAIN = Tree({"b0": ["b1"], "b1": ["b0", "b2"], "b2": ["b1"]}, {"b0": None, "b1": "b0", "b2": "b1"})
WIDE, NARROW = parse_filter("price > 0"), parse_filter("price > 5")
ADVANCED = ("covering", "merging")


def chain(policy: str, **options: bool) -> Wires:
    clients = {"wide": "b2", "narrow": "b2", "publisher": "b0"}
    return Wires(CHAIN, RoutingConfig(policy, **options), clients)


@pytest.mark.parametrize("policy", ADVANCED)
def test_a_hidden_subscription_waits_for_the_wider_one_in_flight(policy):
    wires = chain(policy)
    wires.request("wide", Subscribe("w", WIDE))
    wires.request("narrow", Subscribe("n", NARROW))
    wires.deliver(("wide", "b2"))
    wires.deliver(("narrow", "b2"))
    assert wires.waiting() == [("b2", "b1")], "only the wide one travels, and nobody is answered"
    wires.deliver(("b2", "b1"))
    assert wires.waiting() == [("b1", "b0")], "b1 does not answer before b0 does"
    wires.deliver(("b1", "b0"))
    wires.deliver(("b0", "b1"))
    wires.deliver(("b1", "b2"))
    assert wires.waiting() == [("b2", "narrow"), ("b2", "wide")]


@pytest.mark.parametrize("policy", ADVANCED)
def test_a_hidden_subscription_is_confirmed_at_once_where_the_wider_one_is_installed(policy):
    wires = chain(policy)
    wires.request("wide", Subscribe("w", WIDE))
    Adversary(Random(0)).drain(wires)
    wires.request("narrow", Subscribe("n", NARROW))
    wires.deliver(("narrow", "b2"))
    assert wires.waiting() == [("b2", "narrow")]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_asking_again_while_the_first_request_is_in_flight_confirms_nothing_early(policy):
    """S1 §2.2.1: subscribing again has no effect; in particular it does not make the subscription known sooner."""
    wires = chain(policy)
    for _ in range(2):
        wires.request("narrow", Subscribe("n", NARROW))
        wires.deliver(("narrow", "b2"))
    is_flooding = POLICIES[policy].floods
    assert wires.waiting() == ([("b2", "narrow")] if is_flooding else [("b2", "b1")])
    Adversary(Random(0)).drain(wires)
    assert Subscribed("n") in wires.mailbox["narrow"]


def test_a_subscription_that_is_taken_back_is_not_confirmed_later():
    wires = chain("simple")
    wires.request("narrow", Subscribe("n", NARROW))
    wires.request("narrow", Unsubscribe("n"))
    Adversary(Random(0)).drain(wires)
    assert wires.mailbox["narrow"][1:] == [Unsubscribed("n")]


# The earlier, local acknowledgement ----------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
def test_a_local_acknowledgement_comes_at_once(config):
    """`network_wide=False`: confirmed by the client's own broker alone, and in effect there."""
    clients = {"subject": "b2", "beside": "b2", "far": "b0"}
    wires = Wires(CHAIN, config, clients)
    for publisher in ("beside", "far"):
        wires.request(publisher, Advertise("a", WIDE))
    Adversary(Random(1)).drain(wires)
    wires.request("subject", Subscribe("n", NARROW, network_wide=False))
    wires.deliver(("subject", "b2"))
    wires.deliver(("b2", "subject"))
    assert wires.mailbox["subject"][-1] == Subscribed("n")
    near, far = (Event(EventId(publisher, 0, 1), {"price": 7}) for publisher in ("beside", "far"))
    wires.request("beside", Publish(near))
    wires.deliver(("beside", "b2"))
    wires.deliver(("b2", "subject"))
    assert wires.mailbox["subject"][-1] == Deliver(near)
    Adversary(Random(2)).drain(wires)
    wires.request("far", Publish(far))
    Adversary(Random(3)).drain(wires)
    assert wires.mailbox["subject"][1:] == [Subscribed("n"), Deliver(near), Deliver(far)]
    assert Published(far.id) in wires.mailbox["far"]
