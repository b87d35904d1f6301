"""A failing case cut down to less that still fails: delta debugging over its parts.

The parts are outages with their ends, other steps, clients, what is beside, and settings that can be put back to the
plainest. Parts are left out in halves, quarters, and so on down to single ones, over and over, until none can go. What
remains fails in the same way: with one of the kinds of fault that the case began with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import msgspec

from pleach.scenario.model import LATENCY_DEFAULT, Ordering, PerLink, Routing, Scenario
from pleach.scenario.steps import Crash, Cut, Heal, RemoveBroker, Restart, Step
from support.everything.case import Beside, Case
from support.everything.judgement import CaseJudgement, judge_case
from support.everything.valid import valid

RUNS_MAX = 3_000
Judges: TypeAlias = Callable[[Case], CaseJudgement]
COUNTS = (1, 2, 4, 8, 16)  # events of a load
TellsProgress: TypeAlias = Callable[[str], None]


def shrunk(case: Case, tell: TellsProgress = lambda _: None, judge: Judges = judge_case) -> Case:
    """The case as it is, if it does not fail."""
    wanted = frozenset(judge(case).faults)
    return _Shrinker(case, wanted, tell, judge).run() if wanted else case


class _Shrinker:
    def __init__(self, case: Case, wanted: frozenset[str], tell: TellsProgress, judge: Judges) -> None:
        self._case = case
        self._wanted = wanted
        self._tell = tell
        self._judge = judge
        self._runs = 0

    def run(self) -> Case:
        before = None
        while before != self._case and self._runs < RUNS_MAX:
            before = self._case
            for cut in (
                self._cut_steps,
                self._cut_clients,
                self._cut_beside,
                self._cut_loads,
                self._cut_events,
                self._cut_brokers,
                self._simplify,
            ):
                cut()
                self._tell(f"{self._runs} runs: {len(self._case.scenario.steps)} steps, {_size(self._case)}")
        return self._case

    def _fails(self, case: Case) -> bool:
        """In the same way. A case that raises on account of what was left out is none."""
        self._runs += 1
        try:
            found = self._judge(case).faults
        except Exception:  # noqa: BLE001
            return False
        return bool(self._wanted & found.keys())

    def _try(self, case: Case) -> bool:
        if case != self._case and self._runs < RUNS_MAX and self._fails(case):
            self._case = case
            return True
        return False

    def _reduce(self, count: Callable[[], int], without: Callable[[range], Case]) -> None:
        """Leave out ranges of parts, in ever smaller pieces."""
        size = max(1, count() // 2)
        while size:
            start = 0
            while start < count():
                if not self._try(without(range(start, min(start + size, count())))):
                    start += size
            size //= 2

    # Parts ---------------------------------------------------------------------------------------------------

    def _cut_steps(self) -> None:
        def without(gone: range) -> Case:
            units = units_of(self._case.scenario.steps)
            left = [step for i, unit in enumerate(units) if i not in gone for step in unit]
            return self._with(steps=tuple(left))

        self._reduce(lambda: len(units_of(self._case.scenario.steps)), without)

    def _cut_clients(self) -> None:
        def without(gone: range) -> Case:
            left = tuple(c for i, c in enumerate(self._case.scenario.clients) if i not in gone)
            gone_ones = {c.id for i, c in enumerate(self._case.scenario.clients) if i in gone}
            steps = [s for s in self._case.scenario.steps if getattr(s, "client", None) not in gone_ones]
            return self._with(clients=left, steps=tuple(steps), latency=_latencies(self._case.scenario, gone_ones))

        self._reduce(lambda: len(self._case.scenario.clients), without)

    def _cut_beside(self) -> None:
        for name in ("component_moves", "components"):

            def without(gone: range, name: str = name) -> Case:
                left = tuple(each for i, each in enumerate(getattr(self._case.beside, name)) if i not in gone)
                return self._with_beside(**{name: left})

            self._reduce(lambda name=name: len(getattr(self._case.beside, name)), without)  # type: ignore[misc]
        self._try(self._with_beside(ring_every=0.0))

    def _cut_loads(self) -> None:
        """Loads, subscriptions and replies of each client, one by one."""
        for key in ("publish", "reply", "subscribe", "advertise"):
            for index in range(len(self._case.scenario.clients)):
                for number in reversed(range(len(getattr(self._case.scenario.clients[index], key)))):
                    clients = list(self._case.scenario.clients)
                    left = tuple(each for i, each in enumerate(getattr(clients[index], key)) if i != number)
                    clients[index] = msgspec.structs.replace(clients[index], **{key: left})
                    self._try(self._with(clients=tuple(clients)))

    def _cut_events(self) -> None:
        for index, client in enumerate(self._case.scenario.clients):
            for number in range(len(client.publish)):
                for count in COUNTS:
                    clients = list(self._case.scenario.clients)
                    loads = list(clients[index].publish)
                    loads[number] = msgspec.structs.replace(loads[number], count=count)
                    clients[index] = msgspec.structs.replace(clients[index], publish=tuple(loads))
                    if self._try(self._with(clients=tuple(clients))):
                        break

    def _cut_brokers(self) -> None:
        """Leaves at which no client begins."""
        for broker in self._case.scenario.brokers:
            scenario = self._case.scenario
            links = tuple(link for link in scenario.links if broker not in link)
            is_leaf = len(links) == len(scenario.links) - 1
            if is_leaf and not _is_needed(scenario) and not any(broker == client.broker for client in scenario.clients):
                brokers = tuple(each for each in scenario.brokers if each != broker)
                root = scenario.root if scenario.root != broker else brokers[0]
                latency = _latencies(scenario, {broker})
                self._try(self._with(brokers=brokers, links=links, root=root, latency=latency))

    def _simplify(self) -> None:
        for change in PLAINER:
            self._try(self._with(**change))

        def without(gone: range) -> Case:
            latency = self._case.scenario.latency
            left = tuple(each for i, each in enumerate(latency.links) if i not in gone)
            return self._with(latency=PerLink(latency.default, left))

        self._reduce(lambda: len(self._case.scenario.latency.links), without)

    def _with(self, **changes: Any) -> Case:
        scenario = valid(msgspec.structs.replace(self._case.scenario, **changes))
        return msgspec.structs.replace(self._case, scenario=scenario)

    def _with_beside(self, **changes: Any) -> Case:
        beside: Beside = msgspec.structs.replace(self._case.beside, **changes)
        return msgspec.structs.replace(self._case, beside=beside)


def _is_needed(scenario: Scenario) -> bool:
    """Whether views need all machines that there are: fewer would be another case."""
    if scenario.standby is None:
        return False
    left = len(scenario.brokers) - sum(isinstance(step, RemoveBroker) for step in scenario.steps)
    return left + len(scenario.standby.machines) < 2 * scenario.standby.copies


def units_of(steps: Sequence[Step]) -> list[list[Step]]:
    """An outage goes with its end."""
    units: list[list[Step]] = []
    open_ones: dict[tuple[str, ...], list[Step]] = {}
    for step in steps:
        match step:
            case Crash(broker=broker):
                units.append([step])
                open_ones[broker,] = units[-1]
            case Cut(link=link):
                units.append([step])
                open_ones[tuple(sorted(link))] = units[-1]
            case Restart(broker=broker) if (broker,) in open_ones:
                open_ones.pop((broker,)).append(step)
            case Heal(link=link) if tuple(sorted(link)) in open_ones:
                open_ones.pop(tuple(sorted(link))).append(step)
            case _:
                units.append([step])
    return units


PLAINER: tuple[dict[str, Any], ...] = (
    {"improve": None},
    {"standby": None},
    {"stabilise": None},
    {"service": 0.0},
    {"advertisements": False},
    {"hierarchical": False},
    {"merge_bound": 0.0},
    {"routing": Routing.SIMPLE, "merge_bound": 0.0},
    {"exchange": "swaplink"},
    {"ordering": Ordering.FIFO},
    {"latency": PerLink(LATENCY_DEFAULT)},
)


def _latencies(scenario: Scenario, gone: AbstractSet[str]) -> PerLink[Any]:
    """Without those of nodes that are gone."""
    return PerLink(scenario.latency.default, tuple(each for each in scenario.latency.links if not gone & {*each[:2]}))


def _size(case: Case) -> str:
    scenario, beside = case.scenario, case.beside
    return f"{len(scenario.clients)} clients, {len(beside.components)} components, {len(scenario.brokers)} brokers"
