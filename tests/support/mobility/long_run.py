"""The longer run: random networks whose clients move, by the ten thousand.

    python tests/support/mobility/long_run.py --seeds 20000 --workers 2
    python tests/support/mobility/long_run.py --first 4711 --seeds 1

Seeds in a row go through all settings (policy, mode, order). Progress goes to stderr, with the `--first` from which a
run that was stopped goes on. At the end there is one line for each setting; the exit code is 1 if anything does not
hold, and the command that replays a failing seed is printed then, with what does not hold.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.mobility.moved import Judgement, judge_travels, replay
from support.overlay.reconfigured import BY_NAME, SETTINGS, setting_of
from support.overlay.seed_runs import Progress, add_options, in_tasks, say


@dataclass
class Tally:
    """The runs of one setting, added up."""

    seeds: int = 0
    failed: int = 0
    moves: int = 0
    refused: int = 0
    published: int = 0
    deliveries: int = 0

    def add(self, judgement: Judgement) -> None:
        self.seeds += 1
        self.failed += bool(judgement.flaws)
        self.moves += judgement.moves
        self.refused += len(judgement.refusals)
        self.published += judgement.published
        self.deliveries += judgement.deliveries


def judged(only: str, seeds: range) -> list[Judgement]:
    return [_judged(only, seed) for seed in seeds]


def _judged(only: str, seed: int) -> Judgement:
    setting = BY_NAME[only] if only else setting_of(seed)
    try:
        return judge_travels(seed, setting)
    except Exception as error:  # noqa: BLE001 whatever it raises, the other seeds are still to be judged
        return Judgement(seed, setting, flaws=[f"raised {type(error).__name__}: {error}"])


HEADER = f"{'setting':<46}{'seeds':>8}{'failed':>7}{'moves':>9}{'refused':>9}{'events':>11}{'delivered':>12}"


def line(name: str, total: Tally) -> str:
    counts = f"{total.moves:>9,}{total.refused:>9,}{total.published:>11,}{total.deliveries:>12,}"
    return f"{name:<46}{total.seeds:>8,}{total.failed:>7}{counts}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_options(parser, seeds=20_000)
    parser.add_argument("--only", choices=sorted(BY_NAME), default="", help="all seeds under this setting")
    options = parser.parse_args(arguments)
    totals: dict[str, Tally] = {setting.name: Tally() for setting in SETTINGS}
    progress, done, failed = Progress(options), 0, 0
    for task in in_tasks(partial(judged, options.only), options):
        for judgement in task:
            totals[judgement.setting.name].add(judgement)
            if judgement.flaws:
                failed += 1
                say(replay(judgement))
        done += len(task)
        progress.note(done, failed)
    say(HEADER)
    for name, total in totals.items():
        if total.seeds:
            say(line(name, total))
    say(f"{done:,} seeds, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
