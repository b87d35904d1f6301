"""Every experiment, by its name: one line each."""

from __future__ import annotations

from types import MappingProxyType

from pleach.errors import ExperimentError
from pleach.lab import (
    hops,
    planner,
    s0_primitives,
    s1_course,
    s1_exchange,
    s1_filtering,
    s1_tuning,
    s1_variations,
    s2_path,
    s3_tree,
    s4_movement,
    self_tuning,
    settling,
    swap_or_cycle,
    table1,
)
from pleach.lab.experiment import Experiment

ALL = (
    hops.HOPS_BY_POLICY,
    table1.TABLE1,
    swap_or_cycle.SWAP_OR_CYCLE,
    s0_primitives.PRIMITIVES,
    s2_path.RECONFIGURATION_PATH,
    s1_exchange.EXCHANGE_ON_A_CYCLE,
    s1_filtering.FILTERING,
    s3_tree.S3_TREE,
    s4_movement.MOVEMENT,
    s1_tuning.RADIUS,
    s1_tuning.CACHE,
    s1_course.PERFORMANCE,
    s1_course.ADAPTIVITY,
    s1_variations.WEIGHTS,
    s1_variations.LOCALITY,
    settling.SETTLES,
    settling.OPTIMUM,
    planner.PLANNER,
    self_tuning.SELF_TUNED,
)
EXPERIMENTS: MappingProxyType[str, Experiment] = MappingProxyType({each.name: each for each in ALL})


def experiment_named(name: str) -> Experiment:
    try:
        return EXPERIMENTS[name]
    except KeyError:
        raise ExperimentError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}") from None
