"""One seed of one exchange protocol, and everything that the protocol promises of it.

Every protocol leaves a tree with tables that agree, in which everything reaches everyone. What it promises beyond that
stands in `pleach.lab.exchanges.table1_figures`. Consecutive seeds go through all
orders and all routing policies but hierarchical ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pleach.lab.exchanges.table1 import ProtocolRow
from pleach.lab.exchanges.table1_figures import Promise, promised
from pleach.scenario.model import Ordering
from pleach.trace import Rule
from support.contract.networks import BY_NAME, Combination
from support.long_runs.output import explained, replay_command
from support.overlay.exchange.exchange_networks import (
    COMPOSED,
    FLAT,
    Cycles,
    entries_outside,
    exchanged,
    network,
    steady,
)

RULES = {
    Promise.NO_LOSS: Rule.LOST,
    Promise.NO_DUPLICATE: Rule.DUPLICATE,
    Promise.FIFO: Rule.FIFO,
    Promise.CAUSAL: Rule.CAUSAL,
}
REFUTED = {("swaplink-published", Promise.CAUSAL)}  # docs/protocols/swaplink.md
FLAWS_SHOWN_MAX = 5


@dataclass(frozen=True)
class Trial:
    protocol: str
    combination: Combination
    ordering: Ordering
    cycles: Cycles = Cycles.ANY

    @property
    def name(self) -> str:
        return f"{self.protocol}/{self.ordering}"

    @property
    def row(self) -> ProtocolRow:
        return ProtocolRow(self.protocol, self.ordering)


@dataclass
class Judgement:
    """What one seed came to. `flaws` says in words what does not hold; empty means that all does."""

    seed: int
    trial: Trial
    flaws: list[str] = field(default_factory=list)
    broken: Counter[Rule] = field(default_factory=Counter)
    refused: int = 0
    published_afterwards: int = 0


def trial_of(seed: int, protocol: str, ordering: str = "", combination: str = "", cycles: Cycles = Cycles.ANY) -> Trial:
    """What is not given, the seed says: seeds in a row go through all of it."""
    orderings = list(Ordering)
    block = len(FLAT) * len(orderings)
    drawn = FLAT[(seed + seed // block) % len(FLAT)]  # shifted, so that faults, which go by the seed, meet all of them
    return Trial(
        protocol,
        BY_NAME[combination] if combination else drawn,
        Ordering(ordering) if ordering else orderings[seed // len(FLAT) % len(orderings)],
        cycles,
    )


def judge_exchange(seed: int, trial: Trial) -> Judgement:
    scenario = network(seed, trial.combination, trial.protocol, trial.ordering, trial.cycles)
    found = exchanged(scenario, seed)
    judgement = Judgement(seed, trial, found.flaws[:FLAWS_SHOWN_MAX], found.broken, len(found.refusals))
    judgement.published_afterwards = found.published_afterwards
    judgement.flaws += unkept(found.broken, trial.row)
    if Promise.INSIDE in promised(trial.row) and trial.combination in COMPOSED:
        judgement.flaws += _changes_outside(seed, trial)
    return judgement


def unkept(broken: Counter[Rule], row: ProtocolRow) -> list[str]:
    promises = [p for p in RULES if p in promised(row) and (row.protocol, p) not in REFUTED]
    return [f"promised: {p.name}; {RULES[p]}: {broken[RULES[p]]} times" for p in promises if broken[RULES[p]]]


def _changes_outside(seed: int, trial: Trial) -> list[str]:
    """On a run of its own, in which no client changes what it wants: then every entry that moves is one too many."""
    scenario = steady(seed, trial.combination, trial.protocol, trial.ordering, trial.cycles)
    found = entries_outside(scenario, seed)
    return [f"{r.message} {r.node} to {r.peer} at {r.at:g}, outside the cycle" for r in found[:FLAWS_SHOWN_MAX]]


def replay(judgement: Judgement) -> str:
    trial, usual = judgement.trial, trial_of(judgement.seed, judgement.trial.protocol)
    options = ["--protocol", trial.protocol]
    options += ["--ordering", trial.ordering] if trial.ordering != usual.ordering else []
    options += ["--only", trial.combination.name] if trial.combination != usual.combination else []
    options += ["--cycles", trial.cycles] if trial.cycles is not Cycles.ANY else []
    command = replay_command("exchange", judgement.seed, *options)
    return explained(command, judgement.flaws, where=f"{trial.combination.name}, {trial.ordering}")
