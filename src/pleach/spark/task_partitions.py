"""Which tasks run together: portions long enough to be worth sending, the longest tasks first, none alone at the end.

    tasks ──▶ a job of some portions ──▶ one portion is one Spark partition ──▶ tasks, one after the other

How long a task will take is a forecast: what tasks of its case took, else its cost at the pace so far. It decides the
order and the cut, never a result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

PORTION_SECONDS = 2.0  # of work: a partition costs some 30 ms by itself
PORTION_SECONDS_MIN = 0.1
PORTION_TASKS_MAX = 500  # a job and its results stay small
PORTIONS_PER_CORE = 4  # in one job: at its end the cores wait for a quarter of it at most
ROUNDING_SECONDS = 1e-6  # sums of equal parts may fall short of the whole
UNKNOWN_SECONDS = PORTION_SECONDS  # of a task before anything is known: it gets a portion of its own


class CampaignTask(NamedTuple):
    """One run: what is measured is a function of case and seed alone."""

    case: str
    seed: int
    cost: float = 1.0  # how long it takes beside the others


class Forecast:
    """How long tasks will take, by what others took."""

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
    """The tasks that no job has taken yet."""

    def __init__(self, tasks: Iterable[CampaignTask], portions_max: int) -> None:
        self.forecast = Forecast()
        self._tasks = list(tasks)
        self._portions_max = portions_max

    def __len__(self) -> int:
        return len(self._tasks)

    def seconds(self) -> float:
        """Of work that waits."""
        return sum(map(self.forecast.seconds, self._tasks))

    def next_job(self) -> list[list[CampaignTask]]:
        """The longest tasks that wait, in portions; smaller ones towards the end, so that all cores have some.

        Before anything is known: one task per core, to learn from.
        """
        portions_max = self._portions_max
        if self.forecast.knows_nothing:
            portions_max = max(portions_max // PORTIONS_PER_CORE, 1)
        timed = [(self.forecast.seconds(task), task) for task in self._tasks]
        timed.sort(key=lambda each: (-each[0], each[1].seed, each[1].case))
        fair_share = sum(seconds for seconds, _ in timed) / self._portions_max
        target = max(min(PORTION_SECONDS, fair_share), PORTION_SECONDS_MIN) - ROUNDING_SECONDS
        portions: list[list[CampaignTask]] = []
        filled = target
        for seconds, task in timed:
            if filled >= target or len(portions[-1]) == PORTION_TASKS_MAX:
                if len(portions) == portions_max:
                    break
                portions.append([])
                filled = 0.0
            portions[-1].append(task)
            filled += seconds
        self._tasks = [task for _, task in timed[sum(map(len, portions)) :]]
        return portions
