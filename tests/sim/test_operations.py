"""Operations of a timeline: asked for in an operator's name, under way until the broker asked says how they ended."""

import pytest
from toy_swap import PATIENCE_SECONDS, ToyBroker

from pleach.scenario.load import parse_scenario
from pleach.scenario.steps import AddBroker, Exchange, RemoveBroker, Swap
from pleach.sim.operations import Operations, Surroundings
from pleach.sim.run import run_scenario
from pleach.sim.simulator import Simulator

CHAIN = [("a", "b"), ("b", "c")]
SWAP = Swap(at=0.0, brokers=("a", "b", "c"))


class World:
    """Three brokers in a row with the toy protocol, and what operations told of themselves."""

    def __init__(self, *, deaf=()):
        self.sim = Simulator("s")
        self.sim.on_link = lambda link: link.set_latency((0.1, 0.1))
        self.deaf = deaf
        self.down = set()
        self.refusals = []
        self.notes = []
        self.brokers = {name: self.make(name) for name in "abc"}
        for a, b in CHAIN:
            self.brokers[a].connect(b)
            self.brokers[b].connect(a)
        for name, broker in self.brokers.items():
            self.sim.add(name, broker)
        for a, b in CHAIN:
            self.sim.link(a, b)
        around = Surroundings(
            self.sim,
            self.brokers,
            make_broker=self.make,
            is_down=self.down.__contains__,
            refuse=lambda step, reason: self.refusals.append((step, reason)),
            note=lambda node, detail: self.notes.append((self.sim.now, node, detail)),
        )
        self.operations = Operations(around)
        self.sim.on_concluded = lambda _at, node, end: self.operations.concluded(node, end)

    def make(self, name):
        return ToyBroker(name, is_deaf=name in self.deaf)

    def restart(self, name):
        disk = self.brokers[name].capture()
        self.sim.crash(name)
        self.brokers[name] = fresh = self.make(name)
        fresh.restore(disk)
        self.sim.restart(name, fresh)
        self.sim.perform(name, fresh.resume(now=self.sim.now))


def test_a_swap_is_under_way_until_its_broker_concludes_it():
    world = World()
    world.operations.start(SWAP)
    assert [(o.name, o.broker) for o in world.operations.under_way] == [("1", "a")]
    assert world.sim.has_link("a", "c")
    assert world.sim.drain()
    assert not world.operations.under_way
    assert not world.sim.has_link("a", "c")
    assert world.sim.now == pytest.approx(0.2)
    assert [note[1:] for note in world.notes] == [("a", "operation 1: swap a b c"), ("a", "operation 1: done")]
    assert not world.refusals


def test_a_refusal_is_told_with_its_reason():
    world = World(deaf="c")
    world.operations.start(SWAP)
    assert world.sim.drain()
    assert world.refusals == [(SWAP, "no answer")]
    assert world.sim.now == pytest.approx(PATIENCE_SECONDS)


def test_operations_are_numbered():
    world = World()
    for _ in range(3):
        world.operations.start(SWAP)
        world.sim.drain()
    assert [note[2] for note in world.notes if "done" in note[2]] == [f"operation {n}: done" for n in (1, 2, 3)]


def test_a_broker_that_restarts_resumes_what_its_timers_were_for():
    """The timer of the former life is gone; the one that `resume` sets ends the operation."""
    world = World(deaf="c")
    world.operations.start(SWAP)
    world.sim.at(3.0, lambda: world.restart("a"))
    world.sim.run()
    assert world.refusals == [(SWAP, "no answer")]
    assert world.sim.now == pytest.approx(3.0 + PATIENCE_SECONDS)


def test_a_broker_that_is_down_is_not_asked():
    world = World()
    world.down.add("a")
    world.operations.start(SWAP)
    assert world.refusals == [(SWAP, "broker a is down")]
    assert not world.operations.under_way


def test_brokers_come_and_go_with_their_operations():
    world = World()
    world.operations.start(AddBroker(at=0.0, broker="d", to="c"))
    world.sim.drain()
    assert list(world.brokers) == ["a", "b", "c", "d"]
    world.operations.start(RemoveBroker(at=1.0, broker="a"))
    world.sim.drain()
    assert list(world.brokers) == ["b", "c", "d"]


@pytest.mark.parametrize(
    "step", [RemoveBroker(at=0.0, broker="b"), Exchange(at=0.0, remove=("a", "b"), add=("a", "c"))]
)
def test_what_takes_a_plan_is_refused_until_there_are_plans(step):
    world = World()
    world.operations.start(step)
    assert [told for told, _ in world.refusals] == [step]


def test_a_request_that_cannot_be_met_is_refused_and_the_run_goes_on():
    """Whatever protocol is installed: c and a are not neighbours."""
    scenario = parse_scenario(
        """
        name = "asked in vain"
        routing = "simple"
        links = [["a", "b"], ["b", "c"]]
        duration = 1.0
        clients = [{ id = "p", broker = "a", publish = { every = 0.1, attributes = { x = 1 } } },
                   { id = "s", broker = "c", subscribe = ["x = 1"] }]
        steps = [{ at = 0.5, do = "swap", brokers = ["c", "a", "b"] }]
        """
    )
    result = run_scenario(scenario, 1)
    assert result.quiet
    assert [refusal.step for refusal in result.refusals] == ["swap"]
    details = [record.detail for record in result.records if record.kind == "state"]
    assert "operation 1: swap c a b" in details
