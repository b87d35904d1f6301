"""Carrying plans out: what may start when, what a refusal stops, and what is said at the end."""

from random import Random

import pytest

from pleach.core.overlay.plans import Plan, PlanPhase, PlanRun, SwapStep, Topology, transform
from pleach.core.overlay.plans.run import TRANSITIONS, StepAnswer
from pleach.errors import PlanError, PlanRunError
from support.overlay.labelled_trees import names_of, random_tree, replayed
from support.thorough import FACTOR

# a–b–c and d–e–f swap side by side, then c–d–e over both
CHAIN = Topology.of([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f")])
PLAN = Plan.of(CHAIN, [SwapStep("a", "b", "c"), SwapStep("f", "e", "d"), SwapStep("b", "c", "d")])


def start_all(run):
    names = [operation.name for operation in run.startable()]
    for name in names:
        run.started(name)
    return names


class Network:
    """Brokers that answer as a seed says, one at a time, each after a while; they check what they are asked."""

    def __init__(self, plan, seed):
        self.random = Random(seed)
        self.run = PlanRun(plan, "p")
        self.brokers, self.links = frozenset(plan.start.brokers), frozenset(plan.start.links)
        self.running = {}
        self.started = set()

    def go(self, *, steps_max=10_000, refusals=0.0, silent=0.0):
        for _ in range(steps_max):
            if self.run.is_over:
                assert not self.running
                return self.run.outcome()
            self.start()
            if self.running:
                self.answer(refusals, silent)
        raise AssertionError("a run without an end")

    def start(self):
        for operation in self.run.startable():
            if self.random.random() < 0.2:  # a driver may be slow to start
                continue
            busy = {broker for other in self.running.values() for broker in other.brokers}
            assert busy.isdisjoint(operation.brokers)
            self.run.started(operation.name)
            self.running[operation.name] = operation
            self.started.add(operation.name)

    def answer(self, refusals, silent):
        name = self.random.choice(sorted(self.running))
        operation = self.running.pop(name)
        draw = self.random.random()
        if draw < refusals:
            self.run.refused(name, "never")
        elif draw < refusals + silent:
            self.run.unanswered(name, "no answer")
        else:
            self.brokers, self.links = replayed(self.brokers, self.links, operation.step)
            self.run.done(name)


def random_plan(seed):
    random = Random(seed)
    names = names_of(24)
    return transform(*(random_tree(random, random.sample(names, 20)) for _ in range(2)), width=1)


def test_steps_start_in_parallel_and_in_order():
    run = PlanRun(PLAN, "p")
    assert [operation.name for operation in run.startable()] == ["p.1", "p.2"]
    assert run.startable()[0].step == SwapStep("a", "b", "c")
    assert run.startable()[1].brokers == ("f", "e", "d")
    assert start_all(run) == ["p.1", "p.2"]
    run.done("p.2")
    assert run.startable() == []
    assert not run.is_over
    run.done("p.1")
    assert start_all(run) == ["p.3"]
    run.done("p.3")
    assert run.is_over
    assert run.outcome().complete
    assert run.outcome().reached == PLAN.result
    assert run.outcome().lines() == ["done: the tree is as planned"]
    assert run.outcome().brokers_not_as_planned == ()


def test_every_plan_is_carried_out():
    for seed in range(20 * FACTOR):
        network = Network(random_plan(seed), seed)
        outcome = network.go()
        assert outcome.complete
        assert (frozenset(outcome.reached.brokers), frozenset(outcome.reached.links)) == (
            network.brokers,
            network.links,
        )
        assert outcome.reached == network.run.plan.result


def test_whatever_fails_the_outcome_tells_the_truth():
    failed = 0
    for seed in range(40 * FACTOR):
        network = Network(random_plan(seed), seed)
        outcome = network.go(refusals=0.05, silent=0.02)  # a step without an answer has not happened, here
        failed += not outcome.complete
        assert (frozenset(outcome.reached.brokers), frozenset(outcome.reached.links)) == (
            network.brokers,
            network.links,
        )
        assert outcome.rest.start == outcome.reached
        assert outcome.rest.result == network.run.plan.result
        check_brokers(outcome, network)
        check_that_only_dependents_wait(outcome, network)
    assert failed > 20


def check_brokers(outcome, network):
    planned, found = outcome.plan.result.around, outcome.reached.around
    unknown = {b for left in outcome.unfinished if left.phase is PlanPhase.UNKNOWN for b in left.brokers}
    assert set(outcome.brokers_as_planned) == {b for b in found if found[b] == planned.get(b)} - unknown
    assert {*outcome.brokers_as_planned, *outcome.brokers_not_as_planned} == {*planned, *found} | unknown
    assert {*outcome.difference.links_missing} == {*outcome.plan.result.links} - network.links
    assert {*outcome.difference.links_extra} == network.links - {*outcome.plan.result.links}


def check_that_only_dependents_wait(outcome, network):
    """Rule 2: what waits at the end depends on something that failed; all else is done."""
    left = {int(left.operation.removeprefix("p.")) - 1: left for left in outcome.unfinished}
    for index, unfinished in left.items():
        assert unfinished.phase in {PlanPhase.WAITING, PlanPhase.REFUSED, PlanPhase.UNKNOWN}
        if unfinished.phase is PlanPhase.WAITING:
            assert any(other in left for other in outcome.plan.dependencies[index])
            assert unfinished.operation not in network.started


def test_the_rest_of_a_plan_can_be_carried_out_later():
    run = PlanRun(PLAN, "p")
    start_all(run)
    run.done("p.2")
    run.refused("p.1", "a is being moved")
    assert run.is_over
    outcome = run.outcome()
    assert outcome.lines() == [
        "1 of 3 steps done; planned and not there: link a–c, link b–d; there and not planned: link a–b, link b–c",
        "  p.1 (swap a, b, c) is refused: a is being moved",
        "  p.3 (swap b, c, d) is waiting: waits for p.1",
    ]
    assert outcome.brokers_as_planned == ("e", "f")
    assert outcome.brokers_not_as_planned == ("a", "b", "c", "d")
    again = PlanRun(outcome.rest, "q")
    for name in ("q.1", "q.2"):
        assert start_all(again) == [name]
        again.done(name)
    assert again.outcome().reached == PLAN.result


def test_a_late_answer_is_welcome():
    run = PlanRun(PLAN, "p")
    start_all(run)
    run.done("p.2")
    run.unanswered("p.1", "no answer for 30 s")
    assert run.is_over
    assert run.outcome().brokers_as_planned == ("e", "f")
    assert str(run.outcome().unfinished[0]) == "p.1 (swap a, b, c) is unknown: no answer for 30 s"
    run.done("p.1")
    assert not run.is_over
    assert start_all(run) == ["p.3"]


def test_brokers_of_a_step_that_runs_are_not_as_planned_even_if_their_links_look_so():
    """There and back: while the first step runs, all links look as planned, and are not known to be there."""
    plan = Plan.of(CHAIN, [SwapStep("a", "b", "c"), SwapStep("a", "c", "b")])
    run = PlanRun(plan, "p")
    start_all(run)
    assert run.outcome().brokers_not_as_planned == ("a", "b", "c")
    assert run.outcome().difference.links_missing == ()


def tell(run, told):
    match told:
        case StepAnswer.STARTED:
            run.started("p.1")
        case StepAnswer.DONE:
            run.done("p.1")
        case StepAnswer.REFUSED:
            run.refused("p.1", "why")
        case StepAnswer.UNANSWERED:
            run.unanswered("p.1", "why")


PATHS = {
    PlanPhase.WAITING: [],
    PlanPhase.RUNNING: [StepAnswer.STARTED],
    PlanPhase.DONE: [StepAnswer.STARTED, StepAnswer.DONE],
    PlanPhase.REFUSED: [StepAnswer.STARTED, StepAnswer.REFUSED],
    PlanPhase.UNKNOWN: [StepAnswer.STARTED, StepAnswer.UNANSWERED],
}


@pytest.mark.parametrize("told", StepAnswer)
@pytest.mark.parametrize("phase", PlanPhase)
def test_every_phase_takes_what_the_table_says_and_nothing_else(phase, told):
    run = PlanRun(PLAN, "p")
    for before in PATHS[phase]:
        tell(run, before)
    if (phase, told) in TRANSITIONS:
        tell(run, told)
        left = {unfinished.operation: unfinished.phase for unfinished in run.outcome().unfinished}
        assert left.get("p.1", PlanPhase.DONE) is TRANSITIONS[phase, told]
    else:
        state = run.outcome()
        with pytest.raises(PlanRunError, match=rf"p\.1: '{told}' is not possible now \(it is {phase}\)"):
            tell(run, told)
        assert run.outcome() == state


def test_a_step_does_not_start_before_what_it_depends_on():
    run = PlanRun(PLAN, "p")
    with pytest.raises(PlanRunError, match=r"p\.3: 'started' is not possible now \(it waits for p\.1, p\.2\)"):
        run.started("p.3")
    with pytest.raises(PlanRunError, match=r"operations of this run are p\.1 to \.3"):
        run.done("q.1")


@pytest.mark.parametrize("name", ["", "two words", "x" * 33, "tab\t"])
def test_names_of_runs_are_short_and_plain(name):
    with pytest.raises(PlanError, match="is no name for a run"):
        PlanRun(PLAN, name)


def test_an_empty_plan_is_over_at_once():
    run = PlanRun(Plan.of(CHAIN, []), "p")
    assert run.is_over
    assert run.outcome().complete
