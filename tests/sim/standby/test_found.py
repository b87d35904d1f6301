"""Cases that once failed, cut down to the least that did: each file is one."""

from pathlib import Path

import pytest

from support.everything.files import read_case
from support.everything.judgement import judge_case

FOUND = sorted(Path(__file__).with_name("found").glob("*.toml"))


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.stem)
def test_a_case_that_once_failed_holds(file):
    assert not judge_case(read_case(file)).flaws
