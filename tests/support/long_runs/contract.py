"""Random networks for every combination of policy and mode, thousands of each.

One line for each combination: seeds, failures, messages and table sizes at the end. The exit code is 1 if anything does
not hold, also that merging ≤ covering ≤ identity ≤ simple for the sizes of tables, at every drain of every seed.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from functools import partial

from support.contract.judgement import (
    BY_SIZE,
    COUNTED,
    FLAWS_SHOWN_MAX,
    Judgement,
    judge_network,
    out_of_order,
    replay,
)
from support.contract.networks import BY_NAME, COMBINATIONS, Combination
from support.long_runs.output import say
from support.long_runs.seeds import SeedRun, run_seeds

COLUMNS = {
    "events": lambda j: j.published,
    "delivered": lambda j: j.deliveries,
    **{kind: lambda j, kind=kind: j.messages[kind] for kind in COUNTED},
    "remote": lambda j: sum(j.remote_entries[-1:]),
}
Sizes = dict[Combination, dict[int, list[int]]]  # by seed: at each drain


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--only", choices=sorted(BY_NAME), action="append", help="may be given several times")


def run(options: Namespace) -> int:
    chosen = [BY_NAME[name] for name in options.only] if options.only else COMBINATIONS
    sizes: Sizes = {combination: {} for combination in chosen}

    def note(judgement: Judgement) -> None:
        sizes[judgement.combination][judgement.seed] = judgement.remote_entries

    failed = run_seeds([_seed_run(combination) for combination in chosen], options, note)
    grown = list(_unordered(sizes))
    lines = [*grown[:FLAWS_SHOWN_MAX], f"seeds on which a policy holds more entries than it should: {len(grown)}"]
    say("\n".join(lines))
    return 1 if failed or grown else 0


def _seed_run(combination: Combination) -> SeedRun[Judgement]:
    return SeedRun(
        judge=partial(judge_network, combination, count_messages=True),
        raised=partial(Judgement, combination),
        name_of=lambda judgement: judgement.combination.name,
        replay=replay,
        columns=COLUMNS,
    )


def _unordered(sizes: Sizes) -> Iterator[str]:
    """Seeds on which merging ≤ covering ≤ identity ≤ simple does not hold, for the modes with all four policies."""
    for mode in dict.fromkeys(combination.mode for combination in sizes):
        of_mode = {c.routing.value: by_seed for c, by_seed in sizes.items() if c.mode == mode and not c.merge_bound}
        if not set(BY_SIZE) <= of_mode.keys():
            continue
        for seed in of_mode["simple"]:
            by_policy = {policy: by_seed.get(seed, []) for policy, by_seed in of_mode.items()}
            yield from (f"{mode}, seed {seed}: {text}" for text in out_of_order(by_policy))
