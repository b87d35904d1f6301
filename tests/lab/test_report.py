"""The report: files that are the same for the same numbers, an index that is complete, a page that leads somewhere."""

import json
import re
from dataclasses import replace
from math import nan

import pytest

from pleach.errors import ExperimentError
from pleach.lab.experiment import Experiment, Figure, ResultTable, Size, Summary, select
from pleach.lab.figure_style import bars, curve
from pleach.lab.findings import NEGATIVE, Finding, Status
from pleach.lab.report import Measured, numbers_of, write_report

SUMMARIES = [
    Summary({"x": 1, "kind": "new"}, "delay", 5, 50, 2.0, 1.5, 2.5, 0.0, 2.0, 3.0, 3.5, 4.0),
    Summary({"x": 2, "kind": "new"}, "delay", 1, 10, 3.0, nan, nan, 1.0, 3.0, 3.0, 3.0, 1 / 3),
]


def draw(axes, summaries):
    curve(axes[0], select(summaries, "delay", kind="new"), "x", "delay", scale=1_000)
    bars(axes[1], [("one", summaries[0]), ("two", summaries[1])])


def toy(name, status=Status.REPRODUCED):
    def judge(summaries):
        return Finding(status, f"{len(summaries)} points.", ("growth",) if status in NEGATIVE else ())

    return Experiment(
        name=name,
        about="a toy",
        cases=lambda _size: [{"x": 1}],
        seeds=dict.fromkeys(Size, 1),
        measure=lambda _case, _seed: [],
        figures=(Figure(f"{name}-fig1", "S9 Fig. 1", "Delay", "It grows.", draw, judge, panels=2),),
        tables=(
            ResultTable(f"{name}-table1", "S9 Table I", "All", "All is well.", lambda _: "| a |\n|---|\n| 1 |", judge),
        ),
    )


def measured(name, status=Status.REPRODUCED, **others):
    return Measured(toy(name, status), Size.QUICK, SUMMARIES, "0.1.0+abc", **others)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_every_figure_has_its_files_and_its_entry(tmp_path):
    write_report([measured("toy")], tmp_path)
    assert sorted(contents(tmp_path)) == [
        "README.md",
        "index.json",
        "toy-fig1.png",
        "toy-fig1.svg",
        "toy-table1.md",
        "toy.csv",
    ]
    first, second = json.loads((tmp_path / "index.json").read_bytes())
    assert {k: first[k] for k in ("figure", "paper", "status", "published", "measured", "command")} == {
        "figure": "toy-fig1",
        "paper": "S9 Fig. 1",
        "status": "reproduced",
        "published": "It grows.",
        "measured": "2 points.",
        "command": "pleach lab run toy --size quick && pleach lab report toy --size quick",
    }
    assert second["figure"] == "toy-table1"
    assert (tmp_path / "toy-table1.md").read_text() == "# All\n\n| a |\n|---|\n| 1 |\n"


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    write_report([measured("toy")], tmp_path / "a")
    write_report([measured("toy")], tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert not re.search(rb"20\d\d-\d\d-\d\d", contents(tmp_path / "a")["toy-fig1.svg"])


def test_what_is_not_reported_this_time_stays(tmp_path):
    write_report([measured("one"), measured("two")], tmp_path)
    write_report([measured("two", Status.REFUTED)], tmp_path)
    entries = json.loads((tmp_path / "index.json").read_bytes())
    assert [(e["figure"], e["status"]) for e in entries] == [
        ("one-fig1", "reproduced"),
        ("one-table1", "reproduced"),
        ("two-fig1", "refuted"),
        ("two-table1", "refuted"),
    ]
    assert "one-fig1" in (tmp_path / "README.md").read_text()


def test_the_page_sets_published_and_measured_side_by_side_and_its_links_lead_somewhere(tmp_path):
    write_report([measured("toy", note="3 of 10 runs failed and are left out.")], tmp_path)
    page = (tmp_path / "README.md").read_text()
    assert "**Published.** It grows." in page
    assert "**Measured.** 2 points." in page
    assert "**Mind:** 3 of 10 runs failed" in page
    links = re.findall(r"\]\(([^)#:]+)\)", page)
    assert "toy-fig1.png" in links
    assert all((tmp_path / link).exists() for link in links if not link.startswith("../"))


def test_figures_come_as_people_count_them_under_their_paper(tmp_path):
    one = toy("toy").tables[0]
    named = (
        ("s1-fig3-10", "S1 Fig. 3.10"),
        ("s4-fig9", "S4 Fig. 9"),
        ("s1-fig3-2", "S1 Fig. 3.2"),
        ("table1", "S1 §4"),
    )
    tables = tuple(replace(one, name=name, paper=paper) for name, paper in named)
    experiment = replace(toy("toy"), figures=(), tables=tables)
    write_report([Measured(experiment, Size.QUICK, SUMMARIES, "0.1.0+abc")], tmp_path)
    page = (tmp_path / "README.md").read_text()
    headings = re.findall(r"^##+ (\S+)", page, re.MULTILINE)
    assert headings == ["S1:", "s1-fig3-2", "s1-fig3-10", "table1", "S4:", "s4-fig9"]
    in_index = [entry["figure"] for entry in json.loads((tmp_path / "index.json").read_bytes())]
    assert in_index == ["s1-fig3-2", "s1-fig3-10", "table1", "s4-fig9"]


def test_what_one_seed_gave_says_so(tmp_path):
    write_report([Measured(toy("toy"), Size.QUICK, [SUMMARIES[1]] * 2, "0.1.0+abc", seeds=1)], tmp_path)
    assert "**Measured.** 2 points. One seed." in (tmp_path / "README.md").read_text()


def test_numbers_have_a_column_per_parameter_and_no_interval_where_there_is_none():
    assert numbers_of(SUMMARIES) == (
        "kind,x,metric,seeds,samples,mean,low,high,minimum,p50,p95,p99,maximum\n"
        "new,1,delay,5,50,2,1.5,2.5,0,2,3,3.5,4\n"
        "new,2,delay,1,10,3,,,1,3,3,3,0.333333333\n"
    )


def test_an_index_that_is_none_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "index.json").write_text("[{}]")
    with pytest.raises(ExperimentError, match=r"index\.json.*delete it"):
        write_report([measured("toy")], tmp_path)
    assert list(contents(tmp_path)) == ["index.json"]
