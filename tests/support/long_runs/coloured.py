"""Networks with the coloured overlay, damaged or reconfigured, for each policy and order.

One line for each setting: seeds, failures, faults, reconfigurations, events, what broke while the network was
converging, and what only another order would not tolerate.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from operator import attrgetter

from support.long_runs.seeds import SeedRun, run_seeds
from support.overlay.coloured.coloured_networks import (
    BY_NAME,
    SETTINGS,
    Judgement,
    Setting,
    judge_damaged,
    judge_reweaving,
    replay,
)

COLUMNS = ("faults", "changes", "published", "deliveries", "set_aside", "tolerated")


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--faultless", action="store_true", help="reconfigurations in place of damage")
    parser.add_argument("--only", choices=sorted(BY_NAME), action="append", help="may be given several times")


def run(options: Namespace) -> int:
    chosen = [BY_NAME[name] for name in options.only] if options.only else SETTINGS
    runs = [_seed_run(setting, is_damaged=not options.faultless) for setting in chosen]
    return 1 if run_seeds(runs, options) else 0


def _seed_run(setting: Setting, *, is_damaged: bool) -> SeedRun[Judgement]:
    return SeedRun(
        judge=partial(judge_damaged if is_damaged else judge_reweaving, setting=setting),
        raised=partial(_raised, setting, is_damaged),
        name_of=lambda judgement: judgement.setting.name,
        replay=replay,
        columns={column: attrgetter(column) for column in COLUMNS},
    )


def _raised(setting: Setting, is_damaged: bool, seed: int, flaws: list[str]) -> Judgement:
    return Judgement(seed, setting, is_damaged, flaws=flaws)
