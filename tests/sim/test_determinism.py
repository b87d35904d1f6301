"""The same seed gives the byte-identical trace: in another process, under another hash seed, and after other runs."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pleach.scenario.load import load_scenario
from pleach.sim.run import run_scenario
from pleach.trace import write_trace

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))

PROGRAM = """
import sys, tempfile
from hashlib import sha256
from pathlib import Path
from pleach.scenario.load import load_scenario
from pleach.sim.run import run_scenario
from pleach.trace import write_trace
for name in sys.argv[2:]:
    with tempfile.TemporaryDirectory() as place:
        result = run_scenario(load_scenario(Path(name)), int(sys.argv[1]))
        path = write_trace(result.records, Path(place), result.records[0].run)
        print(sha256(path.read_bytes()).hexdigest())
"""


def digest(path, seed, place):
    result = run_scenario(load_scenario(path), seed)
    return hashlib.sha256(write_trace(result.records, place, result.records[0].run).read_bytes()).hexdigest()


def digests_elsewhere(hash_seed, seed):
    names = [str(path) for path in EXAMPLES]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", PROGRAM, str(seed), *names]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=240)
    return answer.stdout.split()


def test_traces_are_identical_in_other_processes_with_other_hash_seeds():
    first = digests_elsewhere("0", 7)
    assert len(first) == len(EXAMPLES) == len(set(first))
    assert first == digests_elsewhere("4242", 7)


@pytest.mark.parametrize("path", EXAMPLES[:2], ids=lambda path: path.stem)
def test_runs_leave_no_state_behind(path, tmp_path):
    first = digest(path, 3, tmp_path)
    assert digest(path, 4, tmp_path) != first
    assert digest(path, 3, tmp_path) == first
