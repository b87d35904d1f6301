"""Every schedule of a tiny scenario, one by one, with nothing remembered: what the explorer is held against.

It shares the machines and the script with the explorer, and nothing else: no numbers for states, no merging, no
pasts. Machines are copied as Python objects, not captured and restored, and each path carries its own records.
"""

from __future__ import annotations

from collections import Counter
from copy import copy, deepcopy
from dataclasses import dataclass, field
from typing import TypeAlias

from pleach.core.effects import Observe, Send
from pleach.scenario import Scenario
from pleach.scenario.machines import make_broker, tree_of
from pleach.scenario.planted_bugs import plant
from pleach.scenario.script import Crashes, Restarts, script_of
from pleach.trace import Record, RecordKind, attributes_text, judge

SCHEDULES_MAX = 20_000


Complaints: TypeAlias = frozenset[tuple[str, str, str]]


@dataclass
class Everything:
    """What was wrong is a set of (rule, client, event); an empty one is a clean state."""

    schedules: Counter[Complaints] = field(default_factory=Counter)  # by what was wrong at their end
    quiet: set[Complaints] = field(default_factory=set)  # what was wrong at quiet states, also on the way
    lengths: set[int] = field(default_factory=set)
    shortest_violation: int | None = None


def complaints_of(verdict) -> Complaints:
    return frozenset((v.rule.value, v.client, v.event) for v in verdict.violations)


class _Path:
    """A configuration and the way to it."""

    def __init__(self, scenario: Scenario, planted: str) -> None:
        self.script = script_of(scenario)
        brokers = {n: plant(planted, make_broker(scenario, tree_of(scenario), n)) for n in scenario.brokers}
        self.machines = {**brokers, **self.script.clients()}
        self.queues = {link: [] for link in self.script.links}
        self.left = {actor: list(actions) for actor, actions in self.script.actions.items()}
        self.down = set()
        self.records = []
        self.clock = 0
        for name, action in self.script.prologue:
            self.carry_out(name, self.machines[name].perform(action))
        while not self.is_quiet:
            self.deliver(next(link for link, queue in self.queues.items() if queue))
        self.start = self.clock

    @property
    def length(self):
        return self.clock - self.start

    @property
    def is_quiet(self):
        return not any(self.queues.values())

    def carry_out(self, node, effects):
        for effect in effects:
            match effect:
                case Send(to, message):
                    self.queues[node, to].append(message)
                case Observe():
                    self.note(node, effect)

    def note(self, node, seen):
        self.record(
            seen.kind.value,
            node,
            event=str(seen.event.id) if seen.event else seen.event_id,
            attributes=attributes_text(seen.event.attributes) if seen.event else "",
            subscription=seen.subscription,
            filter=seen.filter,
            detail=seen.detail,
        )

    def record(self, kind, node, **columns):
        n = sum(record.node == node for record in self.records) + 1
        self.records.append(Record("r", float(self.clock), node, n, kind, **columns))

    def copy(self, touched):
        """Another path that shares what is never changed in place; of the machines only one will be touched."""
        other = copy(self)
        other.machines = {**self.machines, touched: deepcopy(self.machines[touched])}
        other.queues = {link: list(queue) for link, queue in self.queues.items()}
        other.left = {actor: list(actions) for actor, actions in self.left.items()}
        other.down = set(self.down)
        other.records = list(self.records)
        return other

    def deliver(self, link):
        self.clock += 1
        sender, receiver = link
        message = self.queues[link].pop(0)
        self.carry_out(receiver, self.machines[receiver].handle(sender, message, now=0.0))

    def act(self, actor):
        self.clock += 1
        match self.left[actor].pop(0):
            case Crashes():
                self.down.add(actor)
            case Restarts():
                self.down.remove(actor)
            case action:
                self.carry_out(actor, self.machines[actor].perform(action))

    def answer(self, client):
        self.clock += 1
        self.carry_out(client, self.machines[client].answer())

    def successors(self):
        moves = [
            *((_Path.deliver, link) for link, queue in self.queues.items() if queue and link[1] not in self.down),
            *((_Path.act, actor) for actor, left in self.left.items() if left),
            *((_Path.answer, name) for name, m in self.machines.items() if getattr(m, "owed", ())),
        ]
        for move, subject in moves:
            after = self.copy(subject[1] if move is _Path.deliver else subject)
            move(after, subject)
            yield after

    def complaints(self):
        drain = Record("r", float(self.clock), "", 1, RecordKind.DRAIN)
        verdict = judge([*self.records, drain])
        assert verdict.usable, verdict.unusable
        return complaints_of(verdict)


def walk_everything(scenario: Scenario, planted: str = "") -> Everything:
    found = Everything()
    waiting = [_Path(scenario, planted)]
    while waiting:
        path = waiting.pop()
        complaints = path.complaints() if path.is_quiet else frozenset()
        if path.is_quiet:
            found.quiet.add(complaints)
        if complaints and (found.shortest_violation is None or path.length < found.shortest_violation):
            found.shortest_violation = path.length
        successors = list(path.successors())
        if not successors:
            found.schedules[complaints] += 1
            found.lengths.add(path.length)
            assert found.schedules.total() <= SCHEDULES_MAX, "too large to walk through"
        waiting += successors
    return found
