"""The longer run: random networks whose tree changes, by the hundred thousand.

    python tests/overlay/long_run.py --seeds 100000 --workers 2
    python tests/overlay/long_run.py --first 4711 --seeds 1
    python tests/overlay/long_run.py --seeds 10000 --exchange swaplink-published

Seeds in a row go through all settings (policy, mode, order). Progress goes to stderr, with the `--first` from which a
run that was stopped goes on. At the end there is one line for each setting; the exit code is 1 if anything does not
hold, and the command that replays the first failing seed is printed then, with what does not hold. The published
protocol is not blamed for causal order; how often it breaks it stands in the table.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

from judged import Judgement, judge_upheaval, replay
from reconfigured import BY_NAME, SETTINGS, Setting, setting_of

SEEDS_PER_TASK = 24
PROGRESS_SECONDS = 10.0


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
    return [_judged(BY_NAME[only] if only else setting_of(seed), exchange, seed) for seed in seeds]


def _judged(setting: Setting, exchange: str, seed: int) -> Judgement:
    try:
        return judge_upheaval(seed, setting, exchange)
    except Exception as error:  # noqa: BLE001 whatever it raises, the other seeds are still to be judged
        return Judgement(seed, setting, exchange, flaws=[f"raised {type(error).__name__}: {error}"])


def judgements(options: argparse.Namespace) -> Iterator[list[Judgement]]:
    """Task by task, in the order of the seeds."""
    seeds = range(options.first, options.first + options.seeds)
    tasks = [seeds[i : i + SEEDS_PER_TASK] for i in range(0, len(seeds), SEEDS_PER_TASK)]
    work = partial(judged, options.only, options.exchange)
    if options.workers == 1:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(options.workers) as pool:
        yield from pool.map(work, tasks)


# Output -------------------------------------------------------------------------------------------------------

COLUMNS = ("operations", "refused", "events", "delivered", "causal")
HEADER = f"{'setting':<46}{'seeds':>8}{'failed':>7}" + "".join(f"{column:>12}" for column in COLUMNS)


def line(name: str, total: Tally) -> str:
    columns = (total.operations, total.refused, total.published, total.deliveries, total.causal)
    return f"{name:<46}{total.seeds:>8,}{len(total.failed):>7}" + "".join(f"{number:>12,}" for number in columns)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Progress:
    def __init__(self, options: argparse.Namespace) -> None:
        self._first, self._wanted = options.first, options.seeds
        self._started = self._shown = time.monotonic()

    def note(self, done: int, failed: int) -> None:
        now = time.monotonic()
        if now - self._shown < PROGRESS_SECONDS:
            return
        self._shown = now
        rate = done / (now - self._started)
        left = (self._wanted - done) / rate / 60
        text = f"{done:,} of {self._wanted:,}, {rate:.1f} seeds/s, {left:.0f} min left, {failed} failed"
        sys.stderr.write(f"{text}; to go on from here: --first {self._first + done} --seeds {self._wanted - done}\n")
        sys.stderr.flush()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=sorted(BY_NAME), default="", help="all seeds under this setting")
    parser.add_argument("--exchange", choices=("swaplink", "swaplink-published"), default="swaplink")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    totals: dict[str, Tally] = {setting.name: Tally() for setting in SETTINGS}
    failed: list[Judgement] = []
    progress, done = Progress(options), 0
    for task in judgements(options):
        for judgement in task:
            totals[judgement.setting.name].add(judgement)
            if judgement.flaws:
                failed.append(judgement)
                _say(replay(judgement))
        done += len(task)
        progress.note(done, len(failed))
    _say(HEADER)
    for name, total in totals.items():
        if total.seeds:
            _say(line(name, total))
    _say(f"{done:,} seeds, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
