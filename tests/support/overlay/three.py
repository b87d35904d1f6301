"""Three brokers a–b–c with a client each, on FIFO links: messages are handed over one by one, as the caller chooses."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

from pleach.core.broker import Broker
from pleach.core.effects import CancelTimer, Concluded, Effect, LinkDown, LinkUp, Send, SetTimer
from pleach.core.events.event import Event, EventId
from pleach.core.events.language import parse_filter
from pleach.core.messages import OPERATOR, Attach, Deliver, Message, Node, Publish, RequestSwap, Subscribe
from pleach.core.overlay.registry import machines
from pleach.core.overlay.swaplink.machine import SwapLink
from pleach.core.overlay.swaplink.state import Swapping
from pleach.core.routing.router import RoutingConfig

NEIGHBOURS = {"a": ["b"], "b": ["a", "c"], "c": ["b"]}


def new_broker(name: Node) -> Broker:
    return Broker(name, RoutingConfig(), neighbours=NEIGHBOURS[name], machines=machines("causal"))


def swap_at(broker: Broker) -> Swapping | None:
    """The swap under way at a broker."""
    machine = broker.machine(SwapLink)
    assert machine is not None
    return machine._part.state.swap


class Three:
    """`sent`: every message between brokers as (sender, receiver, message), in the order in which they were sent."""

    def __init__(self) -> None:
        self.brokers = {name: new_broker(name) for name in NEIGHBOURS}
        self.queues: dict[tuple[Node, Node], deque[Message]] = {}
        self.sent: list[tuple[Node, Node, Message]] = []
        self.effects: list[tuple[Node, Effect]] = []  # all that is no Send
        self.delivered: dict[Node, list[str]] = {name: [] for name in NEIGHBOURS}
        self.timers: dict[tuple[Node, str], float] = {}
        self._published = 0
        for name in NEIGHBOURS:
            self.say(name, f"at {name}", Attach())
            self.say(name, f"at {name}", Subscribe("s", parse_filter("TRUE")))
        self.drain()
        self.sent.clear()

    def say(self, to: Node, sender: Node, message: Message) -> None:
        self.perform(to, self.brokers[to].handle(sender, message, now=0.0))

    def perform(self, node: Node, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, Deliver(event)):
                    self.delivered[node].append(str(event.id))
                case Send(to, message) if to in self.brokers:
                    self.queues.setdefault((node, to), deque()).append(message)
                    self.sent.append((node, to, message))
                case SetTimer(name, after):
                    self.timers[node, name] = after
                case CancelTimer(name):
                    self.timers.pop((node, name), None)
                case LinkUp() | LinkDown() | Concluded():
                    self.effects.append((node, effect))

    def swap(self, *, is_published: bool = False) -> None:
        self.say("a", OPERATOR, RequestSwap("1", "a", "b", "c", "swaplink-published" if is_published else ""))

    def publish(self, broker: Node) -> str:
        self._published += 1
        event = Event(EventId(f"at {broker}", 0, self._published), {})
        self.say(broker, f"at {broker}", Publish(event))
        return str(event.id)

    def ready(self) -> list[tuple[Node, Node]]:
        return sorted(ends for ends, queue in self.queues.items() if queue)

    def deliver(self, sender: Node, to: Node) -> Message:
        """Hand over the next message of a link."""
        message = self.queues[sender, to].popleft()
        self.say(to, sender, message)
        return message

    def drain(self, stream: Random | None = None) -> None:
        while ready := self.ready():
            self.deliver(*(stream.choice(ready) if stream else ready[0]))

    def lease_over(self, broker: Node = "b") -> None:
        [name] = [name for node, name in self.timers if node == broker]
        del self.timers[broker, name]
        self.perform(broker, self.brokers[broker].handle_timer(name, now=0.0))

    def names(self) -> list[str]:
        """The messages of the swap, as `Lock a→b`."""
        kinds = SwapLink.accepts
        return [
            f"{type(message).__name__} {one}→{other}" for one, other, message in self.sent if type(message) in kinds
        ]
