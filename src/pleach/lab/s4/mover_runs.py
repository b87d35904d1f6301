"""Clients that move, pause, and move again, in the simulator: how long each movement takes, and what it costs.

As in S4 a slow protocol gets fewer movements done, for who moves does not begin the next one meanwhile. The beginning
is left out, and movements that began in time are waited for to the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random

from pleach.core.effects import Concluded
from pleach.core.messages import Message, Node
from pleach.core.mobility.resettling import MoveProtocol
from pleach.lab.experiment import Case, Sample
from pleach.lab.s4.movers import (
    PAUSE_SECONDS,
    SETTLE_SECONDS,
    CoveringWorkload,
    Movers,
    movers_scenario,
    order,
    route_of,
)
from pleach.scenario.steps import MoveClient
from pleach.sim.run import ScenarioRun

BEGIN = SETTLE_SECONDS + PAUSE_SECONDS  # by then all have begun to move
LATENCY, MESSAGES, MOVES, REFUSED = "latency", "messages per move", "moves per second", "refused"


def measure(case: Case, seed: int) -> Iterator[Sample]:
    """Seconds of each movement; messages per movement; movements per second."""
    yield from Course(setting_of(case), seed, float(case["seconds"])).samples()


def setting_of(case: Case) -> Movers:
    return Movers(
        CoveringWorkload(str(case["workload"])),
        MoveProtocol(str(case["protocol"])),
        clients=int(case["clients"]),
        family=int(case["family"]),
        moving=int(case["moving"]),
        brokers=int(case["brokers"]),
        is_far=bool(case["is_far"]),
        scan_us=float(case["scan_us"]),
    )


class Course:
    """One run. `seconds`: how long it is looked at."""

    def __init__(self, setting: Movers, seed: int, seconds: float) -> None:
        self._setting = setting
        self._end = BEGIN + seconds
        self._seconds = seconds
        self._run = ScenarioRun(movers_scenario(setting, seed, self._end), seed, kinds=frozenset())
        assert self._run.sim.on_concluded
        self._go_on = self._run.sim.on_concluded
        self._run.sim.on_concluded = self._concluded
        self._run.sim.on_send = self._sent
        self._began: dict[Node, float] = {}
        self._latencies: list[float] = []
        self._count: Counter[str] = Counter()
        draw = Random(f"start/{seed}")
        for client in order(setting, seed)[: setting.moving]:
            self._run.sim.at(SETTLE_SECONDS + PAUSE_SECONDS * draw.random(), partial(self._start, client))

    def samples(self) -> Iterator[Sample]:
        self._run.sim.run()
        for seconds in self._latencies:
            yield Sample(LATENCY, seconds)
        yield Sample(MESSAGES, self._count[MESSAGES] / max(1, len(self._latencies)))
        yield Sample(MOVES, self._count[MOVES] / self._seconds)
        yield Sample(REFUSED, self._count[REFUSED])

    def _start(self, client: Node) -> None:
        run = self._run
        if run.sim.now >= self._end:
            return
        here, there = route_of(client)
        to = there if run.clients[client].broker == here else here
        self._began[client] = run.sim.now
        step = MoveClient(at=run.sim.now, client=client, to=to, protocol=self._setting.protocol)
        run.operations.move(step, run.clients[client])

    def _concluded(self, at: float, node: Node, end: Concluded) -> None:
        step = next(each.step for each in self._run.operations.under_way if each.name == end.operation)
        assert isinstance(step, MoveClient)
        began = self._began.pop(step.client)
        if end.refusal:
            self._count[REFUSED] += 1
        elif began >= BEGIN:
            self._latencies.append(at - began)
        self._count[MOVES] += BEGIN <= at < self._end
        self._run.sim.at(at + PAUSE_SECONDS, partial(self._start, step.client))
        self._go_on(at, node, end)

    def _sent(self, at: float, sender: Node, receiver: Node, _message: Message) -> None:
        """Between brokers, as S4 counts."""
        brokers = self._run.brokers
        self._count[MESSAGES] += at >= BEGIN and sender in brokers and receiver in brokers
