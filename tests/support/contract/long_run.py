"""The longer run of the contract: thousands of random networks for every combination of policy and mode.

    python tests/support/contract/long_run.py --seeds 2000 --workers 2
    python tests/support/contract/long_run.py --only covering/peer-to-peer --first 17 --seeds 1

Prints one line for each combination: seeds, failures, messages and table sizes. The exit code is 1 if anything
does not hold; the command that replays the first failing seed is printed then, with what does not hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.contract.judgement import BY_SIZE, COUNTED, FLAWS_SHOWN_MAX, Judgement, judge_network, out_of_order
from support.contract.networks import BY_NAME, COMBINATIONS, Combination

SEEDS_PER_TASK = 10
PROGRESS_SECONDS = 2.0

Runs = Callable[[Combination, Sequence[range]], Iterator[list[Judgement]]]


@dataclass
class Tally:
    """The runs of one combination, added up."""

    seeds: int = 0
    published: int = 0
    deliveries: int = 0
    remote_entries: int = 0  # at the end of the runs
    sizes: dict[int, list[int]] = field(default_factory=dict)  # by seed: at each drain
    messages: Counter[str] = field(default_factory=Counter)
    failed: list[Judgement] = field(default_factory=list)

    def add(self, judgement: Judgement) -> None:
        self.seeds += 1
        self.published += judgement.published
        self.deliveries += judgement.deliveries
        self.remote_entries += sum(judgement.remote_entries[-1:])
        self.sizes[judgement.seed] = judgement.remote_entries
        self.messages += judgement.messages
        if judgement.flaws:
            self.failed.append(judgement)


def judged(combination: Combination, seeds: range) -> list[Judgement]:
    return [_judged(combination, seed) for seed in seeds]


def _judged(combination: Combination, seed: int) -> Judgement:
    try:
        return judge_network(combination, seed, count_messages=True)
    except Exception as error:  # noqa: BLE001 whatever it raises, the other seeds are still to be judged
        return Judgement(combination, seed, flaws=[f"raised {type(error).__name__}: {error}"])


def tally(combination: Combination, seeds: range, runs: Runs) -> Tally:
    total = Tally()
    started = shown = time.monotonic()
    for judgements in runs(combination, _parts(seeds)):
        for judgement in judgements:
            total.add(judgement)
        if time.monotonic() - shown >= PROGRESS_SECONDS:
            shown = time.monotonic()
            _progress(combination, total, len(seeds), shown - started)
    return total


def _parts(seeds: range) -> list[range]:
    return [seeds[i : i + SEEDS_PER_TASK] for i in range(0, len(seeds), SEEDS_PER_TASK)]


def _progress(combination: Combination, total: Tally, wanted: int, elapsed: float) -> None:
    if sys.stderr.isatty():
        text = f"{combination.name}: {total.seeds}/{wanted}, {total.seeds / elapsed:.1f}/s, {len(total.failed)} failed"
        sys.stderr.write(f"\r{text:<100}\r")
        sys.stderr.flush()


@contextmanager
def _runner(workers: int) -> Iterator[Runs]:
    if workers == 1:
        yield lambda combination, parts: map(partial(judged, combination), parts)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield lambda combination, parts: pool.map(partial(judged, combination), parts)


def unordered(totals: dict[Combination, Tally]) -> Iterator[str]:
    """Seeds on which merging ≤ covering ≤ identity ≤ simple does not hold, for the modes with all four policies."""
    for mode in dict.fromkeys(combination.mode for combination in totals):
        sizes = {c.routing.value: t.sizes for c, t in totals.items() if c.mode == mode and not c.merge_bound}
        if not set(BY_SIZE) <= sizes.keys():
            continue
        for seed in sizes["simple"]:
            by_policy = {policy: of_seed.get(seed, []) for policy, of_seed in sizes.items()}
            for text in out_of_order(by_policy):
                yield f"{mode}, seed {seed}: {text}"


# Output -------------------------------------------------------------------------------------------------------


def header() -> str:
    counted = "".join(f"{kind:>12}" for kind in COUNTED)
    return f"{'combination':<42}{'seeds':>7}{'failed':>7}{'events':>10}{'delivered':>11}{counted}{'remote':>10}{'s':>8}"


def line(combination: Combination, total: Tally, seconds: float) -> str:
    counted = "".join(f"{total.messages[kind]:>12,}" for kind in COUNTED)
    return (
        f"{combination.name:<42}{total.seeds:>7}{len(total.failed):>7}{total.published:>10,}{total.deliveries:>11,}"
        f"{counted}{total.remote_entries:>10,}{seconds:>8.0f}"
    )


def replay(judgement: Judgement) -> str:
    script = Path(__file__).name
    command = f"python tests/contract/{script} --only {judgement.combination.name} --first {judgement.seed} --seeds 1"
    return "\n".join([f"replay: {command}", *(f"  {flaw}" for flaw in judgement.flaws)])


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=2000, help="for each combination (default: 2000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=sorted(BY_NAME), action="append", help="may be given several times")
    options = parser.parse_args(arguments)
    chosen = [BY_NAME[name] for name in options.only] if options.only else COMBINATIONS
    seeds = range(options.first, options.first + options.seeds)
    failed: list[Judgement] = []
    totals: dict[Combination, Tally] = {}
    _say(header())
    with _runner(options.workers) as runs:
        for combination in chosen:
            started = time.monotonic()
            total = tally(combination, seeds, runs)
            _say(line(combination, total, time.monotonic() - started))
            failed += total.failed
            totals[combination] = total
    if failed:
        _say(replay(failed[0]))
    grown = list(unordered(totals))
    for text in grown[:FLAWS_SHOWN_MAX]:
        _say(text)
    _say(f"seeds on which a policy holds more entries than it should: {len(grown)}")
    return 1 if failed or grown else 0


if __name__ == "__main__":
    sys.exit(main())
