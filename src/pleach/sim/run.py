"""Run a scenario in virtual time and write down what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Concluded, Observe, Observed
from pleach.core.events.event import Event
from pleach.core.events.language import parse_filter
from pleach.core.messages import Message, Node
from pleach.core.overlay.coloured.broker import ColouredBroker
from pleach.scenario import model, steps
from pleach.scenario.advertisements import initial_advertisements, subscription_names
from pleach.scenario.client_load import PlannedEvent, Replies, publications
from pleach.scenario.client_steps import perform_client_step
from pleach.scenario.coloured_settings import is_coloured
from pleach.scenario.machines import make_clients, make_machine, make_machines, tree_of
from pleach.scenario.planted_bugs import BrokerMachine
from pleach.scenario.stabilise_settings import fault_detail
from pleach.sim.council import SimCouncils
from pleach.sim.faults import SimStateFaults
from pleach.sim.healing import Healing
from pleach.sim.links import SimLink
from pleach.sim.operations import OperationContext, SimOperations
from pleach.sim.service_time import service_of
from pleach.sim.simulator import Machine, Simulator
from pleach.trace import NETWORK, Record, Recorder, RecordKind

PROGRESS_TICKS = 100
LINGER_PERIODS_MAX = 12
LOSES_ALL = 2.0  # above any draw


@dataclass(frozen=True)
class Refusal:
    """A step that the network did not carry out, and why."""

    at: float
    step: str
    reason: str


@dataclass(frozen=True)
class SimResult:
    scenario: model.Scenario
    seed: int
    records: list[Record]
    hops: int
    ended_at: float
    quiet: bool  # whether the run ended with a drain
    refusals: tuple[Refusal, ...] = ()


def run_scenario(
    scenario: model.Scenario,
    seed: int,
    *,
    kinds: frozenset[RecordKind] | None = None,
    watch: Callable[[dict[Node, BrokerMachine]], None] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> SimResult:
    """Run to the end: all of the timeline, then until all is quiet.

    `kinds`: what to record (None: everything). `watch` is called with the brokers at every drain, `on_progress` with
    the virtual time a hundred times on the way.
    """
    run = ScenarioRun(scenario, seed, kinds, watch)
    if on_progress:
        run.report_to(on_progress)
    return run.finish()


@dataclass
class ScenarioRun:
    """A run that can be stopped on the way: `advance` to some time, look around, `finish`."""

    scenario: model.Scenario
    seed: int
    kinds: frozenset[RecordKind] | None = None
    watch: Callable[[dict[Node, BrokerMachine]], None] | None = None
    refusals: list[Refusal] = field(default_factory=list)
    disks: dict[Node, bytes] = field(default_factory=dict)  # states of brokers that are down
    buried: dict[Node, None] = field(default_factory=dict)  # those of them that will not come back

    def __post_init__(self) -> None:
        self.stream = f"{self.scenario.name}/{self.seed}"
        self.recorder = Recorder(run_name(self.scenario, self.seed), kinds=self.kinds)
        self.sim = Simulator(self.stream)
        self.brokers: dict[Node, BrokerMachine] = make_machines(self.scenario)
        self.clients: dict[Node, ClientMachine] = make_clients(self.scenario)
        self.replies = {c.id: Replies(c, self.stream) for c in self.scenario.clients if c.reply}
        self.subscriptions = {c.id: subscription_names(self.scenario, c) for c in self.scenario.clients}
        self.operations = SimOperations(self._surroundings())
        self.faults = SimStateFaults(self)
        self.healing = Healing(self, self.scenario.heal) if self.scenario.heal else None
        self.councils = SimCouncils(self.sim, self.scenario) if self.scenario.improve else None
        self._backups: dict[tuple[Node, float], bytes] = {}
        self._latencies = self.scenario.latency.by_link()
        self._losses = self.scenario.loss.by_link()

        self.record(RecordKind.STATE, NETWORK, detail=f"ordering={self.scenario.ordering.value}")
        self._build()
        self._plan()

    def advance(self, until: float) -> None:
        self.sim.run(until)

    def finish(self) -> SimResult:
        self.sim.run()
        self._linger()
        quiet = self._drain()
        for operation in self.operations.under_way:
            self.refuse(operation.step, "it has not come to an end")
        return SimResult(
            self.scenario,
            self.seed,
            self.recorder.records,
            self.sim.hops,
            self.sim.now,
            quiet,
            tuple(self.refusals),
        )

    @property
    def _is_holding(self) -> bool:
        """Whether events wait for a recolouring."""
        return any(isinstance(broker, ColouredBroker) and broker.held_count for broker in self.brokers.values())

    def _linger(self) -> None:
        """In a coloured network what is under way may wait for a recolouring, and that for its time."""
        for _ in range(LINGER_PERIODS_MAX if is_coloured(self.scenario) else 0):
            if not self._is_holding and not self.operations.under_way:
                return
            assert self.scenario.stabilise
            self.sim.run(self.sim.now + self.scenario.stabilise.period)

    def report_to(self, on_progress: Callable[[float], None]) -> None:
        for tick in range(PROGRESS_TICKS):
            time = self.scenario.duration * tick / PROGRESS_TICKS
            self.sim.at(time, partial(on_progress, time))

    # Before the start ----------------------------------------------------------------------------------------

    def _build(self) -> None:
        for name, broker in self.brokers.items():
            self.sim.add(name, self._seated(broker), service=service_of(self.scenario, name, self.brokers))
        for name, client in self.clients.items():
            self.sim.add(name, self.healing.attentive(client) if self.healing else client)
        self.sim.on_link = self._furnish
        self.sim.on_concluded = self._concluded
        for a, b in (*self.scenario.links, *((c.id, c.broker) for c in self.scenario.clients)):
            self.sim.link(a, b)
        if self.replies or self.kinds != frozenset():
            self.sim.on_observe = self._observe
        if self.healing:
            self.sim.on_send = self._sent
        elif self.recorder.wants(RecordKind.SEND):
            self.sim.on_send = self.recorder.sent
        for name, broker in self.brokers.items():
            self.sim.perform(name, broker.resume(now=0.0))

    def _seated(self, broker: BrokerMachine) -> Machine:
        if not isinstance(broker, Broker):
            return broker
        seats = self.healing or self.councils
        return seats.seated(broker) if seats else broker

    def _furnish(self, link: SimLink) -> None:
        """The latency and the loss that the scenario gives to a link, of the beginning or a later one."""
        ends = (link.sender, link.receiver)
        latency = self._latencies.get(ends, self.scenario.latency.default)
        link.set_latency((latency.low, latency.high))
        link.loss = LOSES_ALL if link.receiver in self.buried else self._losses.get(ends, self.scenario.loss.default)

    def _surroundings(self) -> OperationContext:
        return OperationContext(
            self.sim,
            self.brokers,
            make_broker=partial(make_machine, self.scenario, tree_of(self.scenario)),
            seated=self._seated,
            is_down=self._is_down,
            scenario=self.scenario,
            refuse=self.refuse,
            note=lambda node, detail: self.record(RecordKind.STATE, node, detail=detail),
        )

    def _is_down(self, broker: Node) -> bool:
        return broker in self.disks or (self.healing is not None and self.healing.is_dead(broker))

    def _plan(self) -> None:
        for client in self.scenario.clients:
            self.sim.at(0.0, partial(self._introduce, client))
        for step in self.scenario.steps:
            if isinstance(step, steps.Restart) and step.state_from is not None:
                self.sim.at(step.state_from, partial(self._back_up, step.broker, step.state_from))
            self.sim.at(step.at, partial(self._take, step))
        if self.scenario.stabilise or self.scenario.improve:
            self.sim.at(self.scenario.duration, lambda: None)  # until then leases, or councils, are kept up
        for client in self.scenario.clients:
            for index in range(len(client.publish)):
                self._publish_next(client.id, publications(client, index, self.scenario.duration, self.stream))

    def _introduce(self, client: model.ScenarioClient) -> None:
        """Attach a client, with what it asks for from the beginning."""
        machine = self.clients[client.id]
        self.sim.perform(client.id, machine.attach())
        for text in initial_advertisements(self.scenario, client):
            self.advertise(client.id, text)
        for text in client.subscribe:
            self.subscribe(client.id, text)

    # Clients -------------------------------------------------------------------------------------------------

    def publish(self, client: Node, publication: PlannedEvent) -> None:
        self.sim.perform(client, self.clients[client].publish(publication.attributes, publication.payload))

    def _publish_next(self, client: Node, load: Iterator[PlannedEvent]) -> None:
        """Plan the next event of a load; publishing it plans the one after."""
        publication = next(load, None)
        if publication is not None:
            self.sim.at(publication.at, partial(self._publish_and_go_on, client, publication, load))

    def _publish_and_go_on(self, client: Node, publication: PlannedEvent, load: Iterator[PlannedEvent]) -> None:
        self.publish(client, publication)
        self._publish_next(client, load)

    def advertise(self, client: Node, text: str) -> None:
        advertised = parse_filter(text)
        self.sim.perform(client, self.clients[client].advertise(advertised.text, advertised))

    def subscribe(self, client: Node, text: str) -> None:
        wanted = parse_filter(text)
        self.sim.perform(client, self.clients[client].subscribe(self.subscriptions[client][wanted], wanted))

    def unsubscribe(self, client: Node, text: str) -> None:
        name = self.subscriptions[client][parse_filter(text)]
        self.sim.perform(client, self.clients[client].unsubscribe(name))

    def unadvertise(self, client: Node, text: str) -> None:
        self.sim.perform(client, self.clients[client].unadvertise(parse_filter(text).text))

    def _answer(self, client: Node, event: Event) -> None:
        if client not in self.replies or self.sim.now >= self.scenario.duration:
            return
        for publication in self.replies[client].to(event):
            self.sim.at(self.sim.now + publication.at, partial(self.publish, client, publication))

    # The timeline --------------------------------------------------------------------------------------------

    def _take(self, step: steps.Step) -> None:
        match step:
            case steps.Swap() | steps.Exchange() | steps.AddBroker() | steps.RemoveBroker():
                self.operations.start(step)
            case steps.Crash():
                self._take_crash(step)
            case steps.Restart():
                self._take_restart(step)
            case steps.Cut(link=link) | steps.Heal(link=link) | steps.Slow(link=link):
                self._change_link(step, link)
            case steps.Drain():
                self._drain()
            case steps.Corrupt() | steps.Garble():
                self.faults.strike(step)
            case steps.MoveClient(client=client):
                self.operations.move(step, self.clients[client])
            case _:
                perform_client_step(self, step, now=self.sim.now)

    def refuse(self, step: steps.Step, reason: str) -> None:
        name = type(step).__struct_config__.tag
        self.refusals.append(Refusal(self.sim.now, str(name), reason))
        self.record(RecordKind.STATE, NETWORK, detail=f"refused: {name}: {reason}")

    def _take_crash(self, step: steps.Crash) -> None:
        broker, healing = step.broker, self.healing
        if broker not in self.brokers:
            self.refuse(step, f"there is no broker {broker} any more")
        elif broker in self.disks or (healing and healing.is_dead(broker)):
            self.refuse(step, f"broker {broker} is down already")
        elif step.for_good and healing:
            healing.die(broker)
            self.operations.died(broker)
        else:
            self._crash(broker, for_good=step.for_good)

    def _take_restart(self, step: steps.Restart) -> None:
        broker, healing = step.broker, self.healing
        if broker in self.disks:
            self._restart(step)
        elif healing and healing.has_died(broker):
            self.refuse(step, f"broker {broker} is fenced: its stand-in has a newer epoch; join as a new broker")
        else:
            self.refuse(step, f"broker {broker} is not down")

    def _crash(self, broker: Node, *, for_good: bool = False) -> None:
        """The broker's memory is gone. Each step of it was committed, so its disk holds all."""
        self.record(RecordKind.FAULT, broker, detail=self.faults.outage("crash"))
        self.disks[broker] = self.brokers[broker].capture()
        if self.healing:
            self.healing.crashed(broker)
        self.sim.crash(broker)
        if for_good:
            self._bury(broker)

    def _bury(self, broker: Node) -> None:
        """It will not come back: nothing that is sent to it waits."""
        self.buried[broker] = None
        for node in (*self.brokers, *self.clients):
            for link in self.sim.links_between(node, broker)[:1]:
                self.sim.take_in_flight(link)
                link.loss = LOSES_ALL

    def _restart(self, step: steps.Restart) -> None:
        broker, disk = step.broker, self.disks.pop(step.broker)
        if step.state_from is None:
            self.record(RecordKind.FAULT, broker, detail=self.faults.outage("restart"))
        else:
            detail = fault_detail(self.scenario, f"restart state_from={step.state_from:g}")
            self.record(RecordKind.FAULT, broker, detail=detail)
            disk = self._backups[broker, step.state_from]
        fresh = make_machine(self.scenario, tree_of(self.scenario), broker)
        fresh.restore(disk)
        self.brokers[broker] = fresh
        self.sim.restart(broker, self._seated(fresh))
        self.sim.perform(broker, fresh.resume(now=self.sim.now))
        if self.healing:
            self.healing.restarted(broker)

    def _back_up(self, broker: Node, at: float) -> None:
        """What the disk has: of a broker that is down, what it had when it crashed."""
        self._backups[broker, at] = self.disks[broker] if broker in self.disks else self.brokers[broker].capture()

    def _concluded(self, _at: float, node: Node, end: Concluded) -> None:
        """Later: whatever an end gives rise to must not come between the effects that it stands among."""
        self.sim.soon(partial(self.operations.concluded, node, end))

    def _change_link(self, step: steps.Cut | steps.Heal | steps.Slow, ends: tuple[Node, Node]) -> None:
        if not self.sim.has_link(*ends):
            self.refuse(step, f"there is no link {ends[0]}-{ends[1]}")
            return
        detail = self.faults.outage(str(type(step).__struct_config__.tag))
        self.record(RecordKind.FAULT, NETWORK, peer="-".join(ends), detail=detail)
        match step:
            case steps.Cut():
                self.sim.cut(*ends)
            case steps.Heal():
                self.sim.heal(*ends)
            case steps.Slow(latency=latency):
                for link in self.sim.links_between(*ends):
                    link.set_latency((latency.low, latency.high))

    def _drain(self) -> bool:
        quiet = self.sim.drain() and not self.operations.under_way and not self._is_holding
        quiet = quiet and not (self.healing and self.healing.is_at_work)
        if quiet:
            self.record(RecordKind.DRAIN, NETWORK)
        if quiet and self.watch:
            self.watch(self.brokers)
        return quiet

    # The trace -----------------------------------------------------------------------------------------------

    def record(self, kind: RecordKind, node: Node, *, detail: str = "", peer: str = "") -> None:
        self.recorder.add(kind, at=self.sim.now, node=node, detail=detail, peer=peer)

    def _sent(self, at: float, node: Node, to: Node, message: Message) -> None:
        if self.recorder.wants(RecordKind.SEND):
            self.recorder.sent(at, node, to, message)
        if self.healing:
            self.healing.sent(node, to, message)

    def _observe(self, at: float, node: Node, seen: Observe) -> None:
        self.recorder.observe(at, node, seen)
        if self.replies and seen.kind is Observed.DELIVER and seen.event:
            self._answer(node, seen.event)


def run_name(scenario: model.Scenario, seed: int) -> str:
    """The name of a run: what identifies it among traces."""
    plain = "".join(c if c.isalnum() else "-" for c in scenario.name.lower())
    return f"{plain}-{seed}"
