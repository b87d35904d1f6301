"""The longer run: random networks whose tree changes, by the hundred thousand.

    python tests/support/overlay/long_run.py --seeds 100000 --workers 2
    python tests/support/overlay/long_run.py --first 4711 --seeds 1
    python tests/support/overlay/long_run.py --seeds 10000 --exchange swaplink-published
    python tests/support/overlay/long_run.py --seeds 10000 --exchange advanced-coordinated

Seeds in a row go through all settings (policy, mode, order). Progress goes to stderr, with the `--first` from which a
run that was stopped goes on. At the end there is one line for each setting; the exit code is 1 if anything does not
hold, and the command that replays the first failing seed is printed then, with what does not hold. The published
protocol is not blamed for causal order; how often it breaks it stands in the table. With `advanced-coordinated`, swaps
and exchanges go along the cycle, beside joins and departures; hierarchical settings, which it refuses, are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.overlay.judged import Judgement, judge_upheaval, replay
from support.overlay.reconfigured import BY_NAME, SETTINGS, Setting, setting_of, settings_for
from support.overlay.seed_runs import Progress, add_options, in_tasks, say

EXCHANGES = ("swaplink", "swaplink-published", "advanced-coordinated")


@dataclass
class Tally:
    """The runs of one setting, added up."""

    seeds: int = 0
    operations: int = 0
    refused: int = 0
    published: int = 0
    deliveries: int = 0
    causal: int = 0
    failed: list[Judgement] = field(default_factory=list)

    def add(self, judgement: Judgement) -> None:
        self.seeds += 1
        self.operations += judgement.operations
        self.refused += len(judgement.refusals)
        self.published += judgement.published
        self.deliveries += judgement.deliveries
        self.causal += judgement.causal
        if judgement.flaws:
            self.failed.append(judgement)


def judged(only: str, exchange: str, seeds: range) -> list[Judgement]:
    return [_judged(BY_NAME[only] if only else setting_of(seed, exchange), exchange, seed) for seed in seeds]


def _judged(setting: Setting, exchange: str, seed: int) -> Judgement:
    try:
        return judge_upheaval(seed, setting, exchange)
    except Exception as error:  # noqa: BLE001 whatever it raises, the other seeds are still to be judged
        return Judgement(seed, setting, exchange, flaws=[f"raised {type(error).__name__}: {error}"])


# Output -------------------------------------------------------------------------------------------------------

COLUMNS = ("operations", "refused", "events", "delivered", "causal")
HEADER = f"{'setting':<46}{'seeds':>8}{'failed':>7}" + "".join(f"{column:>12}" for column in COLUMNS)


def line(name: str, total: Tally) -> str:
    columns = (total.operations, total.refused, total.published, total.deliveries, total.causal)
    return f"{name:<46}{total.seeds:>8,}{len(total.failed):>7}" + "".join(f"{number:>12,}" for number in columns)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_options(parser, seeds=100_000)
    parser.add_argument("--only", choices=sorted(BY_NAME), default="", help="all seeds under this setting")
    parser.add_argument("--exchange", choices=EXCHANGES, default="swaplink")
    options = parser.parse_args(arguments)
    if options.only and BY_NAME[options.only] not in settings_for(options.exchange):
        parser.error(f"{options.exchange} refuses hierarchical routing: choose another setting than {options.only}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    totals: dict[str, Tally] = {setting.name: Tally() for setting in SETTINGS}
    failed: list[Judgement] = []
    progress, done = Progress(options), 0
    for task in in_tasks(partial(judged, options.only, options.exchange), options):
        for judgement in task:
            totals[judgement.setting.name].add(judgement)
            if judgement.flaws:
                failed.append(judgement)
                say(replay(judgement))
        done += len(task)
        progress.note(done, len(failed))
    say(HEADER)
    for name, total in totals.items():
        if total.seeds:
            say(line(name, total))
    say(f"{done:,} seeds, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
