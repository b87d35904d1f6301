"""Replay a schedule in the simulator, step by step.

Links keep what arrives, and nothing passes but what the schedule hands over: at virtual time k its k-th step
happens. Once it is at its end, what is still under way goes on in a fixed order until all is quiet; scripts stay where
they are, since a schedule may end in the middle of them. Machines, links and trace are those of every other run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pleach.core.effects import Concluded
from pleach.core.messages import OPERATOR, Node
from pleach.errors import LivenessError, ScheduleError
from pleach.scenario.machines import make_broker, tree_of
from pleach.scenario.model import Scenario
from pleach.scenario.planted_bugs import BrokerMachine, plant
from pleach.scenario.schedule import Act, Answer, FireTimer, HandOver, Move, Schedule, load_schedule
from pleach.scenario.script import Action, Crashes, Restarts, Script, ScriptedRequests, describe, script_of
from pleach.sim.run import SimResult, run_name
from pleach.sim.simulator import Simulator
from pleach.trace import NETWORK, Recorder, RecordKind

__all__ = ["load_schedule", "replay"]

SEED = 0  # nothing is drawn
HOPS_MAX = 1_000_000  # of the prologue, and of what is left at the end

Watch = Callable[[Mapping[Node, BrokerMachine]], None]


def replay(scenario: Scenario, schedule: Schedule, *, watch: Watch | None = None) -> SimResult:
    """Run the schedule; `watch` is called with the brokers once all is quiet.

    Raises ScheduleError for a schedule of another scenario, and for a step that is not possible when its turn comes.
    """
    if schedule.scenario != scenario.name:
        raise ScheduleError(f"the schedule is of scenario {schedule.scenario!r}, not {scenario.name!r}; give that file")
    return _Replay(script_of(scenario, schedule.options), schedule, watch).go()


class _Replay:
    def __init__(self, script: Script, schedule: Schedule, watch: Watch | None) -> None:
        self._script = script
        self._schedule = schedule
        self._watch = watch
        self._recorder = Recorder(run_name(script.scenario, SEED))
        self._sim = Simulator(script.scenario.name)
        self._brokers = {name: self._make_broker(name) for name in script.brokers}
        self._clients = script.clients()
        self._positions = dict.fromkeys(script.actions, 0)
        self._disks: dict[Node, bytes] = {}  # states of brokers that are down
        self._done: set[str] = set()  # operations

    def go(self) -> SimResult:
        self._recorder.add(
            RecordKind.STATE, at=0.0, node=NETWORK, detail=f"ordering={self._script.scenario.ordering.value}"
        )
        self._build()
        for name, action in self._script.prologue:
            self._sim.perform(name, self._clients[name].perform(action))
        self._settle()
        for number, step in enumerate(self._schedule.steps, start=1):
            self._sim.at(float(number), partial(self._take, number, step.move))
        self._sim.run()
        quiet = self._settle()
        if quiet:
            self._recorder.add(RecordKind.DRAIN, at=self._sim.now, node=NETWORK)
        if quiet and self._watch:
            self._watch(self._brokers)
        return SimResult(self._script.scenario, SEED, self._recorder.records, self._sim.hops, self._sim.now, quiet)

    def _build(self) -> None:
        for name, broker in self._brokers.items():
            self._sim.add(name, broker)
        for name, client in self._clients.items():
            self._sim.add(name, client)
        self._sim.on_link = self._sim.block  # its latency is none: messages wait until the schedule names them
        self._sim.holds_timers = True
        scenario = self._script.scenario
        for pair in (*scenario.links, *((c.id, c.broker) for c in scenario.clients)):
            self._sim.link(*pair)
        self._sim.on_observe = self._recorder.observe
        self._sim.on_send = self._recorder.sent
        self._sim.on_concluded = self._concluded

    def _make_broker(self, name: Node) -> BrokerMachine:
        scenario = self._script.scenario
        return plant(self._schedule.plant, make_broker(scenario, tree_of(scenario), name))

    # Steps ---------------------------------------------------------------------------------------------------

    def _take(self, number: int, move: Move) -> None:
        self._sim.drain()  # what was sent arrives at its receivers' doors
        match move:
            case HandOver(sender, receiver):
                self._hand_over(number, sender, receiver)
            case Act(actor):
                self._act(number, actor)
            case Answer(client):
                self._answer(number, client)
            case FireTimer(node, timer):
                self._ring(number, node, timer)
        if self._script.options.instant_clients:
            self._pass_all([link for link in self._script.links if self._clients.keys() & link])

    def _hand_over(self, number: int, sender: Node, receiver: Node) -> None:
        if not self._sim.has_link(sender, receiver):
            raise ScheduleError(f"step {number}: there is no link from {sender!r} to {receiver!r}")
        if receiver in self._disks:
            raise ScheduleError(f"step {number}: broker {receiver!r} is down and takes nothing in")
        if not self._pass_first(sender, receiver):
            raise ScheduleError(f"step {number}: nothing is under way from {sender!r} to {receiver!r}")

    def _pass_first(self, sender: Node, receiver: Node) -> bool:
        """Hand over the first message that waits on a link, if there is one."""
        between = self._sim.links_between(sender, receiver)
        if not between or not between[0].kept or receiver in self._disks:
            return False
        self._sim.hand_over(between[0], between[0].kept.pop(0))
        return True

    def _pass_all(self, links: Sequence[tuple[Node, Node]]) -> bool:
        """Always the first of the links that has a message, until none has; False if some waits for who is down."""
        for _ in range(HOPS_MAX):
            is_quiet = self._sim.drain()
            if not any(self._pass_first(*link) for link in links):
                return is_quiet
        raise LivenessError(f"not quiet after {HOPS_MAX:,} messages; a protocol may be looping")

    def _act(self, number: int, actor: Node) -> None:
        actions = self._script.actions.get(actor, ())
        position = self._positions.get(actor, 0)
        if position == len(actions):
            raise ScheduleError(f"step {number}: {actor!r} has nothing left to do after {len(actions)} actions")
        action = actions[position]
        if isinstance(action, ScriptedRequests) and (missing := sorted({*action.after} - self._done)):
            raise ScheduleError(f"step {number}: {actor!r} is asked only when operation {missing[0]} is done")
        self._positions[actor] = position + 1
        self._perform(actor, action)

    def _perform(self, actor: Node, action: Action) -> None:
        match action:
            case Crashes():
                self._fault(actor, action)
                self._disks[actor] = self._brokers[actor].capture()
                self._sim.crash(actor)
            case Restarts():
                self._fault(actor, action)
                fresh = self._make_broker(actor)
                fresh.restore(self._disks.pop(actor))
                self._brokers[actor] = fresh
                self._sim.restart(actor, fresh)
                self._sim.perform(actor, fresh.resume(now=self._sim.now))
            case ScriptedRequests(request):
                self._sim.perform(actor, self._brokers[actor].handle(OPERATOR, request, now=self._sim.now))
            case _:
                self._sim.perform(actor, self._clients[actor].perform(action))

    def _concluded(self, _at: float, _node: Node, end: Concluded) -> None:
        if not end.refusal:
            self._done.add(end.operation)

    def _answer(self, number: int, client: Node) -> None:
        if client not in self._clients or not self._clients[client].owed:
            raise ScheduleError(f"step {number}: {client!r} has nothing to answer")
        self._sim.perform(client, self._clients[client].answer())

    def _ring(self, number: int, node: Node, timer: str) -> None:
        if not self._sim.has_timer(node, timer):
            raise ScheduleError(f"step {number}: {node!r} has set no timer {timer!r}")
        self._sim.ring(node, timer)

    def _settle(self) -> bool:
        return self._pass_all(self._script.links)

    # The trace -----------------------------------------------------------------------------------------------

    def _fault(self, node: Node, action: Action) -> None:
        self._recorder.add(RecordKind.FAULT, at=self._sim.now, node=node, detail=describe(action))
