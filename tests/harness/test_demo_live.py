"""`pleach demo` as a user starts it: the story on real processes, and nothing that stays behind, however it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pleach.demo.acts import ACTS, demo_scenario
from pleach.trace import judge, read_traces

SECONDS_MAX = 280
STORY = [act.name for act in ACTS]


def start(*arguments, place):
    """In a session of its own, which every process that it starts belongs to."""
    return subprocess.Popen(
        [sys.executable, "-m", "pleach", "demo", "--quick", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "COLUMNS": "200", "TMPDIR": str(place), "PYTHONUNBUFFERED": "1"},
    )


def members(session):
    """Processes of a session that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of = stat.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(of) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


def end(process):
    """What it said; whatever it left behind is ended, and is an error."""
    try:
        out, err = process.communicate(timeout=SECONDS_MAX)
        left = members(process.pid)
    finally:
        for number in members(process.pid):
            os.kill(number, signal.SIGKILL)
    assert not left
    return out, err


def test_processes_of_the_story_are_seen(tmp_path):
    """The check for what is left behind would find it."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        assert members(process.pid) == [process.pid]
    finally:
        process.kill()
        process.wait()
    assert not members(process.pid)


def test_the_story_is_told_and_the_verdict_is_clean(tmp_path):
    process = start("--engine", "reference", "--out", tmp_path / "out", "--json", place=tmp_path)
    out, err = end(process)
    assert process.returncode == 0, (out, err)
    told = json.loads(out)
    assert told["clean"]
    assert told["shortcomings"] == []
    assert [act["act"] for act in told["acts"]] == STORY
    assert sum(act["delivered"] for act in told["acts"]) > 100
    by_name = {act["act"]: act for act in told["acts"]}
    silence = demo_scenario().standby.after
    assert by_name["destroy"]["gap_seconds"] > silence, "a broker was gone, and somebody waited"
    assert told["longest_gap_seconds"] >= by_name["destroy"]["gap_seconds"]
    page = Path(told["report"]).read_text()
    assert all(act.title in page for act in ACTS)
    ((_, records),) = read_traces(tmp_path / "out" / "lake")
    assert judge(records).to_dict() == told["verdict"]
    assert {record.node for record in records if record.kind == "fault"} == {"fra1"}
    assert not list(tmp_path.glob("pleach-demo-*")), "data of the brokers is gone"


@pytest.mark.parametrize(
    ("moment", "number", "whom"),
    [
        ("Nine brokers", signal.SIGTERM, os.kill),
        ("Nine brokers", signal.SIGHUP, os.kill),
        (f"2/{len(ACTS)}", signal.SIGINT, os.killpg),
    ],
    ids=["while it starts", "its terminal closes", "in the middle, by Ctrl-C, which all processes get"],
)
def test_whoever_ends_it_finds_nothing_left(tmp_path, moment, number, whom):
    process = start("--engine", "reference", "--out", tmp_path / "out", place=tmp_path)
    assert any(moment in line for line in process.stdout), process.stderr.read()
    whom(process.pid, number)
    out, err = end(process)
    assert process.returncode == 130, (out, err)
    assert "Traceback" not in err
    assert "all brokers are stopped" in out
    assert not list(tmp_path.glob("pleach-demo-*"))
    assert not (tmp_path / "out" / "report.html").exists()


def test_an_address_that_the_dashboard_cannot_have_shows_at_once(tmp_path):
    process = start("--listen", "192.0.2.1:7800", "--out", tmp_path / "out", place=tmp_path)
    out, err = end(process)
    assert process.returncode == 2, (out, err)
    assert "--listen" in err
    assert "Traceback" not in err
    assert not list(tmp_path.glob("pleach-demo-*"))


def test_brokers_that_do_not_start_are_told_of_and_stopped(tmp_path, monkeypatch):
    monkeypatch.setenv("PLEACH_HEARTBEAT", "never")
    process = start("--out", tmp_path / "out", place=tmp_path)
    out, err = end(process)
    assert process.returncode == 2, (out, err)
    assert "did not start" in err
    assert "Traceback" not in err
    (kept,) = tmp_path.glob("pleach-demo-*")
    assert "heartbeat" in "".join(log.read_text() for log in sorted(kept.glob("*.log")))


@pytest.mark.slow
def test_spark_comes_to_the_same_verdict(tmp_path):
    process = start("--engine", "spark", "--out", tmp_path / "out", "--json", place=tmp_path)
    out, err = end(process)
    assert process.returncode == 0, (out, err)
    told = json.loads(out)
    assert told["engine"] == "spark"
    ((_, records),) = read_traces(tmp_path / "out" / "lake")
    assert judge(records).to_dict() == told["verdict"]
