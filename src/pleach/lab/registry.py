"""Every experiment, by its name: one line each."""

from __future__ import annotations

from types import MappingProxyType

from pleach.errors import ExperimentError
from pleach.lab.experiment import Experiment
from pleach.lab.hops import HOPS_BY_POLICY
from pleach.lab.swap_or_cycle import SWAP_OR_CYCLE
from pleach.lab.table1 import TABLE1

EXPERIMENTS: MappingProxyType[str, Experiment] = MappingProxyType(
    {experiment.name: experiment for experiment in (HOPS_BY_POLICY, SWAP_OR_CYCLE, TABLE1)}
)


def experiment_named(name: str) -> Experiment:
    try:
        return EXPERIMENTS[name]
    except KeyError:
        raise ExperimentError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}") from None
