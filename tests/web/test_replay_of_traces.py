"""Recorded runs as films."""

from functools import cache
from pathlib import Path

import pytest

from pleach.errors import PleachError, TraceError
from pleach.scenario.initial_tree import OUTLINE, initial_tree, read_initial_tree
from pleach.scenario.load import load_scenario
from pleach.sim.run import run_scenario
from pleach.trace import Record, RecordKind, write_trace
from pleach.web import replay as trace_source
from pleach.web.replay import TraceSource, inferred, replay_of
from pleach.web.snapshot import merged

EXAMPLES = Path(__file__).parents[2] / "examples"


def recorded(name, kinds=None):
    scenario = load_scenario(EXAMPLES / f"{name}.toml")
    return scenario, run_scenario(scenario, 1, kinds=kinds).records


def pictures(film):
    """All frames, put together one after another."""
    shown = {}
    for frame in film["frames"]:
        shown = merged(shown, frame["patch"])
        yield frame["at"], shown


def links_of(snapshot):
    return sorted(tuple(key.split("\n")) for key in snapshot["links"])


@cache
def film_of_example(name):
    scenario, records = recorded(name)
    return replay_of("run", records, read_initial_tree(initial_tree(scenario)))


def test_the_tree_changes_as_operations_are_done():
    seen = list(pictures(film_of_example("reweave")))
    before = next(shown for at, shown in seen if at >= 0.9)
    after = next(shown for at, shown in seen if at >= 1.1)
    assert ("a", "b") in links_of(before)
    assert ("a", "c") not in links_of(before)
    assert ("a", "c") in links_of(after)
    assert ("a", "b") not in links_of(after)
    assert "f" in next(shown for at, shown in seen if at >= 4)["brokers"]  # it was added,
    assert "d" not in seen[-1][1]["brokers"]  # and this one removed


def test_each_picture_is_a_tree():
    for _, shown in pictures(film_of_example("reweave")):
        assert len(shown["links"]) == len(shown["brokers"]) - 1


def test_operations_are_told_step_by_step():
    _, last = list(pictures(film_of_example("reweave")))[-1]
    swap = last["operations"]["1"]
    assert (swap["what"], swap["state"]) == ("swap a b c", "done")
    assert [step["phase"] for step in swap["steps"].values()][:3] == ["a locked", "b locked", "c locked"]
    assert last["operations"]["2"]["state"] == "refused"
    assert last["operations"]["2"]["reason"] == "a and b are not linked"
    assert last["operations"]["3.1"]["flooded"] >= 0


def test_there_is_a_frame_for_each_step():
    """Or a swap of 60 ms in a run of minutes would be over between two frames."""
    shown = [
        snapshot["operations"].get("1", {}).get("steps", {}) for _, snapshot in pictures(film_of_example("reweave"))
    ]
    assert len({len(steps) for steps in shown}) > 8


def test_counters_grow_and_the_verdict_is_the_audits():
    film = film_of_example("reweave")
    seen = [shown["counters"]["delivered"] for _, shown in pictures(film)]
    assert seen == sorted(seen)
    assert seen[-1] == 806
    assert list(pictures(film))[-1][1]["verdict"]["outcome"] == "clean"
    assert max(shown["counters"]["deliver_rate"] for _, shown in pictures(film)) > 50


def test_faults_are_seen():
    seen = list(pictures(film_of_example("crash-restart")))
    assert not next(shown for at, shown in seen if at >= 3.5)["brokers"]["b"]["answers"]
    assert next(shown for at, shown in seen if at >= 5.5)["brokers"]["b"]["answers"]
    assert not next(shown for at, shown in seen if at >= 8.5)["links"]["b\nc"]["up"]
    assert next(shown for at, shown in seen if at >= 10.5)["links"]["b\nc"]["up"]
    assert [notice["text"] for notice in seen[-1][1]["notices"].values()][:2] == ["b: crash", "b: restart"]


def test_without_an_outline_the_tree_is_that_of_what_was_sent():
    scenario, records = recorded("reweave")
    found = inferred(records)
    wanted = read_initial_tree(initial_tree(scenario))
    assert {frozenset(link) for link in found.links} == {frozenset(link) for link in wanted.links}
    assert found.homes == wanted.homes


def test_without_sends_the_outline_is_enough():
    scenario, records = recorded("reweave", frozenset(RecordKind) - {RecordKind.SEND})
    _, last = list(pictures(replay_of("run", records, read_initial_tree(initial_tree(scenario)))))[-1]
    assert len(last["links"]) == len(last["brokers"]) - 1
    assert "flooded" not in last["operations"]["1"]  # nobody knows


def test_a_run_of_one_moment():
    film = replay_of("run", [Record("run", 0.0, "", 1, "state", detail="ordering=causal")], None)
    assert list(pictures(film))[-1][1]["brokers"] == {}


def test_other_texts_are_no_outline():
    assert read_initial_tree("") is None
    assert read_initial_tree("[1]") is None


# The lake --------------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path):
    scenario, records = recorded("swap")
    write_trace(records, tmp_path, records[0].run, about={OUTLINE: initial_tree(scenario)})
    return tmp_path, records[0].run


def ask(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


def test_a_lake_is_replayed(lake):
    place, run = lake
    source = TraceSource(place)
    assert ask(source.snapshot()).source.runs == (run,)
    film = source._replay(run)
    assert len(list(pictures(film))) > 100


def test_what_is_not_there_is_said(lake, tmp_path, monkeypatch):
    place, run = lake
    with pytest.raises(PleachError, match="no run 'other'"):
        ask(TraceSource(place).replay("other"))
    with pytest.raises(TraceError, match="no such file"):
        TraceSource(tmp_path / "nowhere")
    monkeypatch.setattr(trace_source, "RECORDS_MAX", 3)
    with pytest.raises(TraceError, match="too many"):
        TraceSource(place)._replay(run)
