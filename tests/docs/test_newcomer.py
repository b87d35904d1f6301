"""The tool that follows the README as a newcomer would: which commands it takes, and what it does not let pass."""

import os
import re
from pathlib import Path

import pytest

import newcomer
from newcomer import Command, commands_of, follow, told
from support.docs.blocks import ROOT
from support.live.broker_process import eventually

README = (ROOT / "README.md").read_text()
SECONDS_MAX = 60


def followed(place, *lines):
    return follow([Command("here", line) for line in lines], place, os.environ, SECONDS_MAX)


def runs(job):
    """Who was killed may be there for a moment, until somebody has asked how it ended."""
    try:
        return Path(f"/proc/{job}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_the_readme_leads_to_an_event_of_ones_own():
    commands = [command.bare for command in commands_of(README)]
    assert commands[0] == "make demo"
    assert "make test" not in commands
    assert any(command.startswith("pleach broker ") and command.endswith("&") for command in commands)
    assert any(command.startswith("pleach sub ") and command.endswith("--count 1 &") for command in commands)
    assert commands[-1].startswith("pleach pub ")
    assert "price=130" in commands[-1]  # what is looked for among what the subscriber prints
    assert not any("#" in command for command in commands)


def test_the_table_is_of_the_commands_that_the_readme_has():
    rows = re.findall(r"^\| [^|]+ \| `([^`]+)` \| [\d.]+ \|", newcomer.PAGE.read_text(), re.MULTILINE)
    assert rows == [newcomer.SET_UP, *(command.bare for command in commands_of(README))]


def test_a_readme_without_these_commands_is_no_quick_start():
    with pytest.raises(ValueError, match="no commands under 'A first run'"):
        commands_of("# Pleach\n\n```sh\nmake demo\n```\n\n## A first run\n\nlater\n")


def test_commands_run_in_one_shell_and_each_has_its_time(tmp_path):
    trial = followed(tmp_path, "cd /", "here=$(pwd)   # a comment", 'sleep 0.2; echo "at $here"')
    assert trial.why == ""
    assert trial.said == "at /\n"
    assert [step.code for step in trial.steps] == [0, 0, 0]
    assert 0.2 <= trial.steps[2].seconds < SECONDS_MAX
    assert "| here | `here=$(pwd)` | 0.0 | 0 s |" in told(trial)


@pytest.mark.parametrize(
    ("lines", "why", "taken"),
    [
        (["true", "false", "echo never"], "`false` ended with 1", 2),
        (["no-such-command", "echo never"], "`no-such-command` ended with 127", 1),
        (["sleep 30 &", "(exit 3) &", "true"], "`(exit 3) &` ended with 3", 3),
        (["exit 0", "echo never"], "it ended after 0 commands", 0),
    ],
)
def test_a_command_that_fails_fails_all(tmp_path, lines, why, taken):
    trial = followed(tmp_path, *lines)
    assert trial.why == why
    assert not trial.is_ok
    assert len(trial.steps) == taken
    assert "never" not in trial.said


def test_what_hangs_is_ended(tmp_path):
    trial = follow([Command("here", "sleep 60")], tmp_path, os.environ, seconds_max=0.5)
    assert "not over within 0.5 s" in trial.why


def test_nothing_is_left_in_the_background(tmp_path):
    trial = followed(tmp_path, "sleep 60 & echo $! > job", "true")
    assert trial.why == ""
    eventually(lambda: not runs((tmp_path / "job").read_text().strip()))


def test_a_newcomer_has_an_empty_home_and_no_virtual_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", "x")
    monkeypatch.setenv("PLEACH_VIA", "x")
    (tmp_path / "pyvenv.cfg").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}/usr/bin")
    environment = newcomer.environment_of(tmp_path)
    assert environment["HOME"] == str(tmp_path)
    assert environment["PATH"] == "/usr/bin"
    assert not {"VIRTUAL_ENV", "PLEACH_VIA", "PYTHONPATH"} & set(environment)
