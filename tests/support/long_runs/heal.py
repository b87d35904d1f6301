"""Random networks in which brokers die for good, and stand-ins take their places.

Seeds in a row go through all settings (policy, mode, order). What was lost with brokers that never returned, and what
was given up for the sake of order, stands in columns of its own.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import partial

from support.long_runs.seeds import SeedRun, run_seeds
from support.overlay.changing_trees import Setting
from support.overlay.dying_brokers import BY_NAME, Worse, setting_of
from support.overlay.healing_judgement import Healed, judge_healing, replay

WORSE = {
    Worse.RELAPSES: "stand-ins die as well",
    Worse.REWEAVING: "the tree changes where brokers are about to die",
}
COLUMNS = {
    "deaths": lambda h: h.deaths,
    "crashes": lambda h: h.crashes,
    "published": lambda h: h.published,
    "deliveries": lambda h: h.deliveries,
    "with_brokers": lambda h: h.with_brokers,
    "for_order": lambda h: h.for_order,
}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--only", choices=sorted(BY_NAME), default="", help="all seeds under this setting")
    for each, text in WORSE.items():
        parser.add_argument(f"--{each}", action="append_const", const=each, dest="worse", help=text)


def run(options: Namespace) -> int:
    worse = tuple(options.worse or ())
    runs = SeedRun(
        judge=partial(_judge, options.only, worse),
        raised=partial(_raised, options.only),
        name_of=lambda healed: healed.setting.name,
        replay=partial(replay, worse=worse),
        columns=COLUMNS,
        maxima={"mended (s)": lambda healed: healed.mended_after},
    )
    return 1 if run_seeds([runs], options) else 0


def _setting(only: str, seed: int) -> Setting:
    return BY_NAME[only] if only else setting_of(seed)


def _judge(only: str, worse: Sequence[Worse], seed: int) -> Healed:
    return judge_healing(seed, _setting(only, seed), worse)


def _raised(only: str, seed: int, flaws: list[str]) -> Healed:
    return Healed(seed, _setting(only, seed), flaws)
