"""Partitions of tasks for Spark jobs: long enough to be worth scheduling, the longest tasks first.

    tasks ──▶ a job of some partitions ──▶ tasks of a partition, one after the other

The duration of a task is forecast by those of its case, or else by its cost at the present rate. The forecast affects
the order and the sizes, never a result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

PARTITION_SECONDS = 2.0  # of work: a partition costs some 30 ms by itself
PARTITION_SECONDS_MIN = 0.1
PARTITION_TASKS_MAX = 500  # bounds the size of a job
PARTITIONS_PER_CORE = 4  # in one job: cores idle for at most a quarter of it
ROUNDING_SECONDS = 1e-6  # tolerance of sums
UNKNOWN_SECONDS = PARTITION_SECONDS  # of a task before anything is known: it gets a partition of its own


class CampaignTask(NamedTuple):
    """One run: what is measured is a function of case and seed alone."""

    case: str
    seed: int
    cost: float = 1.0  # relative duration


class Forecast:
    """Forecast durations of tasks."""

    def __init__(self) -> None:
        self._by_case: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # tasks, seconds
        self._cost = 0.0
        self._seconds = 0.0

    def learn(self, task: CampaignTask, seconds: float) -> None:
        seen = self._by_case[task.case]
        seen[0] += 1
        seen[1] += seconds
        self._cost += task.cost
        self._seconds += seconds

    @property
    def knows_nothing(self) -> bool:
        return not self._by_case

    def seconds(self, task: CampaignTask) -> float:
        if task.case in self._by_case:
            tasks, seconds = self._by_case[task.case]
            return seconds / tasks
        if self._cost:
            return task.cost * self._seconds / self._cost
        return UNKNOWN_SECONDS


class Waiting:
    """The tasks that are in no job yet."""

    def __init__(self, tasks: Iterable[CampaignTask], partitions_max: int) -> None:
        self.forecast = Forecast()
        self._tasks = list(tasks)
        self._partitions_max = partitions_max

    def __len__(self) -> int:
        return len(self._tasks)

    def seconds(self) -> float:
        """Of work that waits."""
        return sum(map(self.forecast.seconds, self._tasks))

    def next_job(self) -> list[list[CampaignTask]]:
        """The longest tasks that wait, in partitions; smaller ones towards the end, so that all cores have some.

        Before anything is known: one task per core, to learn from.
        """
        partitions_max = self._partitions_max
        if self.forecast.knows_nothing:
            partitions_max = max(partitions_max // PARTITIONS_PER_CORE, 1)
        timed = [(self.forecast.seconds(task), task) for task in self._tasks]
        timed.sort(key=lambda each: (-each[0], each[1].seed, each[1].case))
        fair_share = sum(seconds for seconds, _ in timed) / self._partitions_max
        target = max(min(PARTITION_SECONDS, fair_share), PARTITION_SECONDS_MIN) - ROUNDING_SECONDS
        partitions: list[list[CampaignTask]] = []
        filled = target
        for seconds, task in timed:
            if filled >= target or len(partitions[-1]) == PARTITION_TASKS_MAX:
                if len(partitions) == partitions_max:
                    break
                partitions.append([])
                filled = 0.0
            partitions[-1].append(task)
            filled += seconds
        self._tasks = [task for _, task in timed[sum(map(len, partitions)) :]]
        return partitions
