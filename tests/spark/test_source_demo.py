"""`pleach spark source-demo`, as a user starts it."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_demonstration_ends_well_and_leaves_nothing_behind():
    command = [sys.executable, "-m", "pleach", "spark", "source-demo", "--seconds", "3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["once"]
    assert sorted(said["arrived"]) == said["wanted"]
