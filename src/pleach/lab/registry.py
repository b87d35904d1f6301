"""The registry of experiments by name."""

from __future__ import annotations

from types import MappingProxyType

from pleach.errors import ExperimentError
from pleach.lab.beyond import hops, large_network_table, planner_figures, self_tuning_table, settling_figures
from pleach.lab.exchanges import swap_or_cycle_figures, table1_figures
from pleach.lab.experiment import Experiment
from pleach.lab.s0 import figures as s0_figures
from pleach.lab.s1.chapter3 import figures as s1_filtering
from pleach.lab.s1.chapter4 import figures as s1_exchange_figures
from pleach.lab.s1.chapter5 import course_figures as s1_course_figures
from pleach.lab.s1.chapter5 import tuning_figures as s1_tuning_figures
from pleach.lab.s2 import figures as s2_path_figures
from pleach.lab.s3 import figures as s3_figures
from pleach.lab.s4 import movement as s4_movement

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
    s1_course_figures.PERFORMANCE,
    s1_course_figures.ADAPTIVITY,
    s1_tuning_figures.WEIGHTS,
    s1_tuning_figures.LOCALITY,
    settling_figures.SETTLES,
    settling_figures.OPTIMUM,
    planner_figures.PLANNER,
    self_tuning_table.SELF_TUNED,
    large_network_table.LARGE_NETWORK,
)
EXPERIMENTS: MappingProxyType[str, Experiment] = MappingProxyType({each.name: each for each in ALL})


def experiment_named(name: str) -> Experiment:
    try:
        return EXPERIMENTS[name]
    except KeyError:
        raise ExperimentError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}") from None
