"""Every schedule of a tiny scenario, one by one, with nothing remembered: what the explorer is held against.

It shares the machines and the script with the explorer, and nothing else: no numbers for states, no merging, no pasts. Each path
carries its own records, written as they come.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from pleach.effects import Observe, Send
from pleach.scenario import Scenario
from pleach.scenario.assemble import make_brokers
from pleach.scenario.plants import plant
from pleach.scenario.script import Crashes, Restarts, script_of
from pleach.trace import Recorder, RecordKind, attributes_text, judge

SCHEDULES_MAX = 20_000


@dataclass
class Everything:
    """`verdicts`: what was wrong at quiet states, as sets of (rule, client, event); an empty one is a clean state."""

    schedules: int = 0
    lengths: set[int] = field(default_factory=set)
    verdicts: set[frozenset[tuple[str, str, str]]] = field(default_factory=set)
    shortest_violation: int | None = None


class _Path:
    """A configuration and the way to it."""

    def __init__(self, scenario: Scenario, planted: str) -> None:
        self.script = script_of(scenario)
        brokers = {name: plant(planted, broker) for name, broker in make_brokers(scenario).items()}
        self.machines = {**brokers, **self.script.clients()}
        self.queues = {link: [] for link in self.script.links}
        self.left = {actor: list(actions) for actor, actions in self.script.actions.items()}
        self.down = set()
        self.recorder = Recorder("r")
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
        self.recorder.add(
            RecordKind(seen.kind.value),
            at=float(self.clock),
            node=node,
            event=str(seen.event.id) if seen.event else seen.event_id,
            attributes=attributes_text(seen.event.attributes) if seen.event else "",
            subscription=seen.subscription,
            filter=seen.filter,
            detail=seen.detail,
        )

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
            after = deepcopy(self, {id(self.script): self.script})
            move(after, subject)
            yield after

    def complaints(self):
        records = [*self.recorder.records]
        recorder = Recorder("r")
        recorder.add(RecordKind.DRAIN, at=float(self.clock), node="")
        verdict = judge([*records, *recorder.records])
        assert verdict.usable, verdict.unusable
        return frozenset((v.rule.value, v.client, v.event) for v in verdict.violations)


def walk_everything(scenario: Scenario, planted: str = "") -> Everything:
    found = Everything()
    waiting = [_Path(scenario, planted)]
    while waiting:
        path = waiting.pop()
        if path.is_quiet:
            _judge(found, path)
        successors = list(path.successors())
        if not successors:
            found.schedules += 1
            found.lengths.add(path.length)
            assert found.schedules <= SCHEDULES_MAX, "too large to walk through"
        waiting += successors
    return found


def _judge(found, path):
    complaints = path.complaints()
    found.verdicts.add(complaints)
    if complaints and (found.shortest_violation is None or path.length < found.shortest_violation):
        found.shortest_violation = path.length
