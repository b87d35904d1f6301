"""One run of a network in which brokers die for good, and everything that must hold of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pleach.scenario.model import Ordering, Scenario
from pleach.scenario.steps import Crash, Restart
from pleach.trace import Record, RecordKind
from pleach.trace.broker_losses import GIVEN_UP
from support.contract.judgement import FLAWS_SHOWN_MAX
from support.long_runs.output import explained, replay_command
from support.overlay.changing_trees import Setting
from support.overlay.dying_brokers import AFTER, Worse, afflicted, setting_of
from support.overlay.judgement import Watched, violations

MENDED_WITHIN = AFTER + 0.4  # seconds after the last fault: the stand-in, and what its neighbours have to tell


@dataclass
class Healed:
    """What one run came to. `flaws` says in words what does not hold; empty means that all does."""

    seed: int
    setting: Setting
    flaws: list[str] = field(default_factory=list)
    deaths: int = 0
    crashes: int = 0  # of brokers that came back
    published: int = 0
    deliveries: int = 0
    with_brokers: int = 0  # lost, since they sat solely on brokers that never returned
    for_order: int = 0  # given up for the sake of order
    mended_after: float = 0.0  # seconds, from the last fault until the last stand-in served


def judge_healing(seed: int, setting: Setting | None = None, worse: Sequence[Worse] = ()) -> Healed:
    setting = setting or setting_of(seed)
    scenario = afflicted(seed, setting, worse)
    watched = Watched(scenario, seed)
    return assess(scenario, seed, setting, watched)


def assess(scenario: Scenario, seed: int, setting: Setting, watched: Watched) -> Healed:
    verdict = watched.finish()
    healed = Healed(seed, setting, watched.flaws)
    healed.deaths = sum(isinstance(step, Crash) and step.for_good for step in scenario.steps)
    healed.crashes = sum(isinstance(step, Restart) for step in scenario.steps)
    healed.published, healed.deliveries = verdict.counts.published, verdict.counts.deliveries
    healed.for_order = sum(each.reason.startswith(GIVEN_UP) for each in verdict.departed)
    healed.with_brokers = len(verdict.departed) - healed.for_order
    healed.flaws += violations(verdict)
    if setting.ordering is Ordering.CAUSAL:
        dropped = [r for r in watched.run.recorder.records if r.detail.startswith("dropped: ")]
        healed.flaws += [f"{r.node} was sent something twice: {r.detail}" for r in dropped[:FLAWS_SHOWN_MAX]]
    healed.mended_after = mended_after(scenario, watched.run.recorder.records)
    if healed.mended_after > MENDED_WITHIN:
        healed.flaws.append(f"mended only {healed.mended_after:.3f} s after the last fault")
    return healed


def mended_after(scenario: Scenario, records: Sequence[Record]) -> float:
    faults = [step.at for step in scenario.steps if isinstance(step, Crash | Restart)]
    served = [r.at for r in records if r.kind == RecordKind.STATE and r.detail == "standin: serving"]
    return max([0.0, *(at - max(faults) for at in served)])


def replay(healed: Healed, worse: Sequence[Worse] = ()) -> str:
    only = ["--only", healed.setting.name] if healed.setting != setting_of(healed.seed) else []
    command = replay_command("heal", healed.seed, *only, *(f"--{each}" for each in worse))
    return explained(command, healed.flaws, where=healed.setting.name)
