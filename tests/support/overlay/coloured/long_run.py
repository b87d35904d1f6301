"""The longer run of the coloured overlay: networks by the hundred, damaged or reconfigured, for each policy and order.

    python tests/support/overlay/coloured/long_run.py --seeds 500 --workers 2
    python tests/support/overlay/coloured/long_run.py --seeds 500 --faultless
    python tests/support/overlay/coloured/long_run.py --only covering/causal --first 17 --seeds 1

One line for each setting: seeds, failures, faults, reconfigurations, events, what broke while the network was finding
back, and what only another order would not tolerate. The exit code is 1 if anything does not hold; the command that
replays the first failing seed is printed then, with what does not hold. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from support.overlay.coloured.tinted import BY_NAME, SETTINGS, Judgement, Setting, judge_reweaving, judge_struck, replay
from support.overlay.seed_runs import Progress, add_options, in_tasks, say

COLUMNS = ("seeds", "failed", "faults", "changes", "published", "deliveries", "set_aside", "tolerated")


def judged(setting: Setting, is_struck: bool, seeds: range) -> list[Judgement]:
    return [_judged(setting, is_struck, seed) for seed in seeds]


def _judged(setting: Setting, is_struck: bool, seed: int) -> Judgement:
    try:
        return (judge_struck if is_struck else judge_reweaving)(seed, setting)
    except Exception as error:  # noqa: BLE001 whatever it raises, the other seeds are still to be judged
        return Judgement(seed, setting, is_struck, flaws=[f"raised {type(error).__name__}: {error}"])


def counted(judgement: Judgement) -> Counter[str]:
    numbers = {column: getattr(judgement, column) for column in COLUMNS[2:]}
    return Counter({"seeds": 1, "failed": int(bool(judgement.flaws)), **numbers})


def line(name: str, values: Sequence[object]) -> str:
    return f"{name:<20}" + "".join(f"{value:>11}" for value in values)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_options(parser, seeds=500)
    parser.add_argument("--faultless", action="store_true", help="reconfigurations in place of damage")
    parser.add_argument("--only", choices=sorted(BY_NAME), action="append", help="may be given several times")
    options = parser.parse_args(arguments)
    failed: list[Judgement] = []
    say(line("setting", COLUMNS))
    for setting in [BY_NAME[name] for name in options.only] if options.only else SETTINGS:
        total: Counter[str] = Counter()
        progress = Progress(options)
        for task in in_tasks(partial(judged, setting, not options.faultless), options):
            for judgement in task:
                total.update(counted(judgement))
                failed += [judgement] if judgement.flaws else []
            progress.note(total["seeds"], len(failed))
        say(line(setting.name, [total[column] for column in COLUMNS]))
    if failed:
        say(replay(failed[0]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
