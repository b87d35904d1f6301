"""Plans whose steps exchange a link at once: what fits, what runs at the same time, how it is written and asked for."""

from random import Random

import pytest

from pleach.core.messages import RequestExchange, RequestSwap
from pleach.core.overlay.plans import (
    ExchangeStep,
    Plan,
    PlannedOperation,
    PlanRun,
    SwapStep,
    Topology,
    asked,
    decode_plan,
    describe,
    encode_plan,
    exchange,
    request_of,
    transform,
)
from pleach.core.overlay.registry import CYCLES, SWAPS
from pleach.errors import PlanError, StepError
from support.overlay.labelled_trees import names_of, random_tree, replayed
from support.thorough import FACTOR

# Two cycles that share no broker, a link between them, and a third exchange over both.
CHAIN = Topology.of([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "g"), ("g", "h")])
LEFT = ExchangeStep(("b", "c"), ("a", "d"), "path")
RIGHT = ExchangeStep(("f", "g"), ("h", "e"), "advanced-coordinated")
BOTH = ExchangeStep(("d", "e"), ("b", "g"), "strawman")
PLAN = Plan.of(CHAIN, [LEFT, RIGHT, BOTH])


def test_all_brokers_of_the_cycle_take_part():
    assert PLAN.touched[:2] == (("a", "b", "c", "d"), ("h", "g", "f", "e"))
    assert PLAN.touched[2] == ("b", "a", "d", "e", "h", "g")
    assert PLAN.dependencies == ((), (), (0, 1))
    assert PLAN.result == Topology.of(
        [("a", "b"), ("c", "d"), ("a", "d"), ("e", "f"), ("g", "h"), ("e", "h"), ("b", "g")]
    )


def test_disjoint_cycles_run_at_the_same_time():
    run = PlanRun(PLAN, "p")
    assert [operation.name for operation in run.startable()] == ["p.1", "p.2"]
    for name in ("p.1", "p.2"):
        run.started(name)
    run.done("p.2")
    assert run.startable() == []
    run.refused("p.1", "c is busy")
    assert run.is_over
    outcome = run.outcome()
    assert outcome.reached == Plan.of(CHAIN, [RIGHT]).result
    assert outcome.rest.steps == (LEFT, BOTH)
    assert outcome.lines()[1] == "  p.1 (exchange b–c for a–d by path) is refused: c is busy"


def test_a_plan_in_words():
    last = "link d–e goes, link b–g comes; touches b, a, d, e, h, g; after 1, 2"
    assert describe(PLAN) == [
        "3 exchanges, in 2 waves; the tree has 8 brokers then",
        "wave 1",
        "  1  exchange b–c for a–d by path                  link b–c goes, link a–d comes; touches a, b, c, d",
        "  2  exchange f–g for h–e by advanced-coordinated  link f–g goes, link h–e comes; touches h, g, f, e",
        "wave 2",
        f"  3  exchange d–e for b–g by strawman              {last}",
    ]
    mixed = Plan.of(CHAIN, [LEFT, SwapStep("h", "g", "f", "swaplink-published")])
    assert describe(mixed)[0].startswith("1 exchange, 1 swap, in 1 wave;")


def test_a_plan_in_a_file():
    data = encode_plan(PLAN)
    assert b'{"do":"exchange","remove":["b","c"],"add":["a","d"],"protocol":"path"}' in data
    assert decode_plan(data) == PLAN
    swap = Plan.of(CHAIN, [SwapStep("a", "b", "c", "swaplink-published")])
    assert b'{"do":"swap","a":"a","b":"b","c":"c","protocol":"swaplink-published"}' in encode_plan(swap)
    assert decode_plan(encode_plan(swap)) == swap


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (ExchangeStep(("b", "c"), ("a", "d"), "swaplink"), "'swaplink' exchanges no link at once; strawman, "),
        (ExchangeStep(("b", "c"), ("a", "d"), ""), "'' exchanges no link at once"),
        (ExchangeStep(("a", "c"), ("a", "d"), "path"), "there is no link a–c to remove"),
        (ExchangeStep(("b", "c"), ("a", "a"), "path"), "would join a broker to itself"),
        (ExchangeStep(("b", "c"), ("c", "d"), "path"), "is there already"),
        (ExchangeStep(("b", "c"), ("d", "f"), "path"), "joined without b–c, by d–e–f"),
        (ExchangeStep(("b", "c"), ("a", "z"), "path"), "'z' is not a broker"),
        (ExchangeStep(("z", "c"), ("a", "d"), "path"), "'z' is not a broker"),
        (SwapStep("a", "b", "c", "swop"), "'swop' is no protocol; there are swaplink, "),
    ],
)
def test_what_does_not_fit_is_refused_with_its_number(step, reason):
    with pytest.raises(StepError, match=reason) as caught:
        Plan.of(CHAIN, [RIGHT, step])
    assert caught.value.number == 2


@pytest.mark.parametrize("protocol", CYCLES)
def test_for_whole_cycles_an_exchange_is_one_step(protocol):
    plan = exchange(CHAIN, remove=("b", "c"), add=("a", "h"), protocol=protocol)
    assert plan.steps == (ExchangeStep(("b", "c"), ("a", "h"), protocol),)
    (operation,) = PlanRun(plan, "p").startable()
    assert asked(operation.step) == "a"
    assert request_of(operation, "swaplink") == RequestExchange("p.1", list("abcdefgh"), 1, protocol)


@pytest.mark.parametrize("protocol", SWAPS)
def test_for_the_others_it_is_swaps_and_these_say_which(protocol):
    plan = exchange(CHAIN, remove=("c", "b"), add=("h", "a"), protocol=protocol)
    assert plan.swaps == len(plan.steps) == 6
    assert plan.result == exchange(CHAIN, remove=("b", "c"), add=("a", "h"), protocol="path").result
    first = PlanRun(plan, "p").startable()[0]
    assert isinstance(request := request_of(first, "path"), RequestSwap)
    assert request.is_published == (protocol == "swaplink-published")


def test_a_swap_that_names_no_protocol_has_that_of_the_network():
    swap = PlannedOperation("o", SwapStep("a", "b", "c"), ("a", "b", "c"))
    assert request_of(swap, "path") == RequestExchange("o", ["a", "b", "c"], 0, "path")
    for protocol in ("swaplink", "auto", ""):
        assert request_of(swap, protocol) == RequestSwap("o", "a", "b", "c", protocol)


def test_an_exchange_that_leaves_no_tree_is_refused_whatever_the_protocol():
    for protocol in (*CYCLES, *SWAPS):
        with pytest.raises(PlanError, match="joined without b–c"):
            exchange(CHAIN, remove=("b", "c"), add=("d", "f"), protocol=protocol)


def test_any_tree_into_any_other_with_one_exchange_per_link_that_differs():
    """S1 Theorem 2; brokers that are in one tree only join first and leave last."""
    for seed in range(20 * FACTOR):
        random = Random(seed)
        names = names_of(16)
        start, target = (random_tree(random, random.sample(names, random.randint(2, 14))) for _ in range(2))
        plan = transform(start, target, protocol="path")
        assert plan.result == target
        assert plan.swaps == 0
        brokers, links = frozenset(start.brokers), frozenset(start.links)
        for step in plan.steps:
            brokers, links = replayed(brokers, links, step)
        assert links == {*target.links}
        if {*start.brokers} == {*target.brokers}:
            assert plan.exchanges == len(plan.steps) == len({*target.links} - {*start.links})


def test_transformed_by_swaps_they_say_which_too():
    target = Topology.of([("a", "c"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "g"), ("g", "h")])
    assert transform(CHAIN, target, protocol="swaplink-published").steps == (
        SwapStep("a", "b", "c", "swaplink-published"),
    )
