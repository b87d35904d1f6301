"""A correct network in a few lines, to make traces that are clean by construction. It shares nothing with the oracle.

Each event travels to every client with a random delay. A client takes it from its queue when the delay is over
and no cause of it waits in the same queue, and then keeps or drops it:

- it must keep it if a matching subscription, not ended, was acknowledged before the event was published;
- it may keep it (a coin decides) if it has any other matching subscription from `subscribe` to `unsubscribe_ack`;
- otherwise it drops it.

Causes are kept as plain sets of event ids; filters are Python predicates beside their texts.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pleach.trace import Record, Recorder, RecordKind, attributes_text

FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "topic = 't0'": lambda a: a["topic"] == "t0",
    "topic = 't1'": lambda a: a["topic"] == "t1",
    "topic = 't2'": lambda a: a["topic"] == "t2",
    "topic IN ('t1', 't2')": lambda a: a["topic"] in ("t1", "t2"),
    "price > 50": lambda a: a.get("price", 0) > 50,
    "topic = 't0' AND price <= 30": lambda a: a["topic"] == "t0" and a.get("price", 99) <= 30,
    "topic = 't2' OR NOT EXISTS price": lambda a: a["topic"] == "t2" or "price" not in a,
}


@dataclass(eq=False)
class Taken:
    """A subscription, from its request on."""

    client: str
    name: str
    filter: str
    own: bool
    asked: int
    acknowledged: int | None = None
    ended: int | None = None

    def wants(self, event: Published) -> bool:
        return (self.own or event.publisher != self.client) and FILTERS[self.filter](event.attributes)


@dataclass(eq=False)
class Published:
    id: str
    publisher: str
    attributes: dict[str, Any]
    causes: frozenset[str]
    index: int
    fate: str
    acknowledged: int | None = None


@dataclass(eq=False)
class Delivered:
    index: int
    client: str
    event: Published
    owed_to: Taken | None  # the subscription for which it had to be kept, if any


@dataclass(eq=False)
class Member:
    name: str
    broker: str
    answers: bool
    incarnation: int = 0
    sequence: int = 0
    past: set[str] = field(default_factory=set)
    queue: list[Published] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)  # not over


@dataclass
class Story:
    """A run with what really happened in it; indices are those of `records`."""

    records: list[Record]
    taken: list[Taken]
    published: list[Published]
    delivered: list[Delivered]
    drains: list[int]


class TinyNetwork:
    def __init__(self, seed: int, *, steps: int = 60, clients: int = 5) -> None:
        self.draw = random.Random(seed)
        self.steps = steps
        self.now = 0.0
        self.serial = 0
        self.agenda: list[tuple[float, int, Callable[[], None]]] = []
        self.recorder = Recorder(f"run{seed}")
        self.at_brokers = self.draw.random() < 0.3  # deliveries recorded by brokers instead of clients
        self.members = [Member(f"c{i}", "b0", answers=self.draw.random() < 0.6) for i in range(clients)]
        self.story = Story(self.recorder.records, [], [], [], [])
        self.due: dict[tuple[str, str], float] = {}  # acknowledgements of one subscription id come in order

    def run(self) -> Story:
        if self.draw.random() < 0.5:
            self.note(RecordKind.STATE, "", detail="ordering=causal")
        for _ in range(self.steps):
            self.advance(self.now + self.draw.expovariate(2.0))
            self.step()
        self.drain()
        return self.story

    def step(self) -> None:
        member = self.draw.choice(self.members)
        actions = [self.publish, self.subscribe, self.unsubscribe, self.move]
        action = self.draw.choices(actions, weights=[10, 5, 3, 1])[0]
        action(member)
        if self.draw.random() < 0.04:
            self.drain()

    # Time

    def after(self, delay: float, action: Callable[[], None]) -> float:
        self.serial += 1
        heapq.heappush(self.agenda, (self.now + delay, self.serial, action))
        return self.now + delay

    def advance(self, until: float) -> None:
        while self.agenda and self.agenda[0][0] <= until:
            self.now, _, action = heapq.heappop(self.agenda)
            action()
        self.now = until

    def drain(self) -> None:
        while self.agenda:
            self.advance(self.agenda[0][0])
        assert not any(member.queue for member in self.members)
        self.story.drains.append(self.note(RecordKind.DRAIN, ""))

    def note(self, kind: RecordKind, node: str, **columns: Any) -> int:
        self.recorder.add(kind, at=self.now, node=node, **columns)
        return len(self.recorder.records) - 1

    # Events

    def publish(self, member: Member) -> None:
        if self.draw.random() < 0.03:
            member.incarnation, member.sequence = member.incarnation + 1, 0
        member.sequence += 1
        attributes: dict[str, Any] = {"topic": f"t{self.draw.randrange(3)}"}
        if self.draw.random() < 0.8:
            attributes["price"] = self.draw.choice([self.draw.randrange(100), self.draw.uniform(0, 100)])
        event_id = f"{member.name}/{member.incarnation}/{member.sequence}"
        fate = self.draw.choices(["acknowledged", "silent", "failed", "vanished"], weights=[85, 5, 7, 3])[0]
        columns = {"event": event_id, "client": self.draw.choice([member.name, ""])}
        index = self.note(RecordKind.PUBLISH, member.name, attributes=attributes_text(attributes), **columns)
        event = Published(event_id, member.name, attributes, frozenset(member.past), index, fate)
        self.story.published.append(event)
        if fate == "failed":
            self.fail(member, event)
        else:
            member.past.add(event_id)
            self.travel(member, event)

    def fail(self, member: Member, event: Published) -> None:
        self.note(RecordKind.PUBLISH_FAIL, member.name, event=event.id, client=member.name)
        if self.draw.random() < 0.3:  # the id was not used up, the next event may have it
            member.sequence -= 1

    def travel(self, member: Member, event: Published) -> None:
        if event.fate == "vanished":
            return
        for target in self.members:
            target.queue.append(event)
            self.after(self.draw.expovariate(1.5), lambda target=target: self.arrive(target, event))
        if event.fate == "acknowledged":
            self.after(self.draw.expovariate(2.0), lambda: self.acknowledge_event(member, event))

    def acknowledge_event(self, member: Member, event: Published) -> None:
        event.acknowledged = self.note(RecordKind.PUBLISH_ACK, member.name, event=event.id, client=member.name)

    def arrive(self, target: Member, event: Published) -> None:
        if any(waiting.id in event.causes for waiting in target.queue):
            self.after(0.05, lambda: self.arrive(target, event))
            return
        target.queue.remove(event)
        wanting = [taken for taken in target.taken if taken.wants(event)]
        owed = next((t for t in wanting if t.ended is None and _acknowledged_before(t, event.index)), None)
        if owed is not None or (wanting and self.draw.random() < 0.5):
            self.deliver(target, event, owed)

    def deliver(self, target: Member, event: Published, owed: Taken | None) -> None:
        node = target.broker if self.at_brokers else target.name
        columns = {"event": event.id, "client": target.name, "attributes": attributes_text(event.attributes)}
        index = self.note(RecordKind.DELIVER, node, **columns)
        self.story.delivered.append(Delivered(index, target.name, event, owed))
        target.past |= {event.id, *event.causes}
        if target.answers and len(self.story.published) < 4 * self.steps and self.draw.random() < 0.3:
            self.publish(target)

    # Subscriptions

    def subscribe(self, member: Member) -> None:
        name = f"s{self.draw.randrange(3)}"
        if any(taken.name == name and taken.ended is None for taken in member.taken):
            return
        text, own = self.draw.choice(list(FILTERS)), self.draw.random() < 0.8
        detail = "" if own else "no-own"
        columns = {"client": member.name, "subscription": name}
        index = self.note(RecordKind.SUBSCRIBE, member.name, filter=text, detail=detail, **columns)
        taken = Taken(member.name, name, text, own, index)
        member.taken.append(taken)
        self.story.taken.append(taken)
        if self.draw.random() < 0.2:
            self.note(RecordKind.SUBSCRIBE_ACK, member.name, detail="local", **columns)
        if self.draw.random() < 0.93:
            self.in_turn(taken, lambda: self.acknowledge(taken))

    def in_turn(self, taken: Taken, action: Callable[[], None]) -> None:
        key = (taken.client, taken.name)
        earliest = max(self.due.get(key, 0.0) - self.now, 0.0)
        self.due[key] = self.after(earliest + self.draw.expovariate(2.0), action)

    def acknowledge(self, taken: Taken) -> None:
        columns = {"client": taken.client, "subscription": taken.name}
        taken.acknowledged = self.note(RecordKind.SUBSCRIBE_ACK, taken.client, **columns)

    def unsubscribe(self, member: Member) -> None:
        live = [taken for taken in member.taken if taken.ended is None]
        if not live:
            return
        taken = self.draw.choice(live)
        columns = {"client": member.name, "subscription": taken.name}
        taken.ended = self.note(RecordKind.UNSUBSCRIBE, member.name, **columns)
        if self.draw.random() < 0.93:
            self.in_turn(taken, lambda: self.finish(member, taken))

    def finish(self, member: Member, taken: Taken) -> None:
        self.note(RecordKind.UNSUBSCRIBE_ACK, member.name, client=member.name, subscription=taken.name)
        # Requests under one id are handled in order: whatever came before under it is over as well.
        earlier = [one for one in member.taken if one.name == taken.name and one.asked <= taken.asked]
        member.taken = [one for one in member.taken if one not in earlier]

    def move(self, member: Member) -> None:
        member.broker = f"b{self.draw.randrange(4)}"
        self.note(RecordKind.MOVE, member.name, client=member.name, peer=member.broker)


def _acknowledged_before(taken: Taken, index: int) -> bool:
    return taken.acknowledged is not None and taken.acknowledged < index


def clean_story(seed: int) -> Story:
    return TinyNetwork(seed).run()
