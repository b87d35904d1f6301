"""`pleach explore` and `pleach sim --schedule`, as they are typed."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pleach.cli.explore import explore
from pleach.cli.sim import sim
from pleach.errors import InvalidInputError, ScheduleError
from pleach.scenario.schedule import load_schedule

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "chain-of-three.toml")
BUG = ("--plant", "overtaking-unsubscription")


@pytest.fixture
def typed(monkeypatch):
    """Runs a command line; gives its exit code and what it printed."""
    monkeypatch.setenv("COLUMNS", "200")
    app = typer.Typer()
    app.command("explore")(explore)
    app.command("sim")(sim)

    def run(*words):
        result = CliRunner().invoke(app, words)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout

    return run


def test_nothing_fails(typed):
    code, said = typed("explore", EXAMPLE)
    assert code == 0
    assert "7,634 states, 25,334 transitions" in said
    assert "6,363,219,110 schedules of 21 to 21 steps" in said
    assert "verdict: clean" in said
    assert "schedule.json" not in said


def test_a_bug_is_explained_written_and_replayed(typed, tmp_path):
    out = tmp_path / "found.json"
    code, said = typed("explore", EXAMPLE, *BUG, "--out", str(out))
    assert code == 1
    assert "A shortest failing schedule, 12 steps:" in said
    assert "   4  c → b  Withdraw price > 10 (subscriptions)" in said
    assert "lost: client s, event p/0/1" in said
    assert f"replay it: pleach sim {EXAMPLE} --schedule {out}" in said
    assert len(load_schedule(out).steps) == 12

    code, said = typed("sim", EXAMPLE, "--schedule", str(out), "--check")
    assert code == 1
    assert "lost: client s, event p/0/1" in said


def test_a_machine_reads_json(typed):
    code, said = typed("explore", EXAMPLE, *BUG, "--json")
    told = json.loads(said)
    assert code == 1
    assert told["outcome"] == "failing"
    assert told["kinds"] == {"lost": told["failing"]}
    assert told["schedules"] == "1024310660"
    assert told["schedule"]["plant"] == "overtaking-unsubscription"
    assert told["verdict"]["found"]["lost"] == 1


def test_too_small_a_bound_is_said_plainly(typed):
    code, said = typed("explore", EXAMPLE, "--states", "10")
    assert code == 2
    assert "not all states were visited: raise --states, or make the scenario smaller" in said
    assert "verdict: unknown" in said


def test_a_schedule_that_cannot_be_written_is_an_error(typed, tmp_path):
    with pytest.raises(ScheduleError, match=r"cannot be written: No such file or directory"):
        typed("explore", EXAMPLE, *BUG, "--out", str(tmp_path / "nowhere" / "found.json"))


def test_one_kind_of_failure_at_a_time(typed):
    words = ("explore", str(Path(EXAMPLE).with_name("printed-unlock.toml")), "--timers", "--instant-clients", "--only")
    code, said = typed(*words, "still locked")
    assert code == 1
    assert "A shortest failing schedule, 33 steps:" in said
    assert "3 stays locked for operation 1.1, which has ended" in said
    assert typed(*words, "duplicate")[0] == 0
    with pytest.raises(InvalidInputError, match="unknown kind of failure 'stuck'"):
        typed(*words, "stuck")


def test_help_has_an_example(typed):
    code, said = typed("explore", "--help")
    assert code == 0
    assert "pleach explore examples/chain-of-three.toml --plant" in said
