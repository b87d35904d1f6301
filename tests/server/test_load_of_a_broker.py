"""The share of time that a broker computes, from which the cost of an event follows."""

import pytest

from pleach.server import council
from pleach.server.council import LOAD_MAX, LOAD_SECONDS, PROCESSING_MILLISECONDS, Load


class Clocks:
    """Those of a process that computes a share of the time, since long."""

    def __init__(self, monkeypatch):
        self.wall, self.busy = 1_000.0, 300.0
        monkeypatch.setattr(council.time, "monotonic", lambda: self.wall)
        monkeypatch.setattr(council.time, "process_time", lambda: self.busy)

    def run(self, load, seconds, share):
        for _ in range(round(seconds)):
            self.wall += 1.0
            self.busy += share
            load.sample()


@pytest.mark.parametrize("share", [0.0, 0.5, 0.8])
def test_the_cost_of_an_event_grows_as_queues_do(monkeypatch, share):
    clocks = Clocks(monkeypatch)
    load = Load()
    clocks.run(load, 20 * LOAD_SECONDS, share)
    assert load.milliseconds == pytest.approx(PROCESSING_MILLISECONDS / (1 - share), rel=0.01)


def test_it_has_a_limit_and_comes_down_again(monkeypatch):
    clocks = Clocks(monkeypatch)
    load = Load()
    clocks.run(load, 20 * LOAD_SECONDS, 1.5)  # several threads
    assert load.milliseconds == pytest.approx(PROCESSING_MILLISECONDS / (1 - LOAD_MAX))
    clocks.run(load, 20 * LOAD_SECONDS, 0.0)
    assert load.milliseconds == pytest.approx(PROCESSING_MILLISECONDS, rel=0.01)
