"""Random networks in which rights change while links are exchanged, clients move, and brokers come, go and crash.

Seeds in a row go through all settings (policy, mode, order); there is one line for each.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from support.access.changing_rights import RightsRunJudgement, judge_rights_together, replay
from support.long_runs.seeds import SeedRun, run_seeds
from support.overlay.changing_trees import setting_of

COLUMNS = {
    "changes": lambda j: j.changes,
    "permits": lambda j: j.permits,
    "events": lambda j: j.published,
    "delivered": lambda j: j.deliveries,
    "withheld": lambda j: j.withheld,
    "denied": lambda j: j.denied,
}


def add_options(_parser: ArgumentParser) -> None:
    """None but the shared ones."""


def run(options: Namespace) -> int:
    runs = SeedRun(judge_rights_together, _raised, lambda judgement: judgement.setting.name, replay, COLUMNS)
    return 1 if run_seeds([runs], options) else 0


def _raised(seed: int, flaws: list[str]) -> RightsRunJudgement:
    return RightsRunJudgement(seed, setting_of(seed), flaws)
