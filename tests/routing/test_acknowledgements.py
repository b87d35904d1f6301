"""A subscription's acknowledgement means that it is installed network-wide (DESIGN §3).

From the moment a client gets `Subscribed`, an event that matches, published at any broker by a client that may publish it, reaches
that client: whatever is still under way, in whatever order links move, whoever else comes and goes. The hard cases are
subscriptions that cause no message because a wider one was told before, and that one is still in flight, or just being
withdrawn.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest
from wires import CONFIGS, EVENTS, FILTERS, Adversary, Tree, Wires, config_name, random_tree

from pleach.events.event import Event, EventId
from pleach.events.filter import Filter
from pleach.events.language import parse_filter
from pleach.messages import (
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
from pleach.routing.policies import POLICIES
from pleach.routing.router import RoutingConfig

SCHEDULES = 150 * int(os.environ.get("PLEACH_THOROUGH", "1"))  # for each of 24 configurations
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

    def check(self) -> None:
        assert self.is_tested, "the acknowledgement never came"
        refused = [m for p in self.publishers for m in self.wires.mailbox[p] if isinstance(m, PublishRefused)]
        assert not refused
        delivered = Counter(m.event.id for m in self.wires.mailbox[SUBJECT] if isinstance(m, Deliver))
        assert delivered == dict.fromkeys((event.id for event in self.injected), 1) or self._has_more(delivered)

    def _has_more(self, delivered: Counter[EventId]) -> bool:
        """Other subscriptions of the subject never bring anything that GOAL does not want: only GOAL's is injected."""
        missing = [str(event.id) for event in self.injected if not delivered[event.id]]
        doubled = [str(event) for event, count in delivered.items() if count > 1]
        raise AssertionError(f"{self.wanted} lost {missing}, got twice {doubled}")


@pytest.mark.parametrize("config", CONFIGS, ids=config_name)
def test_what_is_acknowledged_is_installed_network_wide(config):
    injected = 0
    for seed in range(SCHEDULES):
        story = Story(config, Random(f"acknowledgement/{seed}"))
        story.run()
        try:
            story.check()
        except AssertionError as error:
            raise AssertionError(f"{config_name(config)}, seed {seed}: {error}") from None
        injected += len(story.injected)
    assert injected > SCHEDULES, "hardly anything was tested"
