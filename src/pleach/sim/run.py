"""A run of a scenario in virtual time: machines, links, timeline and trace put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from pleach.core.broker import Broker
from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Concluded, Observe, Observed
from pleach.core.events.event import Event
from pleach.core.events.language import parse_filter
from pleach.core.messages import OPERATOR, Node, OperatorRequest
from pleach.core.overlay.coloured.broker import ColouredBroker
from pleach.scenario import model, steps
from pleach.scenario.clients import (
    PlannedEvent,
    Replies,
    initial_advertisements,
    perform_client_step,
    publications,
    subscription_names,
)
from pleach.scenario.machines import OUTSIDE, make_clients, make_machine, make_machines
from pleach.scenario.planted_bugs import BrokerMachine
from pleach.scenario.stabilise_settings import is_coloured
from pleach.sim.council import SimCouncils
from pleach.sim.faults import SimStateFaults
from pleach.sim.operations import OperationContext, SimOperations
from pleach.sim.outages import SimOutages
from pleach.sim.service import service_of
from pleach.sim.simulator import Machine, Simulator
from pleach.sim.standby.outages import StandbyOutages
from pleach.sim.standby.simulator import StandbySimulator
from pleach.sim.standby.standbys import Standbys
from pleach.trace import NETWORK, Record, Recorder, RecordKind

PROGRESS_TICKS = 100
RECOLOURING_PERIODS_MAX = 12


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
    the virtual time a hundred times.
    """
    run = ScenarioRun(scenario, seed, kinds, watch)
    if on_progress:
        run.report_to(on_progress)
    return run.finish()


class ScenarioRun:
    """A run that can be stopped on the way: `advance` to some time, read its state, `finish`."""

    def __init__(
        self,
        scenario: model.Scenario,
        seed: int,
        kinds: frozenset[RecordKind] | None = None,
        watch: Callable[[dict[Node, BrokerMachine]], None] | None = None,
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.refusals: list[Refusal] = []
        self.recorder = Recorder(run_name(scenario, seed), kinds=kinds)
        self.sim = StandbySimulator(self.stream) if scenario.standby else Simulator(self.stream)
        self.brokers: dict[Node, BrokerMachine] = make_machines(scenario)
        self.clients: dict[Node, ClientMachine] = make_clients(scenario)
        self.standbys = Standbys(self, self.sim) if isinstance(self.sim, StandbySimulator) else None
        self.outages = StandbyOutages(self, self.standbys) if self.standbys else SimOutages(self)
        self.faults = SimStateFaults(self)
        self.operations = SimOperations(self._operation_context())
        self.councils = SimCouncils(self.sim, scenario) if scenario.improve else None
        self._watch = watch
        self._clients = SimClients(self.sim, scenario, self.stream, self.clients)

        self.record(RecordKind.STATE, NETWORK, detail=f"ordering={scenario.ordering.value}")
        self._build(is_observed=self._clients.has_replies or kinds != frozenset())
        self._plan()

    @property
    def stream(self) -> str:
        """The seed of every random stream of this run, each with a suffix of its own."""
        return f"{self.scenario.name}/{self.seed}"

    @property
    def disks(self) -> dict[Node, bytes]:
        """States of brokers that are down."""
        return self.outages.disks

    def advance(self, until: float) -> None:
        self.sim.run(until)

    def finish(self) -> SimResult:
        self.sim.run()
        self._wait_for_recolouring()
        quiet = self.drain()
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

    def _wait_for_recolouring(self) -> None:
        """In a coloured network operations and events may wait for a recolouring, which begins at its own time."""
        for _ in range(RECOLOURING_PERIODS_MAX if is_coloured(self.scenario) else 0):
            if not self._is_holding and not self.operations.under_way:
                return
            assert self.scenario.stabilise
            self.sim.run(self.sim.now + self.scenario.stabilise.period)

    def report_to(self, on_progress: Callable[[float], None]) -> None:
        for tick in range(PROGRESS_TICKS):
            time = self.scenario.duration * tick / PROGRESS_TICKS
            self.sim.at(time, partial(on_progress, time))

    # Before the start ----------------------------------------------------------------------------------------

    def _build(self, *, is_observed: bool) -> None:
        if self.standbys:
            self.standbys.build()
        else:
            for name, broker in self.brokers.items():
                self.sim.add(name, self.wrapped(broker), service=service_of(self.scenario, name, self.brokers))
        for name, client in self.clients.items():
            self.sim.add(name, client)
        self.sim.on_link = self.outages.configure
        self.sim.on_concluded = self._concluded
        for a, b in (*self.scenario.links, *((c.id, c.broker) for c in self.scenario.clients)):
            self.sim.link(a, b)
        if is_observed:
            self.sim.on_observe = self._observe
        if self.recorder.wants(RecordKind.SEND):
            self.sim.on_send = self.recorder.sent
        if self.standbys:
            self.standbys.begin()
        else:
            for name, broker in self.brokers.items():
                self.sim.perform(name, broker.resume(now=0.0))

    def wrapped(self, broker: BrokerMachine) -> Machine:
        """The broker, with its council if it has one."""
        return self.councils.wrapped(broker) if self.councils and isinstance(broker, Broker) else broker

    def _bring_in(self, name: Node) -> None:
        """Start a broker that joins later."""
        fresh = self.brokers[name] = make_machine(self.scenario, OUTSIDE, name)
        if self.standbys:
            self.standbys.found(name)
            return
        self.sim.add(name, self.wrapped(fresh), service=service_of(self.scenario, name, self.brokers))
        self.sim.perform(name, fresh.resume(now=self.sim.now))

    def _ask(self, broker: Node, request: OperatorRequest) -> None:
        self.sim.perform(broker, self.brokers[broker].handle(OPERATOR, request, now=self.sim.now))

    def _operation_context(self) -> OperationContext:
        return OperationContext(
            self.sim,
            self.brokers,
            bring_in=self._bring_in,
            ask=self.standbys.ask if self.standbys else self._ask,
            is_down=self.outages.is_down,
            scenario=self.scenario,
            refuse=self.refuse,
            note=lambda node, detail: self.record(RecordKind.STATE, node, detail=detail),
            begins=self.faults.begins,
            ends=self.faults.ends,
        )

    def _plan(self) -> None:
        for client in self.scenario.clients:
            self.sim.at(0.0, partial(self._clients.introduce, client))
        for step in self.scenario.steps:
            if isinstance(step, steps.Restart) and step.state_from is not None:
                self.sim.at(step.state_from, partial(self.outages.back_up, step.broker, step.state_from))
            self.sim.at(step.at, partial(self._take, step))
        if self.scenario.stabilise or self.scenario.improve:
            self.sim.at(self.scenario.duration, lambda: None)  # until then leases, or councils, are kept up
        self._clients.plan_loads(self.stream)

    # The timeline --------------------------------------------------------------------------------------------

    def _take(self, step: steps.Step) -> None:
        match step:
            case steps.Swap() | steps.Exchange() | steps.AddBroker() | steps.RemoveBroker():
                self.operations.start(step)
            case steps.Crash():
                self.outages.take_crash(step)
            case steps.Restart():
                self.outages.take_restart(step)
            case steps.Destroy():
                self.outages.take_destroy(step)
            case steps.Partition():
                self.outages.take_partition(step)
            case steps.Cut(link=link) | steps.Heal(link=link) | steps.Slow(link=link):
                self.outages.change_link(step, link)
            case steps.Drain():
                self.drain()
            case steps.Corrupt() | steps.Garble():
                self.faults.strike(step)
            case steps.MoveClient(client=client):
                self.operations.move(step, self.clients[client])
            case _:
                perform_client_step(self._clients, step, now=self.sim.now)

    def refuse(self, step: steps.Step, reason: str) -> None:
        name = type(step).__struct_config__.tag
        self.refusals.append(Refusal(self.sim.now, str(name), reason))
        self.record(RecordKind.STATE, NETWORK, detail=f"refused: {name}: {reason}")

    def _concluded(self, _at: float, node: Node, end: Concluded) -> None:
        """Deferred: the consequences of an end must not come between the effects among which it stands."""
        self.sim.soon(partial(self.operations.concluded, node, end))

    def drain(self) -> bool:
        """Run until all is quiet, and record that; False if it does not become so."""
        quiet = self.sim.drain() and not self.operations.under_way and not self._is_holding
        if quiet:
            self.record(RecordKind.DRAIN, NETWORK)
        if quiet and self._watch:
            self._watch(self.brokers)
        return quiet

    # The trace -----------------------------------------------------------------------------------------------

    def record(self, kind: RecordKind, node: Node, *, detail: str = "", peer: str = "") -> None:
        self.recorder.add(kind, at=self.sim.now, node=node, detail=detail, peer=peer)

    def _observe(self, at: float, node: Node, seen: Observe) -> None:
        self.recorder.observe(at, node, seen)
        if seen.kind is Observed.DELIVER and seen.event and self._clients.has_replies:
            self._clients.answer(node, seen.event)


def run_name(scenario: model.Scenario, seed: int) -> str:
    """The name of a run: what identifies it among traces."""
    plain = "".join(c if c.isalnum() else "-" for c in scenario.name.lower())
    return f"{plain}-{seed}"


class SimClients:
    def __init__(
        self, sim: Simulator, scenario: model.Scenario, stream: str, machines: dict[Node, ClientMachine]
    ) -> None:
        self._sim = sim
        self._scenario = scenario
        self._machines = machines
        self._replies = {c.id: Replies(c, stream) for c in scenario.clients if c.reply}
        self._subscriptions = {c.id: subscription_names(scenario, c) for c in scenario.clients}

    @property
    def has_replies(self) -> bool:
        return bool(self._replies)

    def plan_loads(self, stream: str) -> None:
        """Plan the first event of each load of each client."""
        for client in self._scenario.clients:
            for index in range(len(client.publish)):
                self._publish_next(client.id, publications(client, index, self._scenario.duration, stream))

    def introduce(self, client: model.ScenarioClient) -> None:
        """Attach a client, with its initial advertisements and subscriptions."""
        self._sim.perform(client.id, self._machines[client.id].attach())
        for text in initial_advertisements(self._scenario, client):
            self.advertise(client.id, text)
        for text in client.subscribe:
            self.subscribe(client.id, text)

    def publish(self, client: Node, publication: PlannedEvent) -> None:
        self._sim.perform(client, self._machines[client].publish(publication.attributes, publication.payload))

    def _publish_next(self, client: Node, load: Iterator[PlannedEvent]) -> None:
        """Plan the next event of a load; publishing it plans the one after."""
        publication = next(load, None)
        if publication is not None:
            self._sim.at(publication.at, partial(self._publish_and_go_on, client, publication, load))

    def _publish_and_go_on(self, client: Node, publication: PlannedEvent, load: Iterator[PlannedEvent]) -> None:
        self.publish(client, publication)
        self._publish_next(client, load)

    def advertise(self, client: Node, text: str) -> None:
        advertised = parse_filter(text)
        self._sim.perform(client, self._machines[client].advertise(advertised.text, advertised))

    def subscribe(self, client: Node, text: str) -> None:
        wanted = parse_filter(text)
        self._sim.perform(client, self._machines[client].subscribe(self._subscriptions[client][wanted], wanted))

    def unsubscribe(self, client: Node, text: str) -> None:
        name = self._subscriptions[client][parse_filter(text)]
        self._sim.perform(client, self._machines[client].unsubscribe(name))

    def unadvertise(self, client: Node, text: str) -> None:
        self._sim.perform(client, self._machines[client].unadvertise(parse_filter(text).text))

    def answer(self, client: Node, event: Event) -> None:
        """Plan the client's replies to an event that was delivered to it; there are none after the scenario's end."""
        if client not in self._replies or self._sim.now >= self._scenario.duration:
            return
        for publication in self._replies[client].to(event):
            self._sim.at(self._sim.now + publication.at, partial(self.publish, client, publication))
