"""One draw of mutants and what becomes of them, in a directory: a run can be left and taken up again at any time.

Rule 1: stages follow one another, the cheapest tests first. A mutant that is killed goes no further.
Rule 2: within a stage, every mutant gets a few seconds before any of them gets many.
Rule 3: of the tests that reach a mutant, those come first that cost least and reach few others.
Rule 4: a test of processes kills only if it fails twice with the change, and passes between without it.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from mutation.draw import Mutant, read
from mutation.execution import Job, Outcome, Timed, Verdict
from mutation.reach import IMPORT, copied, copy_with_notes, notes_in

BUDGETS = (3.0, 30.0, math.inf)  # processor seconds for a mutant, one round after the other (rule 2)
TOOLS = Path(__file__).parents[1]
DEAD = (Outcome.KILLED, Outcome.TIMEOUT)


class Stage(StrEnum):
    QUICK = "quick"  # as in `make check`
    PURE = "pure"  # as in `make test`, before real brokers
    LIVE = "live"


ARGUMENTS = {
    Stage.QUICK: ["--quick", "--timeout", "0"],
    Stage.PURE: ["-m", "not live and not browser and not spark and not slow", "--timeout", "0"],
    Stage.LIVE: ["-m", "live and not browser and not spark and not slow", "--timeout", "120"],
}


@dataclass(frozen=True, slots=True)
class Reach:
    """Which tests come past which mutants, and what each test costs."""

    tests: dict[int, set[str]]
    seconds: dict[str, float]  # of tests that passed

    def order(self, number: int) -> list[Timed]:
        """Rule 3."""
        others = Counter(test for tests in self.tests.values() for test in tests)
        found = [Timed(test, self.seconds[test]) for test in self.tests.get(number, set()) & self.seconds.keys()]
        return sorted(found, key=lambda each: ((each.seconds + 0.001) * others[each.test], each.test))

    def is_imported(self, number: int) -> bool:
        return IMPORT in self.tests.get(number, set())


@dataclass(frozen=True)
class Campaign:
    place: Path

    @property
    def tree(self) -> Path:
        """The code and the tests, as they were committed when the draw was made."""
        return self.place / "tree"

    @cached_property
    def mutants(self) -> dict[int, Mutant]:
        return {mutant.number: mutant for mutant in read(self.place / "drawn.jsonl")}

    def verdicts(self) -> list[Verdict]:
        """All that were given, the oldest first."""
        files = sorted(self.place.glob("verdicts-*.jsonl"), key=lambda path: list(Stage).index(path.name.split("-")[1]))
        rows = [row for path in files for row in _rows(path)]
        return [replace(Verdict(**row), outcome=Outcome(row["outcome"])) for row in rows]

    def dead(self) -> dict[int, Verdict]:
        return {each.number: each for each in self.verdicts() if each.outcome in DEAD}

    # One stage ----------------------------------------------------------------------------------------------------

    def run(self, stage: Stage, workers: int, under: Sequence[str] = ("tests",)) -> None:
        reach = self._reach(stage, workers, tuple(under))
        if stage is not Stage.LIVE:
            for budget in BUDGETS:
                jobs = [self._job(number, stage, reach, budget) for number in self._waiting(stage)]
                self._run_forked(stage, [each for each in jobs if self._is_for_forks(each, reach)], workers)
        for number in self._waiting(stage):
            self._run_fresh(stage, self._job(number, stage, reach, BUDGETS[-1]))

    def _waiting(self, stage: Stage) -> Iterator[int]:
        dead = self.dead()
        done = {
            each.number
            for each in self.verdicts()
            if each.stage == stage and each.outcome is Outcome.ALIVE and not each.left
        }
        yield from (number for number in self.mutants if number not in dead and number not in done)

    def _job(self, number: int, stage: Stage, reach: Reach, budget: float) -> Job:
        passed = sum(each.passed for each in self.verdicts() if (each.number, each.stage) == (number, stage))
        return Job(number, reach.order(number)[passed:], budget)

    def _is_for_forks(self, job: Job, reach: Reach) -> bool:
        tried = {each.number for each in self.verdicts() if each.outcome is Outcome.NOT_SWAPPABLE}
        return not reach.is_imported(job.number) and job.number not in tried

    def _run_forked(self, stage: Stage, jobs: list[Job], workers: int) -> None:
        started = []
        for worker in range(workers if jobs else 0):
            own = [self._with_text(job) for job in jobs[worker::workers]]
            order = {"verdicts": str(self._file("verdicts", stage, worker)), "confirms": True, "stage": stage}
            arguments = [*ARGUMENTS[stage], *_files(own)]
            started.append(
                self._start(
                    f"{stage}-{worker}", self.tree / "src", {**order, "jobs": _as_rows(own), "arguments": arguments}
                )
            )
        for process in started:
            process.wait()

    def _with_text(self, job: Job) -> Job:
        path = self.tree / "src" / "pleach" / self.mutants[job.number].site.path
        return replace(job, file=str(path), mutated=self.mutants[job.number].site.applied(path.read_text()))

    def _run_fresh(self, stage: Stage, job: Job) -> None:
        """In processes of their own, whose sources are changed on disk."""
        copy = self.place / "changed"
        shutil.rmtree(copy, ignore_errors=True)
        copied(self.tree / "src", copy)
        changed = self._with_text(job)
        (copy / "pleach" / self.mutants[job.number].site.path).write_text(changed.mutated)
        left = replace(job, is_live=stage is Stage.LIVE)
        passed = 0
        while True:
            verdict = self._tried(stage, left, copy)
            passed += verdict.passed
            if verdict.outcome not in DEAD or not verdict.test or self._is_confirmed(stage, left, verdict, copy):
                break
            passed += 1
            left = replace(left, tests=left.tests[verdict.passed + 1 :])
        self._append(stage, replace(verdict, passed=passed, stage=stage))

    def _tried(self, stage: Stage, job: Job, sources: Path) -> Verdict:
        if not job.tests:
            return Verdict(job.number, Outcome.ALIVE)
        verdicts = self.place / "fresh.jsonl"
        verdicts.unlink(missing_ok=True)
        order = {"verdicts": str(verdicts), "confirms": False, "jobs": _as_rows([job]), "stage": stage}
        process = self._start("fresh", sources, {**order, "arguments": [*ARGUMENTS[stage], *_files([job])]})
        code = process.wait()
        if not verdicts.exists():
            return Verdict(job.number, Outcome.KILLED, said=f"not even imported, or no tests collected: exit {code}")
        (row,) = _rows(verdicts)
        return replace(Verdict(**row), outcome=Outcome(row["outcome"]))

    def _is_confirmed(self, stage: Stage, job: Job, verdict: Verdict, copy: Path) -> bool:
        """Rule 4; of tests that only compute, that it passes without the change is enough."""
        once = replace(job, tests=[job.tests[verdict.passed]])
        passes = self._tried(stage, once, self.tree / "src").outcome is Outcome.ALIVE
        return passes and (not job.is_live or self._tried(stage, once, copy).outcome in DEAD)

    # What is reached ------------------------------------------------------------------------------------------------

    def _reach(self, stage: Stage, workers: int, under: tuple[str, ...]) -> Reach:
        """From a run of the tests of the stage without changes; made once."""
        notes, rows = self.place / f"notes-{stage}", self.place / f"tests-{stage}.jsonl"
        if not (self.place / f"reached-{stage}").exists():
            shutil.rmtree(notes, ignore_errors=True)
            rows.unlink(missing_ok=True)
            notes.mkdir()
            copy_with_notes(self._alive(), self.tree / "src", self.place / "noting")
            every = sorted(str(path.relative_to(self.tree)) for path in self.tree.glob("tests/**/test_*.py"))
            files = [file for file in every if file.startswith(under)]
            started = [
                self._start(
                    f"reach-{stage}-{worker}",
                    self.place / "noting",
                    {"rows": str(rows), "arguments": [*ARGUMENTS[stage], *files[worker::workers]]},
                    notes,
                )
                for worker in range(workers)
            ]
            for process in started:
                process.wait()
            (self.place / f"reached-{stage}").touch()
        tests = notes_in(notes)
        if stage is Stage.LIVE:
            tests = _widened(tests, [str(row["test"]) for row in _rows(rows)])
        passed = {
            str(row["test"]): float(row["on_clock" if stage is Stage.LIVE else "seconds"])
            for row in _rows(rows)
            if row["passed"]
        }
        return Reach(tests, passed)

    def _alive(self) -> list[Mutant]:
        dead = self.dead()
        return [mutant for mutant in self.mutants.values() if mutant.number not in dead]

    # Processes --------------------------------------------------------------------------------------------------------

    def _start(
        self, name: str, sources: Path, order: dict[str, object], notes: Path | None = None
    ) -> subprocess.Popen[bytes]:
        file = self.place / f"order-{name}.json"
        file.write_text(json.dumps(order))
        environment = {
            **os.environ,
            "PYTHONPATH": f"{sources}:{TOOLS}",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.place / "hypothesis"),
        }
        if notes is not None:
            environment["PLEACH_MUTATION_NOTES"] = str(notes)
        command = [sys.executable, "-m", "mutation.execution", str(file)]
        with (self.place / f"output-{name}.txt").open("wb") as output:
            return subprocess.Popen(command, cwd=self.tree, env=environment, stdout=output, stderr=output)  # noqa: S603

    def _file(self, what: str, stage: Stage, worker: int | str) -> Path:
        return self.place / f"{what}-{stage}-{worker}.jsonl"

    def _append(self, stage: Stage, verdict: Verdict) -> None:
        with self._file("verdicts", stage, "fresh").open("a") as file:
            file.write(json.dumps(asdict(verdict)) + "\n")


def _rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _as_rows(jobs: list[Job]) -> list[dict[str, object]]:
    return [{**asdict(job), "tests": [(each.test, each.seconds) for each in job.tests]} for job in jobs]


def _files(jobs: list[Job]) -> list[str]:
    return sorted({timed.test.partition("::")[0] for job in jobs for timed in job.tests})


def _widened(tests: dict[int, set[str]], every: list[str]) -> dict[int, set[str]]:
    """Processes that several tests share note the first of them: all tests of that file may reach what it does."""
    by_file = defaultdict[str, list[str]](list)
    for test in every:
        by_file[test.partition("::")[0]].append(test)
    return {
        number: reached | {test for each in reached for test in by_file[each.partition("::")[0]]}
        for number, reached in tests.items()
    }
