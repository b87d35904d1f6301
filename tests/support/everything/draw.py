"""The network of a seed: 4 to 7 brokers, 4 to 8 clients, 60 to 150 events, and what its features do to them.

Things happen in *bouts*, a few tenths of a second in which operations, faults, moves and changes of mind meet, and in
which most events are published: a fault that lasts for 50 ms must not fall between two events. After the last bout the
network comes to rest, and *probes* are published: for each subscription that there is by then, an event that matches.

Every client has a lane of its own, so that a routing entry that is lost is not hidden by another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

import msgspec

from pleach.core.events.language import parse_filter
from pleach.core.optimise.council_settings import CouncilSettings
from pleach.scenario.clients import derived_advertisements, draw_attributes
from pleach.scenario.model import (
    PerLink,
    PublishLoad,
    Reply,
    Scenario,
    ScenarioClient,
    Stabilise,
    Stabiliser,
    StandbyTable,
)
from pleach.scenario.stabilise_settings import period_min_of, stabilisation_of
from pleach.scenario.steps import (
    AddBroker,
    AdvertiseStep,
    Corrupt,
    Crash,
    Cut,
    Destroy,
    Drain,
    Exchange,
    Garble,
    Heal,
    MoveClient,
    Partition,
    PublishStep,
    RemoveBroker,
    Restart,
    Slow,
    Step,
    SubscribeStep,
    Swap,
    UnadvertiseStep,
    UnsubscribeStep,
)
from pleach.scenario.values import Choice, Span, Uniform
from support.contract.networks import PRICES, TOPICS, filters_of
from support.everything.case import Beside, Case, ComponentMove, HostedComponent
from support.everything.covering import drawn_features
from support.everything.features import EXCHANGE, STABILISERS, Feature, Features
from support.everything.valid import valid
from support.overlay.changing_trees import LATENCY_FASTEST, LATENCY_RATIO, WIDE, Sketch

BROKERS_MIN, BROKERS_MAX = 4, 7
CLIENTS_MIN, CLIENTS_MAX = 4, 8
FIRST_BOUT, AFTER_PROBES = 0.3, 0.1
MENDED = 1.1  # of the time to mend: operations may be under way for a while
LATENCY_SLOW = 0.060  # seconds: no link is slower, so that leases know the bound
DELAY_MAX = 1.0  # seconds: more than any way takes where nothing is cut or crashes
AMOUNT_MAX = 9
COMPONENT_AT = 0.05
SAYS = "EXISTS sums"
COMPONENTS = {"k0": "amount > 6", "k1": "amount = 3", "k2": "sums = 'k0'"}
DAMAGES = (Feature.DAMAGED_STATE, Feature.DAMAGED_MESSAGES, Feature.BACKUPS)
DAMAGED_PARTS = ("table", "flags", "clock", "clients", "waits", "all", "all")
OF_CLIENTS = ("clients", "all")
BUSY = 3.0  # as slow as the slowest link, times this, where brokers take time, too


@dataclass(frozen=True)
class Pace:
    """Seconds: how long a bout lasts, after how long the next one begins, and all is over after the begin of the last.

    `ratio`: of the slowest latency between brokers to the fastest. `slow`: no link is slower, whatever is done to it.
    `bouts`, `events`: at least and at most.
    """

    bout: float
    next: float
    rest: float
    ratio: float
    slow: float
    bouts: tuple[int, int]
    events: tuple[int, int]


PACE = Pace(bout=0.35, next=0.45, rest=0.85, ratio=LATENCY_RATIO, slow=LATENCY_SLOW, bouts=(2, 4), events=(60, 150))
# Machines that are lost are replaced before the next bout, as a rule. A silence is eight latencies at least.
WITH_STANDBYS = Pace(bout=0.45, next=1.4, rest=1.6, ratio=9.0, slow=0.02, bouts=(1, 3), events=(50, 90))
SILENCES = (0.2, 0.3, 0.5)  # seconds that count as death


def case_of(seed: int, *, standby: bool = False, copies: int = 0) -> Case:
    features = features_of(seed, standby=standby, copies=copies)
    return _Drawing(Random(f"{_stream(seed, standby)}/network"), features).case(seed)


def drawn_case(seed: int, stream: Random, features: Features) -> Case:
    """A case with just these features."""
    return _Drawing(stream, features).case(seed)


def features_of(seed: int, *, standby: bool = False, copies: int = 0) -> Features:
    return drawn_features(seed, Random(f"{_stream(seed, standby)}/features"), standby=standby, copies=copies)


def _stream(seed: int, standby: bool) -> str:
    return f"everything/standby/{seed}" if standby else f"everything/{seed}"


@dataclass
class _Drawing:
    stream: Random
    features: Features
    sketch: Sketch = field(init=False)
    bouts: list[float] = field(init=False)
    machines: tuple[str, ...] = ()  # without a broker
    pace: Pace = PACE
    leaving: frozenset[str] = frozenset()  # brokers that are told to leave

    def __post_init__(self) -> None:
        stream = self.stream
        most = BROKERS_MAX if self.features.copies == 1 else BROKERS_MAX - 1
        brokers = [f"b{i}" for i in range(stream.randint(BROKERS_MIN, most))]
        is_chain = stream.random() < 0.3
        links = [(brokers[i - 1 if is_chain else stream.randrange(i)], brokers[i]) for i in range(1, len(brokers))]
        self.sketch = Sketch(brokers, links, list(brokers))
        if self.features.copies > 1:
            self.pace = WITH_STANDBYS
            more = stream.randint(1, 2) if Feature.HOSTS in self.features else 0
            needed = 2 * self.features.copies - 1 - len(brokers)
            self.machines = tuple(f"m{i}" for i in range(max(more, needed)))
        self.bouts = [round(FIRST_BOUT + self.pace.next * i, 4) for i in range(stream.randint(*self.pace.bouts))]

    @property
    def over_at(self) -> float:
        """When all that happens is over."""
        return round(self.bouts[-1] + self.pace.rest, 4)

    def _rest_at(self, scenario: Scenario) -> float:
        """When probes are published: damage has been mended by then."""
        mended = MENDED * stabilisation_of(scenario) if self.features.any(*DAMAGES) else 0.0
        return round(self.over_at + mended, 4)

    def case(self, seed: int) -> Case:
        brokers, links = tuple(self.sketch.brokers), tuple(self.sketch.links)
        clients = self._clients(brokers)
        steps = [*self._tree_steps(), *self._moves(clients)]
        self.leaving = frozenset(step.broker for step in steps if isinstance(step, RemoveBroker))
        steps += [*self._losses(steps), *self._faults(brokers, links, clients), *self._drains()]
        for index, client in enumerate(clients):
            steps += [*self._unrest(client, index), *self._advertising(client, index)]
        scenario = Scenario(
            name=f"everything {seed}",
            routing=self.features.routing,
            merge_bound=self.features.merge_bound,
            ordering=self.features.ordering,
            hierarchical=Feature.HIERARCHICAL in self.features,
            advertisements=Feature.ADVERTISEMENTS in self.features,
            exchange=self._exchange(),
            root=self.stream.choice(brokers),
            links=links,
            brokers=brokers,
            duration=self.over_at + AFTER_PROBES,
            latency=PerLink(Span(LATENCY_FASTEST, LATENCY_FASTEST), self._latencies(clients)),
            service=self.stream.choice((0.0001, 0.0005)) if Feature.SERVICE in self.features else 0.0,
            improve=self._improve(),
            standby=self._standby(),
            clients=tuple(clients),
            steps=tuple(sorted(steps, key=lambda step: step.at)),
        )
        scenario = self._stabilised(scenario)
        rest_at = self._rest_at(scenario)
        scenario = valid(msgspec.structs.replace(scenario, duration=rest_at + AFTER_PROBES))
        scenario = with_probes(scenario, rest_at, Random(f"probes/{seed}"))
        return Case(seed=seed, scenario=scenario, beside=self._beside(scenario), features=self.features.names)

    def _during(self, bout: float) -> float:
        """A moment of a bout, rather early: operations last for a tenth of a second or so."""
        stream = self.stream
        return round(bout + stream.choice((0.0, 0.02, 0.1, 0.3, 1.0)) * self.pace.bout * stream.random(), 4)

    def _some_bouts(self) -> list[float]:
        return [bout for bout in self.bouts if self.stream.random() < 0.7] or self.bouts[:1]

    # Settings ------------------------------------------------------------------------------------------------

    def _exchange(self) -> str:
        return next(str(protocol) for protocol in EXCHANGE if protocol in self.features)

    def _improve(self) -> CouncilSettings | None:
        if Feature.IMPROVE not in self.features:
            return None
        return CouncilSettings(every=0.2, window=0.8, saving_min=0.02, degree_max=4, actions_per_minute_max=300)

    def _standby(self) -> StandbyTable | None:
        if self.features.copies == 1:
            return None
        after = self.stream.choice(SILENCES)
        return StandbyTable(copies=self.features.copies, after=after, machines=self.machines)

    def _stabilised(self, scenario: Scenario) -> Scenario:
        kind = next((Stabiliser(str(each)) for each in STABILISERS if each in self.features), None)
        if kind is None:
            return scenario
        slowest = LATENCY_SLOW * (BUSY if Feature.SERVICE in self.features else 1.0)
        endless = Stabilise(
            kind=kind,
            refresh=self.stream.choice((0.2, 0.4)),
            period=1e9,
            delay=Span(0.0, slowest),
            diameter=BROKERS_MAX + 3,
        )
        scenario = msgspec.structs.replace(scenario, stabilise=endless)
        tight = msgspec.structs.replace(endless, period=round(period_min_of(scenario) * 1.1, 4))
        return msgspec.structs.replace(scenario, stabilise=tight)

    def _latencies(self, clients: Sequence[ScenarioClient]) -> tuple[tuple[str, str, Span], ...]:
        """Of every two nodes that may come to be linked."""
        between = [(a, b, self._latency()) for a, b in combinations(self.sketch.named, 2)]
        attached = [(c.id, b, self._client_latency()) for c in clients for b in self.sketch.named]
        return (*between, *attached)

    def _latency(self) -> Span:
        ratio = self.pace.ratio
        low = LATENCY_FASTEST * self.stream.choice((1.0, ratio, ratio ** self.stream.random()))
        return Span(round(low, 5), round(low * self._spread(), 5))

    def _client_latency(self) -> Span:
        low = self.stream.uniform(0.0, 0.004)
        return Span(round(low, 5), round(low * self._spread(), 5))

    def _spread(self) -> float:
        return self.stream.choice((1.0, 1.5, 2.2)) if Feature.JITTER in self.features else 1.0

    # The tree ------------------------------------------------------------------------------------------------

    def _tree_steps(self) -> list[Step]:
        """Each kind of operation at least once, if there is room for it."""
        draws = [draw for feature, draw in self._operations() if feature in self.features]
        if not draws:
            return []
        steps: list[Step] = []
        due = self.stream.sample(draws, len(draws))
        for bout in self._some_bouts():
            gap = self.stream.choice((0.0, 0.01, 0.1))
            for number in range(max(self.stream.randint(1, 3), -(-len(due) // 2))):
                at = round(bout + number * gap * self.stream.random(), 4)
                draw = due.pop() if due else self.stream.choice(draws)
                step = draw(self.stream, at)
                steps += [step] if step else []
        return steps

    def _operations(self):
        sketch = self.sketch
        return (
            (Feature.SWAPS, sketch.swap),
            (Feature.EXCHANGES, self._exchange_step),
            (Feature.JOINS, sketch.add),
            (Feature.LEAVES, self._leave),
            (Feature.PLANS, self._uproot),
        )

    def _exchange_step(self, stream: Random, at: float) -> Exchange | None:
        step = self.sketch.exchange(stream, at)
        if step is None or not self.features.any(Feature.ADVANCED, Feature.AUTO) or stream.random() < 0.5:
            return step
        return msgspec.structs.replace(step, protocol=stream.choice(("advanced-coordinated", "auto", "swaplink")))

    @property
    def _brokers_min(self) -> int:
        """Views have as many members as they should."""
        return max(3, 2 * self.features.copies - 1 - len(self.machines))

    def _leave(self, stream: Random, at: float) -> RemoveBroker | None:
        """A leaf."""
        return self.sketch.remove(stream, at) if len(self.sketch.brokers) > self._brokers_min else None

    def _uproot(self, stream: Random, at: float) -> RemoveBroker | None:
        """A broker with several neighbours: a plan."""
        inner = [broker for broker in self.sketch.brokers if len(self.sketch.neighbours(broker)) > 1]
        if len(self.sketch.brokers) <= self._brokers_min or not inner:
            return None
        gone = stream.choice(inner)
        heir, *others = self.sketch.neighbours(gone)  # more or less: the plan's choice is not known here
        self.sketch.brokers.remove(gone)
        links = [link for link in self.sketch.links if gone not in link]
        self.sketch.links = [*links, *((heir, other) for other in others)]
        return RemoveBroker(at=at, broker=gone)

    # Faults --------------------------------------------------------------------------------------------------

    def _faults(
        self, brokers: Sequence[str], links: Sequence[tuple[str, str]], clients: Sequence[ScenarioClient]
    ) -> list[Step]:
        """Links of the beginning and of the end: which there are meanwhile is not known."""
        everyone = list(dict.fromkeys((*brokers, *self.sketch.named)))
        known = list(dict.fromkeys((*links, *self.sketch.links)))
        attached = [(client.id, client.broker) for client in clients]
        faults: list[Step] = []
        for bout in self.bouts:
            if self.features.any(Feature.CRASHES, Feature.BACKUPS):
                faults += self._crashes(bout, everyone)
            if self.features.any(Feature.DAMAGED_STATE, Feature.DAMAGED_MESSAGES):
                faults += self._damage(bout, everyone, [*known, *attached])
            if Feature.CUTS in self.features:
                faults += self._cuts(bout, [*known, *attached[: len(known)]])
            if Feature.PARTITIONS in self.features and (bout == self.bouts[0] or self.stream.random() < 0.5):
                faults.append(self._partition(bout, everyone, clients))
            if Feature.SLOW in self.features:
                faults += self._slow(bout, [*known, *attached])
        return faults

    def _crashes(self, bout: float, brokers: Sequence[str]) -> Iterator[Step]:
        for broker in self.stream.sample(brokers, self._some(bout)):
            at = self._during(bout)
            yield Crash(at=at, broker=broker)
            yield Restart(at=round(at + self._outage(), 4), broker=broker, state_from=self._backed_up(at))

    def _some(self, bout: float) -> int:
        """Up to two; what a feature stands for happens in the first bout for certain."""
        return self.stream.randint(1 if bout == self.bouts[0] else 0, 2)

    def _backed_up(self, at: float) -> float | None:
        """The time of the state that a broker is restarted with, if not the last one."""
        if Feature.BACKUPS not in self.features or (Feature.CRASHES in self.features and self.stream.random() < 0.5):
            return None
        return round(at * self.stream.random(), 4)

    def _damage(self, bout: float, brokers: Sequence[str], links: Sequence[tuple[str, str]]) -> Iterator[Step]:
        stream, share = self.stream, self.stream.choice((0.2, 0.5, 1.0))
        if Feature.DAMAGED_STATE in self.features:
            for broker in stream.sample(brokers, self._some(bout)):
                what = self._damaged(broker, stream.choice(DAMAGED_PARTS))
                yield Corrupt(at=self._during(bout), broker=broker, what=what, share=share)
        if Feature.DAMAGED_MESSAGES in self.features:
            for link in stream.sample(links, self._some(bout)):
                yield Garble(at=self._during(bout), link=link, share=share)

    def _damaged(self, broker: str, what: str) -> str:
        """Who leaves keeps its clients: it sends nobody elsewhere whom it has forgotten (docs/reference/matrix.md)."""
        return "table" if broker in self.leaving and what in OF_CLIENTS else what

    def _cuts(self, bout: float, links: Sequence[tuple[str, str]]) -> Iterator[Step]:
        for link in self.stream.sample(links, self._some(bout)):
            at = self._during(bout)
            yield Cut(at=at, link=link)
            yield Heal(at=round(at + self._outage(), 4), link=link)

    def _partition(self, bout: float, brokers: Sequence[str], clients: Sequence[ScenarioClient]) -> Partition:
        """Halves, or one alone, with the clients that began there or without; sometimes in one direction only."""
        stream, places = self.stream, [*brokers, *self.machines]
        count = stream.choice((1, 1, len(places) // 2))
        side = stream.sample(places, count)
        rest = [place for place in places if place not in side]
        if stream.random() < 0.5:
            side += [client.id for client in clients if client.broker in side]
        sides = [side] if stream.random() < 0.5 else stream.choice(([side, rest], [rest, side]))
        is_one_way = stream.random() < 0.3
        seconds = round(self._outage() * stream.choice((1.0, 1.0, 3.0)), 4)
        return Partition(at=self._during(bout), sides=tuple(map(tuple, sides)), seconds=seconds, one_way=is_one_way)

    def _losses(self, steps: Sequence[Step]) -> list[Step]:
        """Machines that are lost for good: mostly where something is under way, and at once or soon after it began."""
        if Feature.DESTROY not in self.features:
            return []
        at_once = 2 if Feature.TWO_AT_ONCE in self.features else 1
        losses: list[Step] = []
        for bout in self.bouts:
            concerned = [(step.at, name) for step in steps if bout <= step.at < bout + 0.2 for name in _named(step)]
            count = self.stream.choice((1, at_once, at_once)) if self.stream.random() < 0.85 else 0
            losses += [self._loss(bout, concerned) for _ in range(count)]
        return losses

    def _loss(self, bout: float, concerned: Sequence[tuple[float, str]]) -> Destroy:
        stream = self.stream
        if self.machines and stream.random() < 0.2:
            return Destroy(at=self._during(bout), machine=stream.choice(self.machines))
        if concerned and stream.random() < 0.7:
            begun, broker = stream.choice(concerned)
            return Destroy(at=round(begun + stream.choice((0.0, 0.01, 0.1)) * stream.random(), 4), broker=broker)
        return Destroy(at=self._during(bout), broker=stream.choice(self.sketch.named))

    def _slow(self, bout: float, links: Sequence[tuple[str, str]]) -> Iterator[Step]:
        for link in self.stream.sample(links, self._some(bout)):
            low = self.stream.choice((0.0, 0.2, 0.7)) * self.pace.slow
            high = low if Feature.JITTER not in self.features else self.stream.uniform(low, self.pace.slow)
            yield Slow(at=self._during(bout), link=link, latency=Span(round(low, 5), round(high, 5)))

    def _outage(self) -> float:
        return self.stream.choice((0.005, 0.05, 0.2, 0.4)) * self.stream.uniform(0.5, 1.0)

    def _drains(self) -> list[Step]:
        if Feature.DRAINS not in self.features:
            return []
        return [Drain(at=round(bout + self.pace.bout, 4)) for bout in self.bouts if self.stream.random() < 0.7]

    # Clients -------------------------------------------------------------------------------------------------

    def _clients(self, brokers: Sequence[str]) -> list[ScenarioClient]:
        count = self.stream.randint(CLIENTS_MIN, CLIENTS_MAX if self.features.copies == 1 else CLIENTS_MAX - 2)
        lanes = tuple(f"lane{i}" for i in range(count))
        publishers = self.stream.randint(1, 3)
        events = self.stream.randint(*self.pace.events) / publishers / len(self.bouts)
        gap = self.pace.bout / events
        return [
            self._client(i, self.stream.choice(brokers), lanes, gap if i < publishers else 0.0) for i in range(count)
        ]

    def _client(self, index: int, broker: str, lanes: tuple[str, ...], gap: float) -> ScenarioClient:
        """Those with a gap publish; the last one answers, and hears everything, where there are replies."""
        stream = self.stream
        wanted = self._filters(index, stream.randint(1, 2))
        answers = Feature.REPLIES in self.features and (index == len(lanes) - 1 or stream.random() < 0.2)
        if answers and stream.random() < 0.7:
            wanted = ["EXISTS lane", *wanted]
        if index == 0 and Feature.COMPONENTS in self.features:
            wanted = [*wanted, SAYS]
        client = ScenarioClient(
            id=f"c{index}",
            broker=broker,
            publish=tuple(self._load(lanes, gap, bout) for bout in self.bouts) if gap else (),
            reply=(self._reply(lanes),) if answers else (),
            subscribe=tuple(dict.fromkeys(wanted)),
            own_events=stream.random() < 0.9,
        )
        if Feature.ADVERTISEMENTS not in self.features:
            return client
        return msgspec.structs.replace(client, advertise=self._advertised(client, index))

    def _advertised(self, client: ScenarioClient, index: int) -> tuple[str, ...]:
        """The first one advertises all that it publishes, and does so to the end: probes come from there."""
        exact = derived_advertisements(client)
        if not index or not client.publish or client.reply:
            return exact
        return self.stream.choice((exact, ("EXISTS lane",), ("price <= 9", "price > 9"), ("price <= 9",)))

    def _load(self, lanes: tuple[str, ...], gap: float, bout: float) -> PublishLoad:
        attributes = {"topic": Choice(TOPICS), "price": Uniform(0, PRICES), "lane": Choice(lanes)}
        if Feature.COMPONENTS in self.features:
            attributes["amount"] = Uniform(0, AMOUNT_MAX)
        start = round(bout - 0.02 * self.stream.random(), 4)
        return PublishLoad(
            every=Span(round(gap * 0.2, 5), round(gap * 1.8, 5)),
            start=start,
            until=round(start + self.pace.bout, 4),
            attributes=dict(sorted(attributes.items())),
            payload_bytes=self.stream.choice((0, 0, 16)),
        )

    def _reply(self, lanes: tuple[str, ...]) -> Reply:
        """Answers have no price, so that answers are never answered."""
        return Reply(
            to="EXISTS price" if self.stream.random() < 0.5 else f"price <= {self.stream.randint(5, PRICES)}",
            attributes={"lane": Choice(lanes), "topic": "sport.re"},
            probability=0.4,
            delay=Span(0.0, self.stream.choice((0.0, 0.002, 0.02))),
        )

    def _filters(self, index: int, count: int) -> list[str]:
        is_shared = Feature.SHARED in self.features
        found = [self._own_filter(index) for _ in range(count)]
        if is_shared and self.stream.random() < 0.6:
            found += [self.stream.choice(WIDE)] if self.stream.random() < 0.4 else filters_of(self.stream, index, 1)
        return list(dict.fromkeys(found))

    def _own_filter(self, index: int) -> str:
        """All of the client's lane, or a part of it that the whole covers."""
        stream, lane = self.stream, f"lane = 'lane{index}'"
        low = stream.randint(0, PRICES - 4)
        return stream.choice(
            (
                lane,
                lane,
                f"{lane} AND price > {low}",
                f"{lane} AND price BETWEEN {low} AND {low + 8}",
                f"{lane} AND topic LIKE '%.ab'",
                f"{lane} AND topic = '{stream.choice(TOPICS)}'",
            )
        )

    def _unrest(self, client: ScenarioClient, index: int) -> list[Step]:
        if Feature.UNREST not in self.features:
            return []
        stream = self.stream
        moments = sorted(self._during(stream.choice(self.bouts)) for _ in range(stream.randint(0, 5)))
        active, known = list(client.subscribe), list(client.subscribe)
        steps: list[Step] = []
        for at in moments:
            if active and stream.random() < 0.5:
                gone = active.pop(stream.randrange(len(active)))
                steps.append(UnsubscribeStep(at=at, client=client.id, filter=gone))
                if stream.random() < 0.3:  # at once again
                    steps.append(SubscribeStep(at=at, client=client.id, filter=gone))
                    active.append(gone)
                continue
            wanted = stream.choice(known) if known and stream.random() < 0.4 else self._filters(index, 1)[-1]
            steps.append(SubscribeStep(at=at, client=client.id, filter=wanted))
            known.append(wanted)
            active += [] if wanted in active else [wanted]
        return steps

    def _advertising(self, client: ScenarioClient, index: int) -> Iterator[Step]:
        """Not by the first one, which publishes probes."""
        if Feature.CHANGING_ADVERTISEMENTS not in self.features or not index:
            return
        for text in client.advertise:
            if self.stream.random() < 0.4:
                at = self._during(self.stream.choice(self.bouts))
                yield UnadvertiseStep(at=at, client=client.id, filter=text)
                if self.stream.random() < 0.7:
                    again = round(at + self.stream.choice((0.0, 0.02, 0.3)), 4)
                    yield AdvertiseStep(at=again, client=client.id, filter=text)

    def _moves(self, clients: Sequence[ScenarioClient]) -> list[Step]:
        if not self.features.any(Feature.MOVES, Feature.MOVES_BOUNDED):
            return []
        steps: list[Step] = []
        for bout in self._some_bouts():
            chosen = self.stream.sample(clients, self.stream.randint(1, 3))
            for client in [*chosen, *(chosen[:1] if self.stream.random() < 0.2 else [])]:
                to = self.stream.choice(self.sketch.named)
                at = round(bout + self.stream.choice((0.0, 0.01, 0.1)) * self.stream.random(), 4)
                steps.append(MoveClient(at=at, client=client.id, to=to, delay_max=self._delay_max()))
        return steps

    def _delay_max(self) -> float:
        if Feature.MOVES_BOUNDED not in self.features:
            return 0.0
        return self.stream.choice((0.0, DELAY_MAX)) if Feature.MOVES in self.features else DELAY_MAX

    # Beside the scenario -------------------------------------------------------------------------------------

    def _beside(self, scenario: Scenario) -> Beside:
        components = self._components(scenario.brokers) if Feature.COMPONENTS in self.features else ()
        moves = self._component_moves(components) if components and Feature.COMPONENT_MOVES in self.features else ()
        beside = Beside(components=components, component_moves=moves)
        if Feature.RING not in self.features:
            return beside
        every = self.stream.choice((0.1, 0.2))
        return msgspec.structs.replace(beside, ring_every=every, ring_until=self.over_at)

    def _components(self, brokers: Sequence[str]) -> tuple[HostedComponent, ...]:
        """One only where state is damaged: two that get each other's sums would answer each other for ever."""
        hosted = [
            HostedComponent(id=name, broker=self.stream.choice(brokers), filter=wanted, at=COMPONENT_AT)
            for name, wanted in COMPONENTS.items()
        ]
        return tuple(hosted[:1] if Feature.DAMAGED_STATE in self.features else hosted)

    def _component_moves(self, components: Sequence[HostedComponent]) -> tuple[ComponentMove, ...]:
        return tuple(
            ComponentMove(
                component=self.stream.choice([each.id for each in components]),
                to=self.stream.choice(self.sketch.named),
                at=self._during(self.stream.choice(self.bouts)),
                delay_max=self._delay_max(),
            )
            for _ in range(self.stream.randint(1, 5))
        )


def _named(step: Step) -> list[str]:
    """The brokers that a step concerns."""
    match step:
        case Swap(brokers=brokers):
            return list(brokers)
        case Exchange(remove=removed, add=added):
            return [*removed, *added]
        case AddBroker(broker=broker, to=to):
            return [broker, to]
        case RemoveBroker(broker=broker):
            return [broker]
        case MoveClient(to=to):
            return [to]
        case _:
            return []


# Probes -----------------------------------------------------------------------------------------------------


DRAWS_MAX = 200  # for an event that matches


def with_probes(scenario: Scenario, at: float, stream: Random) -> Scenario:
    """All is quiet; then one event for each subscription that a client has, by somebody who may publish it."""
    publishers = [client for client in scenario.clients if client.publish and not _unadvertises(scenario, client.id)]
    probes: list[Step] = [Drain(at=at)]
    for client in scenario.clients:
        for wanted in final_filters(scenario, client):
            others = [each for each in publishers if each.id != client.id]
            probe = _probe(wanted, stream.choice(others or publishers), at, stream)
            probes += [probe] if probe else []
    return msgspec.structs.replace(scenario, steps=(*scenario.steps, *probes))


def final_filters(scenario: Scenario, client: ScenarioClient) -> list[str]:
    active = dict.fromkeys(client.subscribe)
    for step in scenario.steps:
        match step:
            case SubscribeStep(client=client.id, filter=text):
                active[text] = None
            case UnsubscribeStep(client=client.id, filter=text):
                active.pop(text, None)
    return list(active)


def _unadvertises(scenario: Scenario, client: str) -> bool:
    return any(isinstance(step, UnadvertiseStep) and step.client == client for step in scenario.steps)


def _probe(wanted: str, publisher: ScenarioClient, at: float, stream: Random) -> PublishStep | None:
    """None for a filter that matches nothing of what the client publishes, such as that of a component's events."""
    parsed = parse_filter(wanted)
    for _ in range(DRAWS_MAX):
        attributes = draw_attributes(publisher.publish[0].attributes, stream, 1)
        if parsed.matches(attributes):
            return PublishStep(at=at, client=publisher.id, attributes=attributes)
    return None
