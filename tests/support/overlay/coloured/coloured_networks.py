"""Random coloured networks, with reconfigurations or with damage, and everything that must hold of them.

Periods are 2% above what the bounds ask for, and every message takes as little or as much time as it may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import msgspec

from pleach.core.messages import ColourStage, Layer, Node
from pleach.core.overlay.coloured.bounds import ColouredConfig, period_min, stabilisation
from pleach.core.overlay.coloured.broker import ColouredBroker
from pleach.core.overlay.coloured.keeper import ColouredPhase
from pleach.core.overlay.coloured.trees import NOBODY, height
from pleach.scenario.coloured_settings import colouring_of
from pleach.scenario.machines import tree_of
from pleach.scenario.model import Ordering, Routing, Scenario, Stabilise, Stabiliser
from pleach.scenario.stabilise_settings import check_stabilising
from pleach.scenario.steps import AddBroker, Corrupt, Exchange, Garble, RemoveBroker, Step, Swap
from pleach.scenario.values import Span
from pleach.sim.links import SimLink
from pleach.sim.run import ScenarioRun
from pleach.trace import RecordKind, judge
from support.contract.networks import changes_of_mind, random_scenario
from support.long_runs.output import explained, replay_command

BROKERS_MAX = 7
TIGHT = 1.02  # the period, as a multiple of what it must exceed
FLAWS_SHOWN_MAX = 5
KINDS = frozenset(RecordKind) - {RecordKind.SEND}
SETTLED = 3.2  # periods after which what clients ask for at the start is confirmed
BURST, BURST_EVENTS = 0.015, 40  # seconds between its events
PARTS = ("colours", "pointers", "table", "clients", "clock", "duties", "all", "all")


@dataclass(frozen=True)
class Setting:
    routing: Routing
    ordering: Ordering

    @property
    def name(self) -> str:
        return f"{self.routing}/{self.ordering}"


SETTINGS = tuple(Setting(routing, ordering) for routing in Routing for ordering in Ordering)
BY_NAME = {setting.name: setting for setting in SETTINGS}


@dataclass
class Judgement:
    """What one run came to. `flaws` says in words what does not hold; empty means that all does."""

    seed: int
    setting: Setting
    is_damaged: bool
    flaws: list[str] = field(default_factory=list)
    faults: int = 0
    changes: int = 0  # reconfigurations carried out
    refusals: list[str] = field(default_factory=list)
    published: int = 0
    deliveries: int = 0
    set_aside: int = 0
    tolerated: int = 0  # what another ordering would not tolerate


# Networks ---------------------------------------------------------------------------------------------------


def network(seed: int, setting: Setting, *, group: int = 1) -> Scenario:
    """A tree, its latencies and clients, without a timeline. `group`: how many brokers can be root."""
    stream = Random(f"tinted/{seed}")
    plain = _small(seed)
    successors = [broker for broker in plain.brokers if broker != plain.root]
    stream.shuffle(successors)
    loose = msgspec.structs.replace(
        plain,
        name=f"tinted {seed}",
        routing=setting.routing,
        ordering=setting.ordering,
        hierarchical=stream.random() < 0.2,
        stabilise=Stabilise(
            kind=Stabiliser.COLOURED,
            refresh=stream.choice((0.1, 0.4, 0.8)),
            period=1e9,
            height=height(_parents(plain)) + stream.randint(0, 2),
            group=(plain.root, *successors[: group - 1]),
            degree=stream.choice((1, 2, 4)),
        ),
    )
    return with_period(loose, period_min(colouring_of(loose)) * TIGHT)


def _parents(scenario: Scenario) -> dict[Node, Node]:
    return {broker: parent or NOBODY for broker, parent in tree_of(scenario).parent.items()}


def with_period(scenario: Scenario, period: float) -> Scenario:
    return msgspec.structs.replace(scenario, stabilise=msgspec.structs.replace(scenario.stabilise, period=period))


def _small(seed: int) -> Scenario:
    for attempt in range(1000):
        found = random_scenario(1000 * seed + attempt)
        if 2 <= len(found.brokers) <= BROKERS_MAX:
            return msgspec.structs.replace(found, steps=())
    raise AssertionError("no small network found")


def timed(scenario: Scenario, stream: Random, steps: Sequence[Step], end: float, moods: Sequence[tuple]) -> Scenario:
    """With these steps, a load until the end, and clients that change their minds in the spans of `moods`."""
    steps = list(steps)
    for index, client in enumerate(scenario.clients):
        moments = sorted(stream.uniform(*span) for span in moods for _ in range(stream.randint(0, 2)))
        steps += changes_of_mind(stream, client, index, moments)
    clients = tuple(
        msgspec.structs.replace(
            client,
            publish=tuple(
                msgspec.structs.replace(load, until=end - 0.1, every=Span(0.02, end / 60)) for load in client.publish
            ),
        )
        for client in scenario.clients
    )
    ordered = tuple(sorted(steps, key=lambda step: step.at))
    done = msgspec.structs.replace(scenario, clients=clients, steps=ordered, duration=end)
    check_stabilising(done)
    return done


def reweaving(seed: int, setting: Setting) -> Scenario:
    """Reconfigurations under load: one after another, and several at once."""
    scenario = network(seed, setting)
    stream = Random(f"reweaving/{seed}")
    period = scenario.stabilise.period
    end = 13 * period
    count = stream.randint(1, 8)
    moments = sorted(stream.uniform(2 * period, 10 * period) for _ in range(count))
    if stream.random() < 0.5:
        moments = sorted(stream.choice(moments) for _ in moments)
    shape = Shape(stream, [list(link) for link in scenario.links], {scenario.root})
    calm = timed(scenario, stream, [shape.step(at) for at in moments], end, [(0.2, 11 * period)])
    return _with_bursts(calm, [period * (moment // period + 2) for moment in moments])


def _with_bursts(scenario: Scenario, times: Sequence[float]) -> Scenario:
    """Each publisher publishes quickly around the times at which changes come into effect: there order is at stake."""
    clients = [client for client in scenario.clients if client.publish]
    bursts = {
        client.id: msgspec.structs.replace(
            client.publish[0], start=times[i % len(times)] - 0.2, every=Span(BURST, BURST), count=BURST_EVENTS
        )
        for i, client in enumerate(clients)
    }
    loaded = tuple(
        msgspec.structs.replace(client, publish=(*client.publish, bursts[client.id])) if client.id in bursts else client
        for client in scenario.clients
    )
    return msgspec.structs.replace(scenario, clients=loaded)


class Shape:
    """A guess at the tree as it will be, so that most requests fit it. The guess need not be right."""

    def __init__(self, stream: Random, links: list[list[Node]], staying: set[Node]) -> None:
        self._stream = stream
        self._links = links
        self._staying = staying
        self._added = ""

    @property
    def _brokers(self) -> list[Node]:
        return sorted({broker for link in self._links for broker in link})

    def step(self, at: float) -> Step:
        removable = [b for b in self._brokers if b not in self._staying] if len(self._links) > 1 else []
        draw = self._stream.random()
        if draw < 0.15 and not self._added:
            self._added, to = "extra", self._stream.choice(self._brokers)
            self._links.append(["extra", to])
            return AddBroker(at=at, broker="extra", to=to)
        if draw < 0.3 and removable:
            return self._removal(at, self._stream.choice(removable))
        return self._exchange(at)

    def _removal(self, at: float, broker: Node) -> Step:
        """Its neighbours get links to one of them; to which, the network decides."""
        beside = [a if b == broker else b for a, b in self._links if broker in (a, b)]
        self._links = [link for link in self._links if broker not in link]
        self._links += [[beside[0], other] for other in beside[1:]]
        self._staying.add(broker)
        return RemoveBroker(at=at, broker=broker)

    def _exchange(self, at: float) -> Step:
        gone = self._stream.choice(self._links)
        rest = [link for link in self._links if link is not gone]
        left, right = _side(rest, gone[0]), _side(rest, gone[1])
        new = [self._stream.choice(sorted(left)), self._stream.choice(sorted(right))]
        self._links = [*rest, new]
        kept = set(new) & set(gone)
        if len(kept) == 1 and self._stream.random() < 0.5:
            (a,) = kept
            b, c = next(x for x in gone if x != a), next(x for x in new if x != a)
            if [b, c] in rest or [c, b] in rest:
                return Swap(at=at, brokers=(a, b, c))
        return Exchange(at=at, remove=tuple(gone), add=tuple(new))


def _side(links: list[list[Node]], start: Node) -> set[Node]:
    found = {start}
    while more := {b for link in links for b in link if set(link) & found} - found:
        found |= more
    return found


def struck(seed: int, setting: Setting) -> Scenario:
    """Any number of brokers damaged at once, in any part, and the messages under way on any link."""
    stream = Random(f"struck/{seed}")
    scenario = network(seed, setting, group=stream.randint(1, 3))
    period = scenario.stabilise.period
    fault_at = stream.uniform(SETTLED, SETTLED + 1) * period
    correct_at = fault_at + stabilisation(colouring_of(scenario))
    end = correct_at + 2 * period
    share = stream.choice((0.2, 0.5, 1.0))
    brokers = [b for b in scenario.brokers if stream.random() < stream.choice((0.3, 1.0))] or [scenario.root]
    faults: list[Step] = [
        Corrupt(at=fault_at, broker=b, what=stream.choice(PARTS), share=stream.choice((share, 1.0))) for b in brokers
    ]
    links = [*scenario.links, *((client.id, client.broker) for client in scenario.clients)]
    faults += [Garble(at=fault_at, link=link, share=share) for link in links if stream.random() < 0.5]
    return timed(scenario, stream, faults, end, [(0.2, fault_at), (fault_at, fault_at + 0.3), (correct_at, end)])


# Runs -------------------------------------------------------------------------------------------------------


def running(scenario: Scenario, seed: int) -> ScenarioRun:
    """Every message takes as little or as much time as it may, nothing in between, on new links too."""
    run = ScenarioRun(scenario, seed, KINDS)
    stream = Random(f"extremes/{seed}")
    push = _pusher(stream)
    former = run.sim.on_link

    def furnish(link: SimLink) -> None:
        former(link)
        push(link)

    run.sim.on_link = furnish
    for ends in (*scenario.links, *((client.id, client.broker) for client in scenario.clients)):
        for link in run.sim.links_between(*ends):
            push(link)
    return run


def _pusher(stream: Random) -> Callable[[SimLink], None]:
    def push(link: SimLink) -> None:
        link._draw = lambda: float(stream.random() < 0.5)

    return push


def judge_reweaving(seed: int, setting: Setting) -> Judgement:
    run = running(reweaving(seed, setting), seed)
    judgement = Judgement(seed, setting, is_damaged=False)
    _finish(run, judgement)
    seeking = [r for r in run.recorder.records if r.kind == RecordKind.STATE and r.detail == "coloured: seeking"]
    judgement.flaws += [f"{record.node} has lost the tree at {record.at:.3f}" for record in seeking[:FLAWS_SHOWN_MAX]]
    return judgement


def judge_damaged(seed: int, setting: Setting) -> Judgement:
    scenario = struck(seed, setting)
    run = running(scenario, seed)
    judgement = Judgement(seed, setting, is_damaged=True)
    fault_at = next(step.at for step in scenario.steps if isinstance(step, Corrupt))
    run.advance(fault_at + stabilisation(colouring_of(scenario)))
    judgement.flaws += flaws_of_tree(run)
    _finish(run, judgement)
    return judgement


def _finish(run: ScenarioRun, judgement: Judgement) -> None:
    result = run.finish()
    judgement.flaws += [*flaws_of_tree(run), *flaws_of_tables(run)][:FLAWS_SHOWN_MAX]
    verdict = judge(result.records)
    judgement.flaws += [str(violation) for violation in verdict.violations[:FLAWS_SHOWN_MAX]]
    judgement.flaws += [f"unusable: {verdict.unusable}"] if verdict.unusable else []
    judgement.flaws += [
        f"{name} waits for {sorted(client._state.asked)}"
        for name, client in run.clients.items()
        if client._state.asked and not _is_young(run, name)
    ]
    judgement.faults = sum(record.kind == RecordKind.FAULT for record in result.records)
    judgement.changes = sum(r.detail.startswith("operation") and r.detail.endswith("done") for r in result.records)
    judgement.refusals = [refusal.reason for refusal in result.refusals]
    judgement.published, judgement.deliveries = verdict.counts.published, verdict.counts.deliveries
    judgement.set_aside = verdict.counts.set_aside
    judgement.tolerated = len(verdict.tolerated)


def _is_young(run: ScenarioRun, client: Node) -> bool:
    """Whether the client has asked for something, or has got another broker, too late for a confirmation by now."""
    since = run.sim.now - SETTLED * run.scenario.stabilise.period - run.scenario.stabilise.refresh
    records = run.recorder.records
    asked = [r.at for r in records if r.kind == RecordKind.SUBSCRIBE and r.node == client]
    if run.clients[client].broker != run.scenario.client(client).broker:
        asked += [r.at for r in records if r.detail.startswith("operation") and r.detail.endswith("done")]
    return max(asked, default=0.0) > since


def members(run: ScenarioRun) -> dict[Node, ColouredBroker]:
    alive = {name: broker for name, broker in run.brokers.items() if name not in run.disks}
    return {name: broker for name, broker in alive.items() if broker.phase is not ColouredPhase.OUTSIDE}


def flaws_of_tree(run: ScenarioRun) -> list[str]:
    """S1 §4.5.3: pointers agree, and lead to the root, in the colours that are old and current at the root."""
    brokers = members(run)
    roots = [name for name, broker in brokers.items() if broker.phase is ColouredPhase.ROOT]
    if len(roots) != 1:
        return [f"there are {len(roots)} roots: {roots}"]
    lost = [f"{name} is {broker.phase}" for name, broker in brokers.items() if broker.phase is ColouredPhase.SEEKING]
    planes = brokers[roots[0]].planes
    return lost + [
        flaw
        for stage in (ColourStage.OLD, ColourStage.CURRENT)
        for flaw in _flaws_of_colour(brokers, planes.colour_of(stage))
    ]


def _flaws_of_colour(brokers: dict[Node, ColouredBroker], colour: int) -> list[str]:
    plane = {name: broker.planes._planes[colour] for name, broker in brokers.items()}
    flaws = []
    for name, here in sorted(plane.items()):
        if here.parent is not None and name not in getattr(plane.get(here.parent), "children", ()):
            flaws.append(f"{colour}: {here.parent} does not know its child {name}")
        way, at = [], name
        while at is not None and at not in way and at in plane:
            way.append(at)
            at = plane[at].parent
        if at is not None:
            flaws.append(f"{colour}: from {name} no way leads to the root, but {way}")
    tops = [name for name, here in plane.items() if here.parent is None]
    return flaws if len(tops) == 1 else [*flaws, f"{colour}: no parent: {tops}"]


def flaws_of_tables(run: ScenarioRun) -> list[str]:
    """Once all is quiet: what a broker has of a neighbour is what that one has told it, and the clients' own."""
    brokers = members(run)
    flaws = []
    for name, broker in sorted(brokers.items()):
        for stage in (ColourStage.OLD, ColourStage.CURRENT, ColourStage.NEW):
            plane = broker.planes.of(stage)
            for neighbour in plane.pointed_at:
                theirs = brokers[neighbour].planes.of(stage)
                is_linked = name in theirs.pointed_at and name in theirs.router.neighbours
                told = theirs.router.told(Layer.SUBSCRIPTIONS, name) if is_linked else "nobody"
                if frozenset(plane.router.received_from(Layer.SUBSCRIPTIONS, neighbour)) != told:
                    flaws.append(f"{name} has other entries of {neighbour} in {stage.name} than it was told")
            known = {*plane.router.neighbours, *run.clients}
            flaws += [f"{name} has entries of {s}" for s, _ in plane.router._subscriptions.entries() if s not in known]
    return flaws


def colouring(run: ScenarioRun) -> ColouredConfig:
    return colouring_of(run.scenario)


def replay(judgement: Judgement) -> str:
    options = ["--only", judgement.setting.name, *([] if judgement.is_damaged else ["--faultless"])]
    return explained(replay_command("coloured", judgement.seed, *options), judgement.flaws)


# Roots and links that fail ----------------------------------------------------------------------------------


def without_clients_at(scenario: Scenario, brokers: Sequence[Node]) -> Scenario:
    """Clients of these brokers are somewhere else: who is cut off with its broker gets nothing."""
    left = [broker for broker in scenario.brokers if broker not in brokers]
    clients = tuple(
        msgspec.structs.replace(client, broker=left[i % len(left)]) if client.broker in brokers else client
        for i, client in enumerate(scenario.clients)
    )
    return msgspec.structs.replace(scenario, clients=clients)


def failing(seed: int, setting: Setting, fault: Callable[[Scenario, float, float], Sequence[Step]]) -> Scenario:
    """`fault` makes the steps, of a scenario with a root group of three, from some time on and every Δ and a half."""
    scenario = network(seed, setting, group=3)
    scenario = without_clients_at(scenario, scenario.stabilise.group[:-1])
    scenario = with_period(scenario, period_min(colouring_of(scenario)) * TIGHT)
    stream = Random(f"failing/{seed}")
    first, every = 3.4 * scenario.stabilise.period, 1.5 * stabilisation(colouring_of(scenario))
    steps = list(fault(scenario, first, every))
    end = max(step.at for step in steps) + every
    return timed(scenario, stream, steps, end, [(0.2, first), (end - every / 3, end)])


def judge_failing(seed: int, setting: Setting, fault: Callable[[Scenario, float, float], Sequence[Step]]) -> Judgement:
    scenario = failing(seed, setting, fault)
    run = running(scenario, seed)
    judgement = Judgement(seed, setting, is_damaged=True)
    for at in dict.fromkeys(step.at for step in scenario.steps if not hasattr(step, "client")):
        run.advance(at + stabilisation(colouring(run)))
        judgement.flaws += [f"after {at:.3f}: {flaw}" for flaw in flaws_of_tree(run)]
    _finish(run, judgement)
    return judgement
