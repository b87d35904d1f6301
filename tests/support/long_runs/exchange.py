"""Random networks in which one link is exchanged for another, by each exchange protocol.

Without `--protocol` all of them meet the same seeds. Seeds in a row go through all ways to route but hierarchical ones
and all orders; the same seed is the same network for every protocol. Two of three cycles have three brokers; with
`--cycles long` the length is drawn first, from four to twelve. There is one line for each protocol and order; the exit
code is 1 if something that is promised does not hold.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial

from pleach.core.overlay.registry import EXCHANGES
from pleach.scenario.model import Ordering
from pleach.trace import Rule
from support.long_runs.seeds import SeedRun, run_seeds
from support.overlay.exchange.exchange_networks import FLAT, PROTOCOLS, Cycles
from support.overlay.exchange.judgement import Judgement, Trial, judge_exchange, replay, trial_of

COUNTED = (Rule.LOST, Rule.DUPLICATE, Rule.FIFO, Rule.CAUSAL)
COLUMNS = {
    "refused": lambda j: j.refused,
    **{rule.value: lambda j, rule=rule: j.broken[rule] for rule in COUNTED},
    "afterwards": lambda j: j.published_afterwards,
}


def add_options(parser: ArgumentParser) -> None:
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


def run(options: Namespace) -> int:
    return 1 if run_seeds([_seed_run(each, options) for each in options.protocol or PROTOCOLS], options) else 0


def _seed_run(protocol: str, options: Namespace) -> SeedRun[Judgement]:
    of_seed = partial(_trial, protocol, options.ordering, options.only, options.cycles)
    return SeedRun(
        judge=partial(_judge, of_seed),
        raised=partial(_raised, of_seed),
        name_of=lambda judgement: judgement.trial.name,
        replay=replay,
        columns=COLUMNS,
    )


def _trial(protocol: str, ordering: str, only: str, cycles: str, seed: int) -> Trial:
    return trial_of(seed, protocol, ordering, only, Cycles(cycles))


def _judge(of_seed: partial[Trial], seed: int) -> Judgement:
    return judge_exchange(seed, of_seed(seed))


def _raised(of_seed: partial[Trial], seed: int, flaws: list[str]) -> Judgement:
    return Judgement(seed, of_seed(seed), flaws=flaws)
