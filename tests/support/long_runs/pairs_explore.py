"""Every pair of features in the explorer: a chain of three brokers with both, in every order, up to a number of states.

A pair is *whole* if there are no more states. One line for each pair that fails; the exit code is 1 if one does.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from random import Random

from pleach.explore.search import ExploreOutcome
from support.everything.covering import with_values
from support.everything.explored import EXPLORED, explore_pair, explored_pairs
from support.everything.features import Pair, completed
from support.long_runs.output import say

STATES = 5_000


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--states", type=int, default=STATES, help=f"of each pair (default: {STATES:,})")
    parser.add_argument("--pairs", type=int, default=0, help="only so many, drawn by --seed (default: all)")


def run(options: Namespace) -> int:
    found: Counter[str] = Counter()
    for pair in chosen(options.pairs, options.seed):
        features = with_values(completed(pair), Random(f"explored/{sorted(pair)}"), EXPLORED)
        outcome = explore_pair(features, options.states)
        found["whole" if outcome.outcome is ExploreOutcome.CLEAN else str(outcome.outcome)] += 1
        if outcome.outcome is ExploreOutcome.FAILING:
            say(f"{' × '.join(sorted(pair))} ({', '.join(features.names)}): {outcome.finding}")
    say(f"{sum(found.values())} pairs: " + ", ".join(f"{count} {name}" for name, count in sorted(found.items())))
    return 1 if found[str(ExploreOutcome.FAILING)] else 0


def chosen(count: int, seed: int) -> list[Pair]:
    pairs = list(explored_pairs())
    return Random(seed).sample(pairs, count) if count else pairs
