"""A network as a trace tells it, up to some record: what a frame of a film shows.

The tree is that of the run's outline; a trace without one shows the links that something was sent over. From there on
it changes with every operation that is done.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pleach.core.messages import Node
from pleach.core.overlay.plans import Link
from pleach.core.overlay.plans.topology import link
from pleach.operate.operation import asked_name
from pleach.scenario.initial_tree import InitialTree
from pleach.scenario.step_requests import ASKED, added, removed
from pleach.trace import Record, RecordKind
from pleach.web.picture import (
    Broker,
    Client,
    Counters,
    Notice,
    Operation,
    Picture,
    Source,
    Step,
    link_key,
)
from pleach.web.picture import Link as LinkShown

NOTICES_MAX = 60
OPERATIONS_MAX = 60
TAKEN = re.compile(r"\S+ (\S+): (.*)")  # `KIND OPERATION: PHASE`
MARKED = "Marked"
FROM_CLIENTS = frozenset({"Attach", "Publish", "Subscribe", "Unsubscribe"})
BETWEEN_BROKERS = frozenset({"Forward", "Install", "Installed", "Withdraw", MARKED})


def inferred(records: Iterable[Record]) -> InitialTree:
    """The tree that a run began with, as far as records tell: links that carried something, and were not made later."""
    links: dict[Link, None] = {}
    made: set[Link] = set()
    homes: dict[Node, Node] = {}
    for record in records:
        pair = link(record.node, record.peer)
        if record.kind == RecordKind.SEND and record.message in BETWEEN_BROKERS and pair not in made:
            links[pair] = None
        elif record.kind == RecordKind.SEND and record.message in FROM_CLIENTS:
            homes.setdefault(record.node, record.peer)
        elif (asked := ASKED.fullmatch(record.detail)) and (new := added(record.node, asked[2])):
            made.add(link(*new))
    brokers = sorted({name for link in links for name in link} | {*homes.values()})
    return InitialTree(tuple(brokers), tuple(links), homes)


@dataclass
class Story:
    what: str
    broker: Node
    asked_at: float
    ended_at: float | None = None
    state: str = "running"
    reason: str = ""
    flooded: int = 0
    steps: dict[str, Step] = field(default_factory=dict)

    @property
    def brokers(self) -> tuple[Node, ...]:
        named = tuple(dict.fromkeys(step.broker for step in self.steps.values()))
        return named or (self.broker,)


class Stage:
    def __init__(self, outline: InitialTree, *, has_sends: bool) -> None:
        self.brokers = dict.fromkeys(outline.brokers)
        self.links = {link_key(a, b): link(a, b) for a, b in outline.links}
        self.homes = dict(outline.homes)
        self._has_sends = has_sends
        self._down: set[str] = set()
        self._silent: set[Node] = set()
        self._subscriptions: Counter[Node] = Counter()
        self._stories: dict[str, Story] = {}
        self._locked: dict[Node, str] = {}
        self._notices: dict[str, Notice] = {}
        self._count: Counter[str] = Counter()
        self._sent: Counter[tuple[Node, Node]] = Counter()  # bytes, since the rates were read
        self._rates: Counter[tuple[Node, Node]] = Counter()
        self._read: Counter[str] = Counter()
        self._publish_rate = self._deliver_rate = 0.0

    # Records ---------------------------------------------------------------------------------------------------

    def take(self, record: Record) -> None:
        match record.kind:
            case RecordKind.SEND:
                self._send(record)
            case RecordKind.STATE:
                self._state(record)
            case RecordKind.FAULT:
                self._fault(record)
            case RecordKind.SUBSCRIBE:
                self._subscriptions[record.who] += 1
            case RecordKind.UNSUBSCRIBE_ACK:
                self._subscriptions[record.who] -= 1
            case RecordKind.PUBLISH_ACK | RecordKind.DELIVER | RecordKind.PUBLISH_FAIL:
                self._count[record.kind] += 1

    def _send(self, record: Record) -> None:
        if record.message in FROM_CLIENTS and record.peer in self.brokers:
            self.homes[record.node] = record.peer
        if record.message == MARKED and (story := self._stories.get(self._locked.get(record.node, ""))):
            story.flooded += 1
        self._sent[record.node, record.peer] += record.bytes

    def _state(self, record: Record) -> None:
        if asked := ASKED.fullmatch(record.detail):
            self._told(asked[1], asked[2], record)
        elif record.node and (taken := TAKEN.fullmatch(record.detail)):
            name = asked_name(taken[1])
            story = self._stories.get(name)
            if story is not None:
                story.steps[str(len(story.steps))] = Step(record.at, record.node, taken[2])
                self._locked[record.node] = name

    def _told(self, name: str, text: str, record: Record) -> None:
        """The first that is told of an operation is what it is, the next how it ended."""
        story = self._stories.get(name)
        if story is None:
            self._stories[name] = Story(text, record.node, record.at)
            while len(self._stories) > OPERATIONS_MAX:
                del self._stories[next(iter(self._stories))]
            return
        story.ended_at = record.at
        story.state, story.reason = ("done", "") if text == "done" else ("refused", text)
        self._locked = {broker: other for broker, other in self._locked.items() if other != name}
        if text == "done":
            self._change(story)

    def _change(self, story: Story) -> None:
        if new := added(story.broker, story.what):
            self.brokers.update(dict.fromkeys(new))
            self.links[link_key(*new)] = link(*new)
        if gone := removed(story.what):
            self.links.pop(link_key(*gone), None)
        match story.what.split(" "):
            case ["remove_broker", broker]:
                self.brokers.pop(broker, None)
                self.links = {key: ends for key, ends in self.links.items() if broker not in ends}

    def _fault(self, record: Record) -> None:
        word = record.detail.partition(" ")[0]
        named = {f"{x}-{y}": (a, b) for a, b in self.links.values() for x, y in ((a, b), (b, a))}
        ends = named.get(record.peer)
        match word:
            case "crash":
                self._silent.add(record.node)
            case "restart":
                self._silent.discard(record.node)
            case "cut" if ends:
                self._down.add(link_key(*ends))
            case "heal" if ends:
                self._down.discard(link_key(*ends))
        text = f"{record.node or record.peer or 'network'}: {record.detail}"
        number = str(len(self._notices))
        if len(self._notices) < NOTICES_MAX:
            self._notices[number] = Notice(record.at, text, is_bad=word not in ("restart", "heal"))

    # Pictures --------------------------------------------------------------------------------------------------

    def read_rates(self, seconds: float) -> None:
        """What was sent since the last time is what the next frames show."""
        self._rates = Counter({pair: round(count / seconds) for pair, count in self._sent.items()})
        self._sent = Counter()
        self._publish_rate = round((self._count["publish_ack"] - self._read["publish_ack"]) / seconds, 1)
        self._deliver_rate = round((self._count["deliver"] - self._read["deliver"]) / seconds, 1)
        self._read = Counter(self._count)

    def picture(self, source: Source, at: float) -> Picture:
        guests = Counter(self.homes.values())
        return Picture(
            source=source,
            at=at,
            brokers={name: self._broker(name, guests[name]) for name in sorted(self.brokers)},
            links={key: self._link(key, a, b) for key, (a, b) in sorted(self.links.items())},
            clients={
                client: Client(home, subscriptions=max(0, self._subscriptions[client]))
                for client, home in sorted(self.homes.items())
            },
            operations={name: self._operation(story) for name, story in self._stories.items()},
            notices=dict(self._notices),
            counters=Counters(
                published=self._count["publish_ack"],
                delivered=self._count["deliver"],
                refused=self._count["publish_fail"],
                publish_rate=self._publish_rate,
                deliver_rate=self._deliver_rate,
            ),
        )

    def _broker(self, name: Node, clients: int) -> Broker:
        is_silent = name in self._silent
        trouble = "it has crashed" if is_silent else ""
        return Broker(answers=not is_silent, trouble=trouble, operation=self._locked.get(name, ""), clients=clients)

    def _link(self, key: str, a: Node, b: Node) -> LinkShown:
        up = key not in self._down and not {a, b} & self._silent
        return LinkShown(a, b, up=up, there=self._rates[a, b], back=self._rates[b, a])

    def _operation(self, story: Story) -> Operation:
        return Operation(
            what=story.what,
            brokers=(),
            state=story.state,
            asked_at=story.asked_at,
            ended_at=story.ended_at,
            reason=story.reason,
            flooded=story.flooded if self._has_sends else None,
            steps=dict(story.steps),
        )
