"""The benches yield well-formed measurements. How fast is not tested here: `pleach bench` says."""

from __future__ import annotations

import msgspec
import pytest

from pleach.bench import BENCHES, cover, match
from pleach.bench.measurement import Measurement, line

MATCH = match.MatchSize((50, 100), 40, 100, 60, 80, 100, 3, 1, 5)
COVER = cover.CoverSize((60,), 8, 2, 30, 4, 1)


@pytest.fixture(scope="module")
def measurements():
    return [*match.measure(MATCH, seed=1), *cover.measure(COVER, seed=1)]


def test_lines_are_json_objects_with_all_fields(measurements):
    for measurement in measurements:
        assert msgspec.json.decode(line(measurement), type=Measurement) == measurement
        assert "\n" not in line(measurement)


def test_values_and_ratios_are_positive(measurements):
    assert all(measurement.value > 0 and measurement.ratio > 0 for measurement in measurements)


def test_each_measurement_has_its_own_name(measurements):
    names = [(m.bench, m.case, m.against) for m in measurements]
    assert len(set(names)) == len(names)
    assert {bench for bench, _, _ in names} == {"match", "cover"}


def test_all_questions_are_measured(measurements):
    cases = " / ".join(m.case for m in measurements)
    for part in ("W1", "W2", "W3", "W4", "updates", "memory of index", "repeated", "is f covered", "f cover"):
        assert part in cases


def test_a_missed_bar_is_not_ok(measurements):
    for m in measurements:
        if m.bar is not None:
            wanted = m.ratio <= m.bar if "memory" in m.case else m.ratio >= m.bar
            assert m.ok == wanted
    memory = next(m for m in measurements if "memory of index" in m.case)
    assert memory.bar == 1.0


def test_a_loop_over_a_part_says_so(measurements):
    assert any("80 of 100, scaled" in m.against for m in measurements)
    assert any("30 of 60 members, scaled" in m.against for m in measurements)


def test_a_wrong_answer_fails_the_bench(monkeypatch):
    monkeypatch.setattr(match.MatchingIndex, "match", lambda self, attributes: {"nobody"})
    with pytest.raises(AssertionError):
        list(match.measure(MATCH, seed=1))


def test_a_wrong_cover_fails_the_bench(monkeypatch):
    monkeypatch.setattr(cover.CoverIndex, "covered", lambda self, probe: [])
    with pytest.raises(AssertionError):
        list(cover.measure(COVER, seed=1))


def test_the_benches_are_registered():
    assert {"match", "cover"} <= BENCHES.keys()
