"""The longer run: damaged networks by the hundred, for every policy, mode and way to renew.

    python tests/support/stabilise/long_run.py --seeds 500 --workers 2
    python tests/support/stabilise/long_run.py --seeds 500 --faultless
    python tests/support/stabilise/long_run.py --seeds 500 --kind rebuild      (or leases, or paced)
    python tests/support/stabilise/long_run.py --only covering/peer-to-peer --first 17 --seeds 1

Prints one line for each setting: seeds, failures, faults, events, what broke while the network was finding back (which
is no failure), and ticks at which something ran out. The exit code is 1 if anything does not hold; the command that
replays the first failing seed is printed then, with what does not hold.
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

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.stabilise.struck import BY_NAME, PACED, REBUILT, SETTINGS, Judgement, Setting, judge_struck, replay

SEEDS_PER_TASK = 10
KINDS = {"all": (*SETTINGS, *REBUILT, *PACED), "leases": SETTINGS, "rebuild": REBUILT, "paced": PACED}


@dataclass
class Tally:
    """The runs of one setting, added up."""

    seeds: int = 0
    faults: int = 0
    published: int = 0
    deliveries: int = 0
    set_aside: int = 0
    lapses: int = 0
    failed: list[Judgement] = field(default_factory=list)

    def add(self, judgement: Judgement) -> None:
        self.seeds += 1
        self.faults += judgement.faults
        self.published += judgement.published
        self.deliveries += judgement.deliveries
        self.set_aside += judgement.set_aside
        self.lapses += judgement.lapses
        if judgement.flaws:
            self.failed.append(judgement)


def judged(setting: Setting, is_struck: bool, seeds: range) -> list[Judgement]:
    return [_judged(setting, is_struck, seed) for seed in seeds]


def _judged(setting: Setting, is_struck: bool, seed: int) -> Judgement:
    try:
        return judge_struck(seed, setting, is_struck=is_struck)
    except Exception as error:  # noqa: BLE001 whatever it raises, the other seeds are still to be judged
        return Judgement(seed, setting, is_struck, flaws=[f"raised {type(error).__name__}: {error}"])


def judgements(setting: Setting, options: argparse.Namespace) -> Iterator[list[Judgement]]:
    seeds = range(options.first, options.first + options.seeds)
    tasks = [seeds[i : i + SEEDS_PER_TASK] for i in range(0, len(seeds), SEEDS_PER_TASK)]
    work = partial(judged, setting, not options.faultless)
    if options.workers == 1:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(options.workers) as pool:
        yield from pool.map(work, tasks)


COLUMNS = ("faults", "events", "delivered", "set aside", "lapses")
HEADER = f"{'setting':<48}{'seeds':>7}{'failed':>7}" + "".join(f"{column:>11}" for column in COLUMNS) + f"{'s':>7}"


def line(name: str, total: Tally, seconds: float) -> str:
    columns = (total.faults, total.published, total.deliveries, total.set_aside, total.lapses)
    shown = "".join(f"{number:>11,}" for number in columns)
    return f"{name:<48}{total.seeds:>7,}{len(total.failed):>7}{shown}{seconds:>7.0f}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=500, help="for each setting (default: 500)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--kind", choices=sorted(KINDS), default="all", help="of networks (default: all)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--faultless", action="store_true", help="the same networks without faults")
    parser.add_argument("--only", choices=sorted(BY_NAME), action="append", help="may be given several times")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    failed: list[Judgement] = []
    _say(HEADER)
    for setting in [BY_NAME[name] for name in options.only] if options.only else KINDS[options.kind]:
        started, total = time.monotonic(), Tally()
        for task in judgements(setting, options):
            for judgement in task:
                total.add(judgement)
        _say(line(setting.name, total, time.monotonic() - started))
        failed += total.failed
    if failed:
        _say(replay(failed[0]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
