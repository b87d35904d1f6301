"""Judged again from a report's own numbers: the same sentences, and a page of today."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import ExperimentError
from pleach.lab.beyond import hops
from pleach.lab.experiment import Size
from pleach.lab.report import Measured, judge_again, page, read_index, read_numbers, write_report
from support.lab.made_up_summaries import summarised

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def means(case):
    return {hops.HOPS: {"flooding": 10.0}.get(case["routing"], 1 / 3 + case["share"]), hops.CONTROL: 1.0}


SUMMARIES = summarised(hops.HOPS_BY_POLICY, Size.QUICK, means)


@pytest.fixture
def folder(tmp_path):
    write_report([Measured(hops.HOPS_BY_POLICY, Size.QUICK, SUMMARIES, "0.1.0+abc", note="Mind this.")], tmp_path)
    return tmp_path


def test_numbers_are_read_as_they_were_written(folder):
    found = read_numbers(folder, hops.HOPS_BY_POLICY, Size.QUICK)
    assert [(s.case, s.metric, s.seeds) for s in found] == [(s.case, s.metric, s.seeds) for s in SUMMARIES]
    assert [s.mean for s in found] == pytest.approx([s.mean for s in SUMMARIES])


def test_the_same_judges_say_the_same(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert judge_again(folder) == []
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_judges_say_today_takes_the_place_of_what_they_said(folder):
    entries = json.loads((folder / "index.json").read_bytes())
    old = [{**entry, "status": "refuted", "measured": "Not so.", "published": "?"} for entry in entries]
    (folder / "index.json").write_text(json.dumps(old))
    (changed,) = judge_again(folder)
    assert "Filtering saves" in changed.measured
    assert json.loads((folder / "index.json").read_bytes()) == entries
    assert (changed.code, changed.note) == ("0.1.0+abc", "Mind this.")


def test_cases_of_another_time_are_refused(folder):
    other = replace(hops.HOPS_BY_POLICY, cases=lambda _size: [])
    with pytest.raises(ExperimentError, match="no case of hops, size quick: report it anew"):
        read_numbers(folder, other, Size.QUICK)


def test_the_command_says_what_is_another_now(folder):
    index = folder / "index.json"
    index.write_text(index.read_text().replace('"reproduced"', '"open"'))
    done = CliRunner().invoke(app, ["lab", "judge", "--out", str(folder), "--json"], catch_exceptions=False)
    assert [json.loads(line)["status"] for line in done.stdout.splitlines()] == ["reproduced"]


def test_the_page_of_the_repository_is_that_of_its_index():
    assert (RESULTS / "README.md").read_text() == page(read_index(RESULTS))


def test_without_a_report_there_is_nothing_to_judge(tmp_path):
    with pytest.raises(ExperimentError, match="there is no report"):
        judge_again(tmp_path)
