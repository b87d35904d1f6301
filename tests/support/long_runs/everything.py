"""Random scenarios with all features of the simulator at once: what holds of each must hold of all together.

Each seed draws a small network and which features it has (support/everything/features.py). One line for each way to
route and order; at the end one for each feature, with the seeds that had it and those of them that failed. With
`--write DIRECTORY` every failing case is written as a file, `seed-N.toml`; `--shrink N` cuts the case of one seed down
to the least that still fails, and writes that; `--file FILE` runs a file again (`pleach sim FILE` does, too, where it
has no table `[beside]`), with `--shrink` to cut it down further.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from support.everything.case import Case
from support.everything.draw import case_of
from support.everything.files import read_case, write_case
from support.everything.judgement import CaseJudgement, Fault, judge_case
from support.everything.shrink import shrunk
from support.long_runs.output import explained, replay_command, say
from support.long_runs.seeds import SeedRun, run_seeds

RULES = ("lost", "duplicate", "spurious", "fifo", "causal")
COLUMNS: dict[str, Callable[[CaseJudgement], int]] = {
    "operations": lambda j: j.operations,
    "refused": lambda j: j.refused,
    "events": lambda j: j.published,
    "delivered": lambda j: j.deliveries,
    "destroyed": lambda j: j.destroyed,
    "promoted": lambda j: j.promoted,
    "unmended": lambda j: not j.is_mended,
    "slow": lambda j: j.is_slow,
    **{kind: lambda j, kind=kind: j.faults[kind] for kind in (*RULES, *map(str, Fault))},
}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--standby", action="store_true", help="brokers have standbys, and machines are lost for good")
    parser.add_argument(
        "--copies", type=int, choices=(2, 3), default=0, help="all seeds with so many, of which one stays (--standby)"
    )
    parser.add_argument("--write", type=Path, metavar="DIRECTORY", help="for the files of failing cases")
    parser.add_argument("--shrink", type=int, metavar="SEED", nargs="?", const=-1, help="cut the case of a seed down")
    parser.add_argument("--file", type=Path, help="run the case of a file")


def run(options: Namespace) -> int:
    if options.file or options.shrink is not None:
        return _run_one(options)
    by_feature = _ByFeature()
    draw = _draws(options)
    runs = SeedRun(partial(_judge, draw), partial(_raised, draw), _name, partial(_replay, options), COLUMNS)
    failed = run_seeds([runs], options, by_feature.note)
    say(by_feature.table())
    return 1 if failed else 0


def _draws(options: Namespace) -> Callable[[int], Case]:
    return partial(case_of, standby=options.standby or bool(options.copies), copies=options.copies)


def _judge(draw: Callable[[int], Case], seed: int) -> CaseJudgement:
    return judge_case(draw(seed))


def _raised(draw: Callable[[int], Case], seed: int, flaws: list[str]) -> CaseJudgement:
    return CaseJudgement(draw(seed), flaws, Counter({str(Fault.RAISED): 1}))


def _name(judgement: CaseJudgement) -> str:
    scenario = judgement.case.scenario
    return f"{scenario.routing}/{scenario.ordering}"


def _replay(options: Namespace, judgement: CaseJudgement) -> str:
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        write_case(judgement.case, options.write / f"seed-{judgement.seed}.toml")
    more = [f"--copies {options.copies}"] if options.copies else ["--standby"] if options.standby else []
    command = replay_command("everything", judgement.seed, *more)
    return explained(command, judgement.flaws, where=", ".join(judgement.case.features))


class _ByFeature:
    def __init__(self) -> None:
        self._seeds: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()

    def note(self, judgement: CaseJudgement) -> None:
        self._seeds.update(judgement.case.features)
        self._failed.update(judgement.case.features if judgement.flaws else ())

    def table(self) -> str:
        lines = [f"{name:<24}{seeds:>10,}{self._failed[name]:>10,}" for name, seeds in sorted(self._seeds.items())]
        return "\n".join([f"\n{'feature':<24}{'seeds':>10}{'failed':>10}", *lines])


# One case -------------------------------------------------------------------------------------------------------


def _run_one(options: Namespace) -> int:
    case = read_case(options.file) if options.file else _draws(options)(options.shrink)
    if options.shrink is not None:
        case = shrunk(case, say)
        path = _place(options, case)
        write_case(case, path)
        say(f"written: {path}")
    judgement = judge_case(case)
    say("\n".join(judgement.flaws) or "all holds")
    return 1 if judgement.flaws else 0


def _place(options: Namespace, case: Case) -> Path:
    if options.file:
        return options.file.with_suffix(".shrunk.toml")
    directory = options.write or Path()
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f"seed-{case.seed}.toml"
