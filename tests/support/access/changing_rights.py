"""Random networks in which rights change while the tree changes, clients move and brokers crash.

`judge_rights_together(seed)` takes the network of `travels(seed)` (support/mobility) and gives its brokers an access
file that changes at random moments. Each broker has a driver (`GuardedBroker`) that does what that of a process does:
it judges newcomers, clients that come from elsewhere, and all of them when the file has changed; what is withheld in
the batch in which it was queued is seen by nobody.

What must hold, besides all that holds of clients that move: no delivery is sent that the right in force at the sender
does not match, or with a hidden attribute; and no event is lost, doubled or reordered that all rights match which were
in force between the drains before and after it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import msgspec

from pleach.core.access.rights import EVERYTHING, FALSE, NOTHING, TRUE, Rights
from pleach.core.broker import Broker
from pleach.core.effects import Effect, Send, Withhold
from pleach.core.events.event import WITHHELD, Event, EventId
from pleach.core.events.filter import Filter
from pleach.core.events.language import parse_filter
from pleach.core.links.withholding import Withholding
from pleach.core.messages import OPERATOR, Deliver, Layer, Message, Node, Permit, Publish, Refused, decode, encode
from pleach.scenario.model import Scenario, Stabilise, Stabiliser
from pleach.scenario.planted_bugs import BrokerMachine
from pleach.scenario.stabilise_settings import period_min_of
from pleach.scenario.values import Choice, Span
from pleach.sim.run import ScenarioRun
from pleach.sim.simulator import Machine
from pleach.trace import Record, RecordKind, Rule, Violation
from support.long_runs.output import explained, replay_command
from support.mobility.moving_clients import WatchedMoves, travels
from support.overlay.changing_trees import Setting, setting_of, under
from support.overlay.judgement import QUIET_KINDS

GRADES = ("a", "b", "c", "d")
CHANGES_MIN, CHANGES_MAX = 3, 12
FLAWS_MAX = 5
LEASED_EVERY = 4  # seeds
REFRESH, DELAYS, DIAMETER_MAX = 0.25, Span(0.001, 0.06), 10
REDACTED = "its attributes are not those that were published"


# Rights -----------------------------------------------------------------------------------------------------------


def random_right(stream: Random) -> Filter:
    """Mostly of an attribute that no subscription names, so that subscriptions are narrowed rather than ended."""
    draw = stream.random()
    if draw < 0.15:
        return TRUE
    if draw < 0.22:
        return FALSE
    if draw < 0.32:
        return parse_filter(f"price <= {stream.randint(3, 18)} OR NOT EXISTS price")
    grades = ", ".join(f"'{grade}'" for grade in stream.sample(GRADES, stream.randint(1, 3)))
    return parse_filter(f"grade IN ({grades})" + stream.choice(("", " OR NOT EXISTS grade")))


def random_client_rights(stream: Random) -> Rights:
    publish = random_right(stream) if stream.random() < 0.2 else TRUE
    advertise = random_right(stream) if stream.random() < 0.2 else TRUE
    hidden = stream.choices(((), ("secret",), ("grade", "secret"), ("price",)), (70, 18, 8, 4))[0]
    return Rights(publish, random_right(stream), advertise, hidden, strict=stream.random() < 0.05)


def leased(scenario: Scenario) -> Scenario:
    """Entries are leased, and clients renew them."""
    endless = Stabilise(kind=Stabiliser.LEASES, refresh=REFRESH, period=1e9, delay=DELAYS, diameter=DIAMETER_MAX)
    scenario = msgspec.structs.replace(scenario, stabilise=endless)
    tight = msgspec.structs.replace(endless, period=period_min_of(scenario) * 1.2)
    return msgspec.structs.replace(scenario, stabilise=tight)


def graded(scenario: Scenario) -> Scenario:
    """Events have two attributes more, which rights name."""
    more = {"grade": Choice(GRADES), "secret": Choice(("x", "y"))}
    clients = tuple(
        msgspec.structs.replace(
            client,
            publish=tuple(
                msgspec.structs.replace(load, attributes={**load.attributes, **more}) for load in client.publish
            ),
        )
        for client in scenario.clients
    )
    return msgspec.structs.replace(scenario, clients=clients)


# Brokers with drivers ---------------------------------------------------------------------------------------------


@dataclass
class AccessFile:
    """What the file says of each client, and what brokers were told of it, when."""

    rights: dict[Node, Rights]
    told: dict[tuple[Node, Node], Rights] = field(default_factory=dict)  # by broker and client
    history: dict[Node, list[tuple[float, Rights]]] = field(default_factory=dict)

    def permit(self, broker: Broker, client: Node, now: float) -> Sequence[Effect]:
        rights = self.rights[client]
        self.told[broker.name, client] = rights
        self.history.setdefault(client, []).append((now, rights))
        return broker.handle(OPERATOR, Permit(client, client, rights), now=now)

    def between(self, client: Node, start: float, end: float) -> list[Rights]:
        """The rights that were in force at some time between these two."""
        history = self.history.get(client, [])
        first = bisect_left([at for at, _ in history], start) - 1
        return [rights for at, rights in history[max(first, 0) :] if at <= end]


class GuardedBroker:
    def __init__(self, broker: Broker, file: AccessFile) -> None:
        self.broker = broker
        self._file = file

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        before = [*self.judge_all(now=now), *self._log_in(sender, now)]
        return _as_one_batch([*before, *self.broker.handle(sender, message, now=now), *self._judge_newcomers(now)])

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        before = self.judge_all(now=now)
        return _as_one_batch([*before, *self.broker.handle_timer(name, now=now), *self._judge_newcomers(now)])

    def judge_all(self, *, now: float) -> list[Effect]:
        """All clients whose rights are not those of the file: it has changed, or the broker was away."""
        sessions = self.broker.sessions
        effects: list[Effect] = []
        if not sessions.expected.is_guarded:
            effects += self.broker.handle(OPERATOR, Permit("", "", NOTHING), now=now)
        for client in sessions.clients:
            known = sessions.access_of(client)
            is_told = (self.broker.name, client) in self._file.told
            if known is None or not is_told or known.rights != self._file.rights[client]:
                effects += self._file.permit(self.broker, client, now)
        return effects

    def _log_in(self, sender: Node, now: float) -> Sequence[Effect]:
        is_new = sender in self._file.rights and sender not in self.broker.sessions
        return self._file.permit(self.broker, sender, now) if is_new else ()

    def _judge_newcomers(self, now: float) -> list[Effect]:
        unjudged = self.broker.sessions.unjudged
        return [effect for client in unjudged for effect in self._file.permit(self.broker, client, now)]


def _as_one_batch(effects: Sequence[Effect]) -> list[Effect]:
    """As an endpoint does it: what is withheld takes effect on what was queued before in the same batch."""
    done: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Withhold):
            done = [_withheld(each, effect) for each in done]
        else:
            done.append(effect)
    return done


def _withheld(effect: Effect, withhold: Withhold) -> Effect:
    if isinstance(effect, Send) and effect.to == withhold.client and isinstance(effect.message, Deliver):
        return Send(effect.to, decode(Withholding(withhold.rights)(encode(effect.message))))
    return effect


class GuardedRun(ScenarioRun):
    """A run with an access file that changes."""

    def __init__(self, scenario: Scenario, seed: int, kinds: frozenset[RecordKind], watch: Any) -> None:
        stream = Random(f"rights/{seed}")
        names = sorted(client.id for client in scenario.clients)
        self.file = AccessFile(
            {name: random_client_rights(stream) if stream.random() < 0.3 else EVERYTHING for name in names}
        )
        self.guarded: dict[Node, GuardedBroker] = {}
        self.events: dict[EventId, dict[str, Any]] = {}
        self.leaks: list[str] = []
        self.denied: set[tuple[Node, str]] = set()  # subscriptions of clients
        self.withheld = self.changes = 0
        super().__init__(scenario, seed, kinds, watch)
        self.sim.on_send = self._check
        until = max((step.at for step in scenario.steps), default=0.5) + 0.2
        for _ in range(stream.randint(CHANGES_MIN, CHANGES_MAX)):
            change = partial(self._change, stream.choice(names), random_client_rights(stream))
            self.sim.at(round(stream.uniform(0.05, until), 4), change)

    def wrapped(self, broker: BrokerMachine) -> Machine:
        assert isinstance(broker, Broker)
        self.guarded[broker.name] = GuardedBroker(broker, self.file)
        return self.guarded[broker.name]

    def _change(self, client: Node, rights: Rights) -> None:
        """The file is reloaded by all brokers that are up; the others read it when they start."""
        self.file.rights[client] = rights
        self.changes += 1
        for name in sorted(self.brokers):
            if not self.outages.is_down(name):
                self.sim.perform(name, _as_one_batch(self.guarded[name].judge_all(now=self.sim.now)))

    def _check(self, at: float, node: Node, to: Node, message: Message) -> None:
        match message:
            case Publish(event):
                self.events[event.id] = event.attributes
            case Refused(subject, layer=Layer.SUBSCRIPTIONS):
                self.denied.add((to, subject))
            case Deliver(event) if event == WITHHELD:
                self.withheld += 1
            case Deliver(event) if to in self.file.rights:
                self._check_delivery(at, node, to, event)

    def _check_delivery(self, at: float, broker: Node, client: Node, event: Event) -> None:
        rights, whole = self.file.told[broker, client], self.events[event.id]
        if not rights.subscribe.matches(whole):
            self.leaks.append(f"{at:g}: {broker} sends {client} {event.id} {whole}, beyond {rights.subscribe}")
        if {*event.attributes} & {*rights.hidden}:
            self.leaks.append(f"{at:g}: {broker} sends {client} {event.id} with {rights.hidden}: {event.attributes}")
        once_hidden = {name for _, each in self.file.history[client] for name in each.hidden}  # it may have waited
        if {*whole} - {*event.attributes} - once_hidden or not event.attributes.items() <= whole.items():
            self.leaks.append(f"{at:g}: {broker} sends {client} {event.id} as {event.attributes}, not as {whole}")


# What must hold ---------------------------------------------------------------------------------------------------


@dataclass
class RightsRunJudgement:
    seed: int
    setting: Setting
    flaws: list[str] = field(default_factory=list)
    changes: int = 0
    permits: int = 0
    published: int = 0
    deliveries: int = 0
    withheld: int = 0
    denied: int = 0  # losses that a right explains


class WatchedRights(WatchedMoves):
    def __init__(self, scenario: Scenario, seed: int) -> None:
        super().__init__(scenario, seed, QUIET_KINDS)
        self.run: GuardedRun = GuardedRun(scenario, seed, QUIET_KINDS, self._watch)
        self.denied = self.run.denied


def judge_rights_together(seed: int, setting: Setting | None = None) -> RightsRunJudgement:
    setting = setting or setting_of(seed)
    scenario = graded(under(travels(seed), setting))
    watched = WatchedRights(leased(scenario) if seed % LEASED_EVERY == 0 else scenario, seed)
    verdict = watched.finish()
    run = watched.run
    judgement = RightsRunJudgement(seed, setting, [*run.leaks[:FLAWS_MAX], *watched.flaws])
    if verdict.unusable:
        judgement.flaws.append(f"unusable: {verdict.unusable}")
    excuses = Excuses(run)
    unexplained = [each for each in verdict.violations if not excuses.explain(each)]
    judgement.flaws += [str(each) for each in unexplained[:FLAWS_MAX]]
    judgement.denied = len(verdict.violations) - len(unexplained)
    judgement.changes, judgement.withheld = run.changes, run.withheld
    judgement.permits = sum(map(len, run.file.history.values()))
    judgement.published, judgement.deliveries = verdict.counts.published, verdict.counts.deliveries
    return judgement


class Excuses:
    """Which losses rights explain: the oracle knows nothing of them."""

    def __init__(self, run: GuardedRun) -> None:
        records = run.recorder.records
        self._run = run
        self._drains = [record.at for record in records if record.kind == RecordKind.DRAIN]
        self._ended = _ended(records)

    def explain(self, violation: Violation) -> bool:
        if violation.rule is Rule.SPURIOUS and violation.reason == REDACTED:
            return True  # each delivery was compared with its publication when it was sent
        if violation.rule is not Rule.LOST:
            return False
        attributes = self._run.events[EventId.parse(violation.event)]
        place = bisect_right(self._drains, violation.at)
        start, end = ([0.0, *self._drains][place], [*self._drains, float("inf")][place])
        in_force = self._run.file.between(violation.client, start, end)
        if not all(rights.subscribe.matches(attributes) for rights in in_force):
            return True
        if self._is_uncertain(violation.client, in_force, end):
            return True
        ended = self._ended.get(violation.client, [])
        return any(at <= end and wanted.matches(attributes) for at, wanted in ended)

    def _is_uncertain(self, client: Node, in_force: Sequence[Rights], end: float) -> bool:
        """Whether a new right names what was hidden before: events that waited without it were withheld (R16)."""
        hidden = {name for at, each in self._run.file.history[client] if at <= end for name in each.hidden}
        named = {name for each in in_force for part in each.subscribe.conjunctions for name in part.constraints}
        return len({*in_force}) > 1 and bool(hidden & named)


def _ended(records: Sequence[Record]) -> dict[Node, list[tuple[float, Filter]]]:
    """Subscriptions that a client was refused, or that ended with a right."""
    wanted = {
        (record.who, record.subscription): parse_filter(record.filter)
        for record in records
        if record.kind == RecordKind.SUBSCRIBE
    }
    ended: dict[Node, list[tuple[float, Filter]]] = {}
    for record in records:
        key = (record.who, record.subscription)
        if record.kind == RecordKind.STATE and record.detail.startswith("refused: ") and key in wanted:
            ended.setdefault(record.who, []).append((record.at, wanted[key]))
    return ended


def replay(judgement: RightsRunJudgement) -> str:
    seed, setting = judgement.seed, judgement.setting
    return explained(replay_command("rights-together", seed), judgement.flaws, where=setting.name)
