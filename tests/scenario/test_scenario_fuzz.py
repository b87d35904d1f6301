"""Whatever is done to an example, it loads or raises ScenarioError with a line that it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pleach.errors import ScenarioError
from pleach.scenario import Scenario, parse_scenario
from support.thorough import FACTOR

EXAMPLES = [file.read_text() for file in sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))]
SMALL = [text for text in EXAMPLES if len(text) < 3000]

PIECES = [
    *("[", "]", "[[", "{", "}", ",", "=", ".", "#", '"', "'", '"""', "\n", "\\", "-", "\0", "\ud800", "é"),
    *("0", "-1", "1e400", "nan", "inf", "99999999999999999999", "true", "1979-05-27", "[]", "{}", "''"),
    *(
        "[[clients]]\n",
        "[[steps]]\n",
        "[latency]\n",
        "[loss]\n",
        "at = 1\n",
        'do = "crash"\n',
        'broker = "a"\n',
    ),
    *(
        "{ uniform = [1, 0] }",
        "{ choice = [] }",
        "{ sequence = 1 }",
        "default = 1\n",
        "steps = 1\n",
        "clients = {}\n",
    ),
]
VALUES = [
    "-1",
    "0",
    "1e308",
    "5e-324",
    "nan",
    "[]",
    "[[]]",
    "{}",
    "''",
    "'a'",
    "true",
    "2020-01-01",
    "['a', 'b']",
    "12:00:00",
]

fuzzing = settings(
    max_examples=400 * FACTOR,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=FACTOR == 1,
)


def check(text: str) -> None:
    match outcome(text):
        case Scenario() as scenario:
            assert scenario.brokers
        case ScenarioError() as error:
            assert error.reason
            assert 0 <= error.line <= text.count("\n") + 1


def outcome(text: str) -> Scenario | ScenarioError:
    try:
        return parse_scenario(text, file="f.toml")
    except ScenarioError as error:
        return error


@fuzzing
@given(st.data())
def test_characters_cut_out_and_pieces_put_in(data):
    text = data.draw(st.sampled_from(SMALL))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 20)))
        text = text[:start] + data.draw(st.sampled_from(PIECES)) + text[end:]
    check(text)


@pytest.mark.heavy
@fuzzing
@given(st.data())
def test_values_replaced_in_place(data):
    """Legal TOML most of the time, so that the checks behind the parser get their share."""
    lines = data.draw(st.sampled_from(SMALL)).splitlines()
    assignments = [i for i, line in enumerate(lines) if " = " in line]
    for i in data.draw(st.lists(st.sampled_from(assignments), min_size=1, max_size=3)):
        key = lines[i].split(" = ")[0]
        lines[i] = f"{key} = {data.draw(st.sampled_from(VALUES))}"
    check("\n".join(lines))


@fuzzing
@given(st.data())
def test_lines_shuffled_between_examples(data):
    lines = [line for text in SMALL for line in text.splitlines()]
    header = data.draw(st.sampled_from(SMALL)).split("[[clients]]")[0]
    check(header + "\n".join(data.draw(st.lists(st.sampled_from(lines), max_size=30))))


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_cut_off_at_any_line(text):
    lines = text.splitlines(keepends=True)
    for end in range(len(lines)):
        check("".join(lines[:end]))
