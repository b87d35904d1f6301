"""What every experiment must be like, so that it can be run, resumed, drawn and looked up."""

import pytest

from pleach.errors import ExperimentError
from pleach.lab import code_digest
from pleach.lab.campaigns import tasks_of
from pleach.lab.experiment import Size, case_key
from pleach.lab.registry import EXPERIMENTS, experiment_named

every_experiment = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda experiment: experiment.name)


@every_experiment
def test_it_has_cases_and_seeds_at_every_size(experiment):
    counts = [len(tasks_of(experiment, size)) for size in Size]
    assert all(counts)
    assert counts[0] <= counts[1] <= counts[2]


@every_experiment
def test_cases_are_plain_values_and_each_is_there_once(experiment):
    for size in Size:
        cases = experiment.cases(size)
        assert len({case_key(case) for case in cases}) == len(cases)
        assert all(isinstance(value, str | int | float | bool) for case in cases for value in case.values())
        assert all(experiment.cost(case) > 0 for case in cases)


@every_experiment
def test_the_same_case_and_seed_give_the_same_samples(experiment):
    case = experiment.cases(Size.QUICK)[0]
    once = list(experiment.measure(case, 0))
    assert once
    assert list(experiment.measure(case, 0)) == once


@every_experiment
def test_its_measurement_can_travel(experiment):
    """A function of a module of the package: executors import it by its name."""
    measure = getattr(experiment.measure, "func", experiment.measure)
    assert measure.__module__.startswith("pleach.")
    assert "<" not in measure.__qualname__


TOGETHER = {"hops"}  # one small file, for newcomers to start from


@pytest.mark.parametrize("name", sorted(EXPERIMENTS.keys() - TOGETHER))
def test_another_sentence_does_not_make_a_measurement_look_outdated(name):
    measure = getattr(EXPERIMENTS[name].measure, "func", EXPERIMENTS[name].measure)
    reached = code_digest._reached_from(measure.__module__)
    judging = {module for module in reached if "pleach.lab.findings" in code_digest._imported_by(module)}
    assert judging == {"pleach.lab.experiment"}, "findings are a field of its figures"


def test_figures_have_names_of_their_own():
    names = [shown.name for experiment in EXPERIMENTS.values() for shown in experiment.shown]
    assert len(set(names)) == len(names)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-._") for name in (*names, *EXPERIMENTS))


def test_an_unknown_experiment_is_refused_with_those_that_there_are():
    with pytest.raises(ExperimentError, match=r"no experiment 'hopps'; there are: .*hops"):
        experiment_named("hopps")
