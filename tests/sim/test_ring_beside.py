"""A ring beside simulated brokers: they join by it, and their tree becomes that of the ring while events flow."""

from itertools import count

from pleach.core.ring.config import RingConfig
from pleach.scenario import parse_scenario, steps
from pleach.sim.ring_beside import RingBeside, RingSight
from pleach.sim.run import ScenarioRun
from pleach.trace import judge

SETTLE_SECONDS = 120.0

FOUNDERS = """
name = "ring beside"
routing = "covering"
exchange = "auto"
links = [["b0", "b1"], ["b0", "b2"]]
duration = 1000.0
{more}
[[clients]]
id = "desk"
broker = "b0"
subscribe = ["EXISTS n"]
publish = {{ every = 0.5, until = 200.0, attributes = {{ n = {{ sequence = true }} }} }}
"""


class Growing:
    def __init__(self, more="", seed=0):
        self.run = ScenarioRun(parse_scenario(FOUNDERS.format(more=more)), seed)
        self.ring = RingBeside(self.run, RingConfig())
        self.entered = []
        self.ring.on_entered = self.entered.append
        self._numbers = count(3)

    def grow(self, brokers, every=1.0):
        for _ in range(brokers):
            self.ring.join(f"b{next(self._numbers)}")
            self.advance(every)

    def advance(self, seconds):
        self.run.advance(self.run.sim.now + seconds)

    def settle(self):
        deadline = self.run.sim.now + SETTLE_SECONDS
        self.advance(1.0)
        while self.ring.sight is not RingSight.RIGHT and self.run.sim.now < deadline:
            self.advance(1.0)
        assert self.ring.sight is RingSight.RIGHT

    def degrees(self):
        return [len(broker.router.neighbours) for broker in self.run.brokers.values()]

    def verdict(self):
        self.ring.stop()
        result = self.run.finish()
        assert result.quiet
        return judge(result.records)


def test_brokers_that_join_one_by_one_become_the_tree_of_the_ring():
    network = Growing()
    network.grow(17)
    network.settle()
    assert sorted(network.entered) == sorted(f"b{number}" for number in range(3, 20))
    assert len(network.ring.tree()) == 20
    assert max(network.degrees()) <= 3
    verdict = network.verdict()
    assert not verdict.violations
    assert verdict.counts.deliveries == verdict.counts.published > 0


def test_the_tree_is_woven_while_brokers_keep_coming():
    network = Growing()
    network.grow(12)
    assert network.ring.outside
    assert network.ring.exchanged > 0


def test_a_broker_that_is_lost_is_missing_on_the_ring_until_it_serves_elsewhere():
    network = Growing("[standby]\n")
    network.grow(5)
    network.settle()
    lost = next(name for name, broker in network.run.brokers.items() if len(broker.router.neighbours) == 3)
    network.run.outages.take_destroy(steps.Destroy(at=network.run.sim.now, broker=lost))
    network.advance(1.5)
    assert lost not in network.ring.network.hosts
    network.advance(10.0)
    assert lost in network.ring.network.hosts
    network.settle()
    assert max(network.degrees()) <= 3
    assert not network.verdict().violations


def test_the_same_seed_gives_the_same_run():
    def seen(seed):
        network = Growing(seed=seed)
        network.grow(6)
        network.settle()
        return network.ring.tree(), network.run.sim.hops, network.run.sim.now, network.entered

    assert seen(1) == seen(1)
