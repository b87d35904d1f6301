"""Every pair of features on real processes: one scenario for each row of a covering array, each judged by the oracle.

`--row N` runs one of them. The exit code is 1 if a verdict is not clean, or a run does not become quiet.
"""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from pathlib import Path

from pleach.errors import PleachError
from pleach.harness.run import run_live
from pleach.trace import judge
from support.everything.files import scenario_text
from support.everything.live import live_features, live_pairs, live_rows, live_scenario
from support.long_runs.output import say

FLAWS_SHOWN_MAX = 5


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--row", type=int, action="append", help="only this one; may be given several times")


def run(options: Namespace) -> int:
    rows = options.row if options.row is not None else range(len(live_rows()))
    failed = [row for row in rows if _fails(row, options.seed, options.place / f"row-{row}")]
    say(f"{len(list(rows))} of {len(live_rows())} rows, which have {len(live_pairs())} pairs: {len(failed)} failed")
    return 1 if failed else 0


def _fails(row: int, seed: int, place: Path) -> bool:
    (place / "data").mkdir(parents=True, exist_ok=True)
    scenario = live_scenario(row, seed)
    (place / "scenario.toml").write_text(scenario_text(scenario))
    try:
        result = asyncio.run(run_live(scenario, place / "data", seed=seed))
        verdict = judge(result.records)
    except (PleachError, ExceptionGroup, OSError) as error:  # a TimeoutError is an OSError
        say(f"row {row}: FAILED ({', '.join(live_features(row).names)}): {type(error).__name__}: {error}")
        return True
    flaws = [*map(str, verdict.violations), *([verdict.unusable] if verdict.unusable else [])]
    flaws += [] if result.quiet else [f"it did not become quiet: {'; '.join(result.unrest)}"]
    counts = (
        f"{verdict.counts.published} events, {verdict.counts.deliveries} deliveries, {len(result.refusals)} refused"
    )
    said = f"FAILED ({', '.join(live_features(row).names)}): {flaws[:FLAWS_SHOWN_MAX]}" if flaws else "clean"
    say(f"row {row}: {counts}: {said}")
    return bool(flaws)
