"""Damaged networks that stabilise, for every policy, mode and way to renew.

One line for each setting: seeds, failures, faults, events, what broke while the network was converging (which is no
failure), and ticks at which something expired.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from support.long_runs.seeds import SeedRun, run_seeds
from support.stabilise.damaged_networks import (
    BY_NAME,
    PACED,
    REBUILT,
    SETTINGS,
    Judgement,
    Setting,
    judge_damaged,
    replay,
)

KINDS = {"all": (*SETTINGS, *REBUILT, *PACED), "leases": SETTINGS, "rebuild": REBUILT, "paced": PACED}
COLUMNS = {
    "faults": lambda j: j.faults,
    "events": lambda j: j.published,
    "delivered": lambda j: j.deliveries,
    "set aside": lambda j: j.set_aside,
    "lapses": lambda j: j.lapses,
}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--kind", choices=sorted(KINDS), default="all", help="of networks (default: all)")
    parser.add_argument("--faultless", action="store_true", help="the same networks without faults")
    parser.add_argument("--only", choices=sorted(BY_NAME), action="append", help="may be given several times")


def run(options: Namespace) -> int:
    chosen = [BY_NAME[name] for name in options.only] if options.only else KINDS[options.kind]
    runs = [_seed_run(setting, is_damaged=not options.faultless) for setting in chosen]
    return 1 if run_seeds(runs, options) else 0


def _seed_run(setting: Setting, *, is_damaged: bool) -> SeedRun[Judgement]:
    return SeedRun(
        judge=partial(judge_damaged, setting=setting, is_damaged=is_damaged),
        raised=partial(_raised, setting, is_damaged),
        name_of=lambda judgement: judgement.setting.name,
        replay=replay,
        columns=COLUMNS,
    )


def _raised(setting: Setting, is_damaged: bool, seed: int, flaws: list[str]) -> Judgement:
    return Judgement(seed, setting, is_damaged, flaws=flaws)
