"""Random networks whose tree changes while events flow: swaps, exchanges, joins, departures, crashes.

Seeds in a row go through all settings (policy, mode, order). The published protocol is not blamed for causal order; how
often it breaks it stands in the table. With `--exchange advanced-coordinated`, swaps and exchanges go along the cycle,
beside joins and departures; hierarchical settings, which it refuses, are left out.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from support.long_runs.seeds import SeedRun, run_seeds
from support.overlay.changing_trees import BY_NAME, Setting, setting_of, settings_for
from support.overlay.judgement import Judgement, judge_changing_tree, replay

EXCHANGES = ("swaplink", "swaplink-published", "advanced-coordinated")
COLUMNS = {
    "operations": lambda j: j.operations,
    "refused": lambda j: len(j.refusals),
    "events": lambda j: j.published,
    "delivered": lambda j: j.deliveries,
    "causal": lambda j: j.causal,
}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--only", choices=sorted(BY_NAME), default="", help="all seeds under this setting")
    parser.add_argument("--exchange", choices=EXCHANGES, default="swaplink")


def run(options: Namespace) -> int:
    if options.only and BY_NAME[options.only] not in settings_for(options.exchange):
        raise SystemExit(f"{options.exchange} refuses hierarchical routing: choose another setting than {options.only}")
    runs = SeedRun(
        judge=partial(_judge, options.only, options.exchange),
        raised=partial(_raised, options.only, options.exchange),
        name_of=lambda judgement: judgement.setting.name,
        replay=replay,
        columns=COLUMNS,
    )
    return 1 if run_seeds([runs], options) else 0


def _setting(only: str, exchange: str, seed: int) -> Setting:
    return BY_NAME[only] if only else setting_of(seed, exchange)


def _judge(only: str, exchange: str, seed: int) -> Judgement:
    return judge_changing_tree(seed, _setting(only, exchange, seed), exchange)


def _raised(only: str, exchange: str, seed: int, flaws: list[str]) -> Judgement:
    return Judgement(seed, _setting(only, exchange, seed), exchange, flaws=flaws)
