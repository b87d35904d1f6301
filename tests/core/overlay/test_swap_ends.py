"""A swap ends with what it waited for last, a message or an event, and not since somebody looks whether it is over."""

from __future__ import annotations

from collections import Counter, deque
from random import Random

from pleach.core.broker import Broker
from pleach.core.effects import Send
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import OPERATOR, Attach, Marked, Publish, RequestSwap, Subscribe
from pleach.core.overlay.registry import machines
from pleach.core.overlay.swaplink.machine import SwapLink
from pleach.core.routing.router import RoutingConfig
from support.thorough import FACTOR

SEEDS = 12 * FACTOR
EVENTS = 40
TREE = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}


class Swapped:
    """Three brokers that swap under load, with a client each. One way of a link is slower than all others."""

    def __init__(self, seed):
        self.stream = Random(seed)
        self.slow = self.stream.choice([(one, other) for one in TREE for other in TREE[one]])
        self.brokers = {name: broker(name) for name in TREE}
        self.links = {}
        self.ended_by = Counter()
        self.sequences = Counter()
        for name in TREE:
            self.say(name, f"at {name}", Attach())
            self.say(name, f"at {name}", Subscribe("s", parse_filter("TRUE")))
        self.settle()

    def say(self, to, sender, message):
        for effect in self.brokers[to].handle(sender, message, now=0.0):
            if isinstance(effect, Send) and effect.to in self.brokers:
                self.links.setdefault((to, effect.to), deque()).append(effect.message)

    def publish(self):
        name = self.stream.choice(list(TREE))
        self.sequences[name] += 1
        self.say(name, f"at {name}", Publish(Event(EventId(f"at {name}", 0, self.sequences[name]), {})))

    def step(self):
        waiting = sorted(link for link, messages in self.links.items() if messages)
        sender, to = self.stream.choice([link for link in waiting if link != self.slow] or waiting)
        message = self.links[sender, to].popleft()
        if self.brokers[to].operation:
            self.look(sender, to, message)
        self.say(to, sender, message)

    def look(self, sender, to, message):
        """At a copy of the broker, where nobody but the machine or the seam sees the message."""
        copy = broker(to)
        copy.restore(self.brokers[to].capture())
        swaps = copy.machine(SwapLink)
        if isinstance(message, Marked):
            copy.seam.arrive(sender, message)
        elif type(message) in swaps.accepts:
            swaps.handle(sender, message, now=0.0)
        seen, operation = swaps.capture(), swaps.operation
        assert bool(operation) == (swaps.under_way is not None)
        assert swaps.capture() == seen
        if not operation:
            self.ended_by[type(message)] += 1

    def settle(self):
        while any(self.links.values()):
            self.step()


def broker(name):
    return Broker(name, RoutingConfig(), neighbours=TREE[name], machines=machines("causal"))


def test_looking_whether_a_swap_is_over_does_not_end_it():
    ended_by = Counter()
    for seed in range(SEEDS):
        swapped = Swapped(seed)
        swapped.say("a", OPERATOR, RequestSwap("swap", "a", "b", "c"))
        for _ in range(EVENTS):
            swapped.publish()
            if any(swapped.links.values()):
                swapped.step()
        swapped.settle()
        assert sum(swapped.ended_by.values()) == len(TREE)
        ended_by += swapped.ended_by
    assert ended_by[Marked], "an event must have been the last thing in some of them"
