"""Plans as JSON: what is written is read back, and what is wrong is refused with its place."""

import json
from contextlib import suppress
from random import Random

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pleach.core.overlay.plans import AddStep, Plan, SwapStep, Topology, add_broker, decode_plan, encode_plan, transform
from pleach.errors import InvalidInputError, PlanError, StepError
from support.overlay.labelled_trees import names_of, random_tree
from support.thorough import FACTOR

CHAIN = Topology.of([("a", "b"), ("b", "c")])
SWAP = Plan.of(CHAIN, [SwapStep("a", "b", "c"), AddStep("d", "c")])
GOOD = json.loads(encode_plan(SWAP))


def test_a_file_looks_like_this():
    assert encode_plan(SWAP).decode() == (
        "{\n"
        ' "version": 1,\n'
        ' "from": [\n  ["a","b"],\n  ["b","c"]],\n'
        ' "steps": [\n  {"do":"swap","a":"a","b":"b","c":"c"},\n  {"do":"add_broker","broker":"d","to":"c"}],\n'
        ' "to": [\n  ["a","c"],\n  ["b","c"],\n  ["c","d"]]\n'
        "}\n"
    )


def test_round_trip():
    for seed in range(20 * FACTOR):
        random = Random(seed)
        names = names_of(20, 'b"ü')
        start, target = (random_tree(random, random.sample(names, random.randint(1, 20))) for _ in range(2))
        plan = transform(start, target, width=1)
        assert decode_plan(encode_plan(plan)) == plan


def test_trees_of_one_broker_travel_too():
    alone = Topology.of([], ["a"])
    for plan in (Plan.of(alone, []), add_broker(alone, "b", to="a")):
        assert decode_plan(encode_plan(plan)) == plan
    assert json.loads(encode_plan(Plan.of(alone, [])))["from"] == [["a"]]


def changed(**parts):
    return json.dumps({**GOOD, **parts}).encode()


def without(key):
    return json.dumps({k: v for k, v in GOOD.items() if k != key}).encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "p.json: invalid JSON"),
        (b"\xff\xfe", "p.json: "),
        (b"[1]", "p.json: Expected `object`, got `array`"),
        (b"[" * 100_000, "p.json: Expected `object`"),
        (b'{"version": 1, "x": ' + b"[" * 100_000, "p.json: invalid JSON"),
        (without("version"), "p.json: Object missing required field `version`"),
        (changed(version=2), "p.json: version 2; this release reads version 1"),
        (changed(version="1"), "p.json: version: Expected `int`, got `str`"),
        (without("to"), "p.json: Object missing required field `to`"),
        (changed(extra=1), "p.json: Object contains unknown field `extra`"),
        (changed(steps={}), "p.json: steps: Expected `array`"),
        (changed(steps=[{"do": "swop"}]), r"p.json: steps\[0\].do: Invalid value 'swop'"),
        (changed(steps=[{"do": "swap", "a": "a", "b": "b"}]), r"p.json: steps\[0\]: Object missing required field `c`"),
        (changed(steps=[*GOOD["steps"], {"do": "remove_broker", "broker": 3}]), r"p.json: steps\[2\].broker: Expected"),
        (changed(steps=[{"do": "remove_broker", "broker": "a", "b": 1}]), r"steps\[0\]: Object contains unknown field"),
        (changed(**{"from": [["a", "b", "c"]]}), r"p.json: from\[0\]: 3 names; a link is two brokers"),
        (changed(**{"from": [["a", "b"], ["x"]]}), r"p.json: from\[1\]: 1 names; a link is two brokers"),
        (changed(**{"from": []}), "p.json: from: a tree has at least one broker"),
        (changed(**{"from": [["a", "b"], ["c", "d"]]}), "p.json: from: no link joins {a, b} to the rest"),
        (changed(to=[["a", "b"], ["b", "c"], ["c", "a"]]), "p.json: to: links close a cycle: "),
        (
            changed(to=[["a", "b"], ["b", "c"]]),
            "p.json: to: the steps lead to another tree .planned and not there: link",
        ),
        (changed(steps=GOOD["steps"][1:]), "p.json: to: the steps lead to another tree"),
        (changed(steps=GOOD["steps"] * 2), r"p.json: step 3 \(swap a, b, c\): there is no link a–b"),
    ],
)
def test_bad_files_are_refused_with_the_place(data, reason):
    with pytest.raises(PlanError, match=reason):
        decode_plan(data, source="p.json")


def test_a_step_that_does_not_fit_is_a_step_error():
    with pytest.raises(StepError) as caught:
        decode_plan(changed(steps=GOOD["steps"] * 2))
    assert caught.value.number == 3


def test_a_file_has_a_bounded_size():
    with pytest.raises(PlanError, match="32,000,001 bytes; a plan has at most"):
        decode_plan(b" " * 32_000_001)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["a", "b", "c", "d", "swap", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["do", "a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.sampled_from(sorted(GOOD)), JSON)
@example("from", [["a", "\ud800"]])
def test_whatever_stands_in_a_file_it_is_a_plan_or_refused(key, value):
    data = json.dumps({**GOOD, key: value}).encode()
    try:
        plan = decode_plan(data)
    except InvalidInputError:
        return
    assert msgspec.json.decode(encode_plan(plan)) == {**GOOD, key: msgspec.json.decode(encode_plan(plan))[key]}


@given(st.binary(max_size=40), st.integers(0, 200))
def test_damaged_bytes_are_a_plan_or_refused(noise, at):
    good = encode_plan(SWAP)
    with suppress(InvalidInputError):
        decode_plan(good[:at] + noise + good[at + len(noise) :])
