"""Brokers joined by FIFO queues, with an adversary who decides which queue moves next.

A tiny driver: what is sent lies in the queue of its link until `deliver` hands over the first message of one queue.
There is no time. A schedule is a row of choices; `Adversary` draws them so that some links are far slower than others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from pleach.core.broker import Broker
from pleach.core.effects import Effect, Send
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.messages import Attach, Message, Node
from pleach.core.routing.policies import POLICIES
from pleach.core.routing.router import RoutingConfig

HANDED_OVER_MAX = 100_000  # of one schedule: more means that messages chase each other

CONFIGS = tuple(
    RoutingConfig(policy, hierarchical, advertisements, bound)
    for hierarchical in (False, True)
    for advertisements in (False, True)
    for policy, bound in (*((name, 0.0) for name in POLICIES), ("merging", 0.3))
)

# Filters among which equal, covering, overlapping and mergeable ones are frequent.
FILTERS: tuple[Filter, ...] = tuple(
    parse_filter(text)
    for text in (
        "EXISTS price",
        "price <= 5",
        "price > 5",
        "price BETWEEN 2 AND 4",
        "price BETWEEN 4 AND 7",
        "price BETWEEN 5 AND 6",
        "price = 3",
        "topic = 'a'",
        "topic = 'a' AND price < 5",
        "topic = 'a' AND price >= 5",
        "topic = 'b' AND price BETWEEN 1 AND 8",
        "topic = 'b' OR price = 0",
    )
)
EVENTS: tuple[Mapping[str, str | int], ...] = tuple(
    {"topic": topic, "price": price} for topic in ("a", "b") for price in range(10)
)


def config_name(config: RoutingConfig) -> str:
    shape = "hierarchical" if config.hierarchical else "peer-to-peer"
    suffix = "/advertisements" if config.advertisements else ""
    return f"{config.policy}{config.merge_bound or ''}/{shape}{suffix}"


@dataclass(frozen=True)
class Tree:
    neighbours: Mapping[Node, Sequence[Node]]
    parent: Mapping[Node, Node | None]

    @property
    def brokers(self) -> list[Node]:
        return sorted(self.neighbours)


def random_tree(stream: Random, brokers_max: int) -> Tree:
    """Each broker hangs below an earlier one; `b0` is the root. Neighbours come in any order."""
    parent: dict[Node, Node | None] = {"b0": None}
    neighbours: dict[Node, list[Node]] = {"b0": []}
    for i in range(1, stream.randint(2, brokers_max)):
        above, name = f"b{stream.randrange(i)}", f"b{i}"
        parent[name] = above
        neighbours[name] = [above]
        neighbours[above].append(name)
    for each in neighbours.values():
        stream.shuffle(each)
    return Tree(neighbours, parent)


class Wires:
    """Brokers and the queues between them; clients are mailboxes."""

    def __init__(self, tree: Tree, config: RoutingConfig, clients: Mapping[Node, Node]) -> None:
        self.tree = tree
        self.config = config
        self.home = dict(clients)
        self.brokers = {name: self.make_broker(name) for name in tree.brokers}
        self.mailbox: dict[Node, list[Message]] = {client: [] for client in clients}
        self._queues: dict[tuple[Node, Node], deque[Message]] = {}
        self._handed_over = 0
        for client in sorted(clients):
            self.request(client, Attach())
        for link in self.waiting():  # attaching is not what is tested
            self.deliver(link)
        for client in sorted(clients):
            self.deliver((self.home[client], client))

    def make_broker(self, name: Node) -> Broker:
        """A broker without any state."""
        return Broker(name, self.config, neighbours=self.tree.neighbours[name], parent=self.tree.parent[name])

    def request(self, client: Node, message: Message) -> None:
        self._put((client, self.home[client]), message)

    def waiting(self) -> list[tuple[Node, Node]]:
        """The links on which a message waits, sorted."""
        return sorted(link for link, queue in self._queues.items() if queue)

    def deliver(self, link: tuple[Node, Node]) -> Message:
        """Hand over the first message of a link."""
        self._handed_over += 1
        assert self._handed_over <= HANDED_OVER_MAX, "not quiet"
        sender, receiver = link
        message = self._queues[link].popleft()
        if receiver in self.brokers:
            self.perform(receiver, self.handle(receiver, sender, message))
        else:
            self.mailbox[receiver].append(message)
        return message

    def handle(self, broker: Node, sender: Node, message: Message) -> Sequence[Effect]:
        return self.brokers[broker].handle(sender, message, now=0.0)

    def perform(self, node: Node, effects: Iterable[Effect]) -> None:
        for effect in effects:
            assert isinstance(effect, Send), effect
            self._put((node, effect.to), effect.message)

    def _put(self, link: tuple[Node, Node], message: Message) -> None:
        self._queues.setdefault(link, deque()).append(message)


class Adversary:
    """Chooses the next link. Each link has its own pace; the slowest wait for thousands of others."""

    def __init__(self, stream: Random) -> None:
        self._stream = stream
        self._pace: dict[tuple[Node, Node], float] = {}

    def choose(self, links: Sequence[tuple[Node, Node]]) -> tuple[Node, Node]:
        paces = [self._pace.setdefault(link, 10 ** self._stream.uniform(-4, 0)) for link in links]
        return self._stream.choices(links, paces)[0]

    def drain(self, wires: Wires) -> None:
        while links := wires.waiting():
            wires.deliver(self.choose(links))
