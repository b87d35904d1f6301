"""Machines that are destroyed, or crash, at every message of every protocol, of replication and of promotion.

Seeds are numbers of mishaps: all there are, unless `--first` and `--seeds` say otherwise. There is one line for each
network and protocol.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from support.long_runs.output import explained, replay_command
from support.long_runs.seeds import SeedRun, run_seeds
from support.standby.ordeals import Judgement, all_mishaps, judge_mishap, raised

COLUMNS = {"promoted": lambda j: j.promoted, "delivered": lambda j: j.deliveries}


def add_options(_: ArgumentParser) -> None:
    pass


def run(options: Namespace) -> int:
    options.seeds = min(options.seeds, len(all_mishaps()) - options.first)
    runs = SeedRun(judge=judge_mishap, raised=_raised, name_of=lambda j: j.name, replay=_replay, columns=COLUMNS)
    return 1 if run_seeds([runs], options) else 0


def _raised(seed: int, flaws: list[str]) -> Judgement:
    return raised(seed, flaws=flaws)


def _replay(judgement: Judgement) -> str:
    return explained(replay_command("standby-points", judgement.seed), judgement.flaws, where=judgement.told)
