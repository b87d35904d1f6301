"""Summaries as an experiment would give them, made up: for judgements, and for pictures."""

from pleach.lab.experiment import Summary


def summary(case, metric, mean, spread=0.0):
    """A mean that all seeds agree on, or nearly."""
    low, high = mean - spread, mean + spread
    return Summary(case, metric, 3, 3, mean, low, high, low, mean, high, high, high)


def summarised(experiment, size, means):
    """One for each case and metric of `means`, a function of the case that gives {metric: mean}."""
    return [
        summary(case, metric, mean) for case in experiment.cases(size) for metric, mean in means(dict(case)).items()
    ]
