"""Random rights, random filters, random events: nobody gets what its right does not match, nobody is denied the rest.

One line for each outcome: how many cases, and how many events in them that right and filter both match.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from support.access.random_rights import RightsJudgement, judge_case, replay
from support.long_runs.seeds import SeedRun, run_seeds


def add_options(_parser: ArgumentParser) -> None:
    """None but the shared ones."""


def run(options: Namespace) -> int:
    columns = {"events of both": lambda judgement: judgement.matched_by_both}
    cases = SeedRun(judge_case, RightsJudgement, lambda judgement: judgement.outcome, replay, columns)
    return 1 if run_seeds([cases], options) else 0
