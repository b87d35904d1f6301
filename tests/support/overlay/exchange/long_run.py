"""The longer run of the exchange protocols: random networks in which one link is exchanged, seed by seed.

    python tests/support/overlay/exchange/long_run.py --seeds 1000 --workers 2
    python tests/support/overlay/exchange/long_run.py --protocol advanced-coordinated --ordering causal --seeds 100000
    python tests/support/overlay/exchange/long_run.py --protocol path --cycles long --first 4711 --seeds 1

Without `--protocol` all of them meet the same seeds. Seeds in a row go through all ways to route but hierarchical ones
and all orders; the same seed is the same network for every protocol. Two of three cycles have three brokers; with
`--cycles long` the length is drawn first, from four to twelve. Progress goes to stderr, with the `--first` from which a
run that was stopped goes on. At the end there is one line for each protocol and order; the exit code is 1 if something
that is promised does not hold, and the command that replays each failing seed is printed, with what does not hold.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from pleach.core.overlay.registry import EXCHANGES
from pleach.scenario.model import Ordering
from pleach.trace import Rule
from support.overlay.exchange.exchanged import FLAT, PROTOCOLS, Cycles
from support.overlay.exchange.promised import Judgement, Trial, judge_exchange, replay, trial_of
from support.overlay.seed_runs import Progress, add_options, in_tasks, say


@dataclass
class Tally:
    """The runs of one protocol under one order, added up."""

    seeds: int = 0
    failed: int = 0
    refused: int = 0
    published_afterwards: int = 0
    broken: Counter[Rule] = field(default_factory=Counter)

    def add(self, judgement: Judgement) -> None:
        self.seeds += 1
        self.failed += bool(judgement.flaws)
        self.refused += judgement.refused
        self.published_afterwards += judgement.published_afterwards
        self.broken += judgement.broken


def judged(options: argparse.Namespace, seeds: range) -> list[Judgement]:
    protocols = options.protocol or PROTOCOLS
    return [_judged(seed, _trial(seed, protocol, options)) for seed in seeds for protocol in protocols]


def _trial(seed: int, protocol: str, options: argparse.Namespace) -> Trial:
    return trial_of(seed, protocol, options.ordering, options.only, Cycles(options.cycles))


def _judged(seed: int, trial: Trial) -> Judgement:
    try:
        return judge_exchange(seed, trial)
    except Exception as error:  # noqa: BLE001 whatever it raises, the other seeds are still to be judged
        return Judgement(seed, trial, flaws=[f"raised {type(error).__name__}: {error}"])


COUNTED = (Rule.LOST, Rule.DUPLICATE, Rule.FIFO, Rule.CAUSAL)
COLUMNS = ("refused", *(rule.value for rule in COUNTED), "afterwards")
HEADER = f"{'protocol/order':<36}{'seeds':>8}{'failed':>8}" + "".join(f"{column:>12}" for column in COLUMNS)


def line(name: str, total: Tally) -> str:
    columns = (total.refused, *(total.broken[rule] for rule in COUNTED), total.published_afterwards)
    return f"{name:<36}{total.seeds:>8,}{total.failed:>8,}" + "".join(f"{number:>12,}" for number in columns)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_options(parser, seeds=1000)
    parser.add_argument("--protocol", choices=sorted(EXCHANGES), action="append", help="may be given several times")
    parser.add_argument(
        "--ordering", choices=[o.value for o in Ordering], default="", help="all seeds under this order"
    )
    parser.add_argument("--only", choices=[c.name for c in FLAT], default="", help="all seeds with this way to route")
    parser.add_argument(
        "--cycles",
        choices=[c.value for c in Cycles],
        default=Cycles.ANY.value,
        help="any link for any other, in small networks; or cycles of four to twelve brokers",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    protocols = options.protocol or PROTOCOLS
    totals: dict[str, Tally] = {}
    progress, done, failed = Progress(options), 0, 0
    for task in in_tasks(partial(judged, options), options):
        for judgement in task:
            totals.setdefault(judgement.trial.name, Tally()).add(judgement)
            if judgement.flaws:
                failed += 1
                say(replay(judgement))
        done += len(task) // len(protocols)
        progress.note(done, failed)
    say(HEADER)
    for name in sorted(totals):
        say(line(name, totals[name]))
    say(f"{done:,} seeds of each of {len(protocols)}, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
