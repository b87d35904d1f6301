"""Operations of a timeline: asked for in an operator's name, under way until the broker asked says how they ended."""

import pytest

from pleach.core.messages import OPERATOR
from pleach.scenario.load import parse_scenario
from pleach.scenario.model import Routing, Scenario
from pleach.scenario.steps import AddBroker, Exchange, RemoveBroker, Swap
from pleach.sim.operations import OperationContext, SimOperations
from pleach.sim.run import ScenarioRun, run_scenario
from pleach.sim.simulator import Simulator
from pleach.trace import judge
from support.sim.toy_swap import PATIENCE_SECONDS, ToyBroker
from support.thorough import FACTOR

CHAIN = [("a", "b"), ("b", "c")]
SCENARIO = Scenario(name="s", routing=Routing.SIMPLE, links=tuple(CHAIN), duration=1.0)
SWAP = Swap(at=0.0, brokers=("a", "b", "c"))


AGAIN = """
name = "again"
routing = "simple"
root = "a"
links = [["a", "b"], ["b", "c"], ["c", "d"], ["a", "e"]]
duration = 20.0
latency = {{ default = 0.001 }}
{more}

[[clients]]
id = "s"
broker = "a"
subscribe = ["x = 1"]

[[clients]]
id = "p"
broker = "c"
publish = {{ every = 0.05, from = 2.0, until = 18.0, attributes = {{ x = 1 }} }}

[[steps]]
at = 4.0
do = "remove_broker"
broker = "d"

[[steps]]
at = 10.0
do = "add_broker"
broker = "d"
to = "a"
"""
COLOURED = '[stabilise]\nkind = "coloured"\nrefresh = 0.1\nperiod = 0.6\nheight = 4\ndelay = [0.0, 0.01]'


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
        around = OperationContext(
            self.sim,
            self.brokers,
            bring_in=self.bring_in,
            ask=self.ask,
            is_down=self.down.__contains__,
            scenario=SCENARIO,
            refuse=lambda step, reason: self.refusals.append((step, reason)),
            note=lambda node, detail: self.notes.append((self.sim.now, node, detail)),
            begins=lambda disturbance: None,
            ends=lambda disturbance: None,
        )
        self.operations = SimOperations(around)
        self.sim.on_concluded = lambda _at, node, end: self.operations.concluded(node, end)

    def make(self, name):
        return ToyBroker(name, is_deaf=name in self.deaf)

    def bring_in(self, name):
        self.brokers[name] = fresh = self.make(name)
        self.sim.add(name, fresh)
        self.sim.perform(name, fresh.resume(now=self.sim.now))

    def ask(self, name, request):
        self.sim.perform(name, self.brokers[name].handle(OPERATOR, request, now=self.sim.now))

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


def test_a_broker_that_is_still_there_is_not_brought_in_again():
    """A fresh one would take its place under everybody's feet."""
    world = World()
    former = world.brokers["a"]
    step = AddBroker(at=0.0, broker="a", to="c")
    world.operations.start(step)
    assert world.brokers["a"] is former
    assert world.refusals == [(step, "broker a is still there")]


@pytest.mark.parametrize("more", ["", "[standby]\nafter = 0.5", COLOURED])
def test_a_broker_that_has_left_joins_again_without_its_former_neighbours(more):
    """It is started anew: what the scenario's first tree had of it is over."""
    run = ScenarioRun(parse_scenario(AGAIN.format(more=more), "test"), 1)
    result = run.finish()
    assert not result.refusals
    assert sorted(run.brokers["d"].router.neighbours) == ["a"]
    verdict = judge(result.records)
    assert verdict.counts.deliveries > 100
    assert verdict.clean


def test_an_exchange_is_a_plan_whose_operations_are_named_after_it():
    world = World()
    world.operations.start(Exchange(at=0.0, remove=("a", "b"), add=("a", "c")))
    assert [operation.name for operation in world.operations.under_way] == ["1.1"]
    assert world.sim.drain()
    assert not world.operations.under_way
    assert not world.refusals


def test_a_broker_in_the_middle_is_removed_after_the_swap_that_makes_it_a_leaf():
    world = World()
    world.operations.start(RemoveBroker(at=0.0, broker="b"))
    world.sim.drain()
    assert [note[2] for note in world.notes if "done" in note[2]] == ["operation 1.1: done", "operation 1.2: done"]
    assert list(world.brokers) == ["a", "c"]


def test_a_plan_whose_first_step_is_refused_starts_nothing_more():
    world = World(deaf="ac")
    step = RemoveBroker(at=0.0, broker="b")
    world.operations.start(step)
    world.sim.drain()
    ((told, reason),) = world.refusals
    assert told == step
    assert "no answer" in reason
    assert list(world.brokers) == ["a", "b", "c"]


def test_what_cannot_be_planned_is_refused():
    world = World()
    step = Exchange(at=0.0, remove=("a", "c"), add=("a", "b"))
    world.operations.start(step)
    ((told, reason),) = world.refusals
    assert told == step
    assert "there is no link a–c" in reason


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


TREE = """
name = "a tree that changes"
routing = "covering"
links = [["a", "b"], ["b", "c"], ["c", "d"], ["c", "e"]]
duration = 4.0
[latency]
default = [0.001, 0.02]
[[clients]]
id = "p"
broker = "a"
publish = { every = 0.01, until = 3.0, attributes = { x = { sequence = true } } }
subscribe = ["y >= 0"]
[[clients]]
id = "q"
broker = "c"
publish = { every = 0.01, until = 3.0, attributes = { y = { sequence = true } } }
subscribe = ["x >= 0"]
[[clients]]
id = "s"
broker = "e"
subscribe = ["x >= 0", "y >= 0"]
"""
CHANGES = {
    "swap": "do = 'swap'\nbrokers = ['a', 'b', 'c']",
    "exchange": "do = 'exchange'\nremove = ['b', 'c']\nadd = ['a', 'e']",
    "add": "do = 'add_broker'\nbroker = 'f'\nto = 'b'",
    "remove a leaf": "do = 'remove_broker'\nbroker = 'e'",
    "remove from the middle": "do = 'remove_broker'\nbroker = 'c'",
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_the_tree_lose_double_and_reorder_nothing(change):
    for seed in range(5 * FACTOR):
        scenario = parse_scenario(f"{TREE}[[steps]]\nat = 1.0\n{CHANGES[change]}\n")
        found = []
        result = run_scenario(scenario, seed, watch=lambda brokers, found=found: found.append(dict(brokers)))
        assert result.refusals == ()
        assert result.quiet
        verdict = judge(result.records)
        assert verdict.clean, str(verdict)
        for name, broker in found[-1].items():
            for neighbour in broker.router.neighbours:
                assert name in found[-1][neighbour].router.neighbours
        assert ("f" in found[-1]) == (change == "add")


def test_a_broker_of_a_swap_crashes_and_the_swap_goes_on_after_its_restart():
    steps = "".join(
        f"[[steps]]\nat = {at}\n{what}\n"
        for at, what in (
            (1.0, CHANGES["swap"]),
            (1.02, "do = 'crash'\nbroker = 'c'"),
            (1.5, "do = 'restart'\nbroker = 'c'"),
            (2.0, "do = 'crash'\nbroker = 'a'"),
            (2.5, "do = 'restart'\nbroker = 'a'"),
        )
    )
    for seed in range(5 * FACTOR):
        result = run_scenario(parse_scenario(TREE + steps), seed)
        assert result.quiet
        assert result.refusals == ()
        assert judge(result.records).clean
