"""Every experiment, by its name: one line each."""

from __future__ import annotations

from types import MappingProxyType

from pleach.errors import ExperimentError
from pleach.lab import (
    hops,
    planner_figures,
    s0_figures,
    s1_adaptivity_figures,
    s1_exchange_figures,
    s1_filtering,
    s1_performance_figures,
    s1_tuning_figures,
    s1_variations_figures,
    s2_path_figures,
    s3_figures,
    s4_movement,
    self_tuning_table,
    settling_figures,
    swap_or_cycle_figures,
    table1_figures,
)
from pleach.lab.experiment import Experiment

ALL = (
    hops.HOPS_BY_POLICY,
    table1_figures.TABLE1,
    swap_or_cycle_figures.SWAP_OR_CYCLE,
    s0_figures.PRIMITIVES,
    s2_path_figures.RECONFIGURATION_PATH,
    s1_exchange_figures.EXCHANGE_ON_A_CYCLE,
    s1_filtering.FILTERING,
    s3_figures.S3_TREE,
    s4_movement.MOVEMENT,
    s1_tuning_figures.RADIUS,
    s1_tuning_figures.CACHE,
    s1_performance_figures.PERFORMANCE,
    s1_adaptivity_figures.ADAPTIVITY,
    s1_variations_figures.WEIGHTS,
    s1_variations_figures.LOCALITY,
    settling_figures.SETTLES,
    settling_figures.OPTIMUM,
    planner_figures.PLANNER,
    self_tuning_table.SELF_TUNED,
)
EXPERIMENTS: MappingProxyType[str, Experiment] = MappingProxyType({each.name: each for each in ALL})


def experiment_named(name: str) -> Experiment:
    try:
        return EXPERIMENTS[name]
    except KeyError:
        raise ExperimentError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}") from None
