"""The commands as a user meets them: real processes, their output and exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

SCENARIO = """
name = "small"
routing = "simple"
links = [["a", "b"]]
duration = 2.0

[[clients]]
id = "p"
broker = "a"
publish = { every = 0.1, from = 1.0, attributes = { x = 1 } }

[[clients]]
id = "s"
broker = "b"
subscribe = ["x = 1"]
"""


def pleach(*arguments, cwd=ROOT):
    command = [sys.executable, "-c", "from pleach.cli.main import run; run()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=cwd)


def scenario_file(place, text=SCENARIO):
    path = place / "scenario.toml"
    path.write_text(text)
    return path


def test_sim_then_audit(tmp_path):
    done = pleach("sim", scenario_file(tmp_path), "--seed", 3, "--trace", tmp_path / "runs", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["seed"] == 3
    assert summary["verdict"]["clean"]
    assert summary["verdict"]["counts"]["deliveries"] == 10
    audited = pleach("audit", tmp_path / "runs", "--json")
    assert audited.returncode == 0, audited.stderr
    assert json.loads(audited.stdout)["found"] == {"lost": 0, "duplicate": 0, "spurious": 0, "fifo": 0, "causal": 0}


def test_a_lossy_link_is_a_violation_and_the_exit_code_says_so(tmp_path):
    done = pleach("sim", EXAMPLES / "lossy.toml", "--trace", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "violated" in done.stdout
    assert pleach("sim", EXAMPLES / "lossy.toml", "--check").returncode == 1
    audited = pleach("audit", tmp_path)
    assert audited.returncode == 1
    assert "lost: client t" in audited.stdout


def test_a_run_that_cannot_end_quietly_is_unusable(tmp_path):
    text = SCENARIO + '[[steps]]\nat = 1.5\ndo = "cut"\nlink = ["a", "b"]\n'
    assert pleach("sim", scenario_file(tmp_path, text), "--trace", tmp_path / "runs").returncode == 0
    audited = pleach("audit", tmp_path / "runs", "--json")
    assert audited.returncode == 2
    assert json.loads(audited.stdout)["outcome"] == "unusable"


def test_a_reconfiguration_that_cannot_be_is_refused_and_recorded(tmp_path):
    text = (
        EXAMPLES / "swap-under-load.toml"
    ).read_text() + '[[steps]]\nat = 1.5\ndo = "swap"\nbrokers = ["x", "z", "a"]\n'
    done = pleach("sim", scenario_file(tmp_path, text), "--json")
    assert done.returncode == 0, done.stderr
    refusals = json.loads(done.stdout)["refusals"]
    assert refusals
    assert all(refusal["reason"] for refusal in refusals)


BAD_INPUT = {
    "a filter that does not parse": (SCENARIO.replace('x = 1"]', 'x = "]'), "x = "),
    "an unknown key": (SCENARIO.replace("every", "evry"), "evry"),
    "a cycle": (SCENARIO.replace('[["a", "b"]]', '[["a", "b"], ["b", "c"], ["c", "a"]]'), "cycle"),
    "an event with a bad type": (SCENARIO.replace("{ x = 1 }", "{ x = [1] }"), "x"),
    "no TOML at all": ("links = [", ""),
    "a step naming a broker that is not there": (
        SCENARIO + '[[steps]]\nat = 1.0\ndo = "crash"\nbroker = "zebra"\n',
        "zebra",
    ),
    "a filter that is too large": (SCENARIO.replace('x = 1"]', "x = 1" + " OR x = 1" * 500 + '"]'), "4,096"),
    "a filter that is too deep": (SCENARIO.replace('x = 1"]', "(" * 50 + "x = 1" + ")" * 50 + '"]'), "deep"),
}


@pytest.mark.parametrize("case", BAD_INPUT, ids=str)
def test_bad_scenarios_get_one_error_with_place_and_reason(case, tmp_path):
    text, fragment = BAD_INPUT[case]
    done = pleach("sim", scenario_file(tmp_path, text))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "scenario.toml:" in done.stderr
    assert fragment in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["sim", "nowhere.toml"], "nowhere.toml"),
        (["audit", "nowhere"], "nowhere"),
        (["bench", "nothing"], "nothing"),
        (["explore", "nowhere.toml"], "nowhere.toml"),
        (["explore", EXAMPLES / "swap.toml", "--exchange", "none"], "unknown protocol"),
        (["frobnicate"], "frobnicate"),
        (["sim"], "file"),
    ],
    ids=str,
)
def test_bad_arguments_exit_with_2_and_no_traceback(arguments, fragment):
    done = pleach(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert fragment in done.stderr


def test_a_file_that_is_no_trace_is_unusable(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"not parquet")
    done = pleach("audit", tmp_path)
    assert done.returncode == 2
    assert "x.parquet" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["demo", "sim", "audit", "explore", "bench", "doctor"])
def test_every_command_has_help_with_an_example(command):
    done = pleach(command, "--help")
    assert done.returncode == 0
    assert f"pleach {command}" in done.stdout.split("Usage", 1)[1].split("\n", 1)[1]


def test_doctor_says_what_is_here():
    done = pleach("doctor", "--json")
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert next(f for f in findings if f["part"] == "msgspec")["ok"]
    assert all(f["ok"] or f["remedy"] for f in findings)
