"""The longer run: random networks in which brokers die for good, by the thousand.

    python tests/support/overlay/heal_run.py --seeds 1000 --workers 2
    python tests/support/overlay/heal_run.py --first 4711 --seeds 1

Seeds in a row go through all settings (policy, mode, order). At the end there is one line for each; the exit code is 1
if anything does not hold. What was lost with brokers that never returned, and what was given up for the sake of order,
stands in columns of its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.overlay.deaths import BY_NAME, SETTINGS, Worse, setting_of
from support.overlay.healed import Healed, judge_plague, replay
from support.overlay.seed_runs import Progress, add_options, in_tasks, say


@dataclass
class Tally:
    seeds: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    mended_after: float = 0.0
    failed: int = 0

    def add(self, healed: Healed) -> None:
        self.seeds += 1
        for column in COLUMNS:
            self.sums[column] = self.sums.get(column, 0) + getattr(healed, column)
        self.mended_after = max(self.mended_after, healed.mended_after)
        self.failed += bool(healed.flaws)


WORSE = {
    Worse.RELAPSES: "stand-ins die as well",
    Worse.REWEAVING: "the tree changes where brokers are about to die",
}
COLUMNS = ("deaths", "crashes", "published", "deliveries", "with_brokers", "for_order")
HEADER = f"{'setting':<46}{'seeds':>7}{'failed':>7}" + "".join(f"{c:>13}" for c in COLUMNS) + f"{'mended (s)':>12}"


def line(name: str, total: Tally) -> str:
    numbers = "".join(f"{total.sums[column]:>13,}" for column in COLUMNS)
    return f"{name:<46}{total.seeds:>7,}{total.failed:>7}{numbers}{total.mended_after:>12.3f}"


def judged(only: str, worse: Sequence[Worse], seeds: range) -> list[Healed]:
    return [_judged(only, worse, seed) for seed in seeds]


def _judged(only: str, worse: Sequence[Worse], seed: int) -> Healed:
    setting = BY_NAME[only] if only else setting_of(seed)
    try:
        return judge_plague(seed, setting, worse)
    except Exception as error:  # noqa: BLE001 whatever it raises, the other seeds are still to be judged
        return Healed(seed, setting, [f"raised {type(error).__name__}: {error}"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_options(parser, seeds=1_000)
    parser.add_argument("--only", choices=sorted(BY_NAME), default="", help="all seeds under this setting")
    for each, text in WORSE.items():
        parser.add_argument(f"--{each}", action="append_const", const=each, dest="worse", help=text)
    options = parser.parse_args(arguments)
    worse = tuple(options.worse or ())
    totals = {setting.name: Tally() for setting in SETTINGS}
    total, progress = Tally(), Progress(options)
    for task in in_tasks(partial(judged, options.only, worse), options):
        for healed in task:
            totals[healed.setting.name].add(healed)
            total.add(healed)
            if healed.flaws:
                say(replay(healed, worse))
        progress.note(total.seeds, total.failed)
    say(HEADER)
    for name, each in [*totals.items(), ("all", total)]:
        if each.seeds:
            say(line(name, each))
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
