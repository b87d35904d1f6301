"""Random networks whose clients move between brokers while events flow.

Seeds in a row go through all settings (policy, mode, order); there is one line for each.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from support.long_runs.seeds import SeedRun, run_seeds
from support.mobility.moving_clients import Judgement, judge_travels, replay
from support.overlay.changing_trees import BY_NAME, Setting, setting_of

COLUMNS = {
    "moves": lambda j: j.moves,
    "refused": lambda j: len(j.refusals),
    "events": lambda j: j.published,
    "delivered": lambda j: j.deliveries,
}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--only", choices=sorted(BY_NAME), default="", help="all seeds under this setting")


def run(options: Namespace) -> int:
    runs = SeedRun(
        judge=partial(_judge, options.only),
        raised=partial(_raised, options.only),
        name_of=lambda judgement: judgement.setting.name,
        replay=replay,
        columns=COLUMNS,
    )
    return 1 if run_seeds([runs], options) else 0


def _setting(only: str, seed: int) -> Setting:
    return BY_NAME[only] if only else setting_of(seed)


def _judge(only: str, seed: int) -> Judgement:
    return judge_travels(seed, _setting(only, seed))


def _raised(only: str, seed: int, flaws: list[str]) -> Judgement:
    return Judgement(seed, _setting(only, seed), flaws=flaws)
