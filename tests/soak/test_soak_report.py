"""The report of a soak says what its log says."""

import re
from xml.etree import ElementTree as ET

from msgspec.structs import replace

from pleach.soak import actions
from pleach.soak.log import Began, Ended, Finished, Flow, Header, Minute, Usage, Wrong
from pleach.soak.report import SoakResult, write_report
from pleach.soak.settings import SoakSettings

END = Finished(at=500.0, outcome="clean", unusable="", published=1, deliveries=1, subscriptions=1, found={})


def minute(number, memory_bytes=500_000_000):
    flow = Flow(
        published=6_000 * number,
        deliveries=18_000 * number,
        waiting=1,
        oldest=0.1,
        remembered=10,
        found={},
        latency_p50=0.01,
        latency_p99=0.1,
    )
    used = Usage(machines=9, processes=10, memory_bytes=memory_bytes, files=300, disk_bytes=90_000_000)
    return Minute(at=60.0 * number, flow=flow, used=used, brokers=9, own_memory_bytes=200_000_000)


def entries(*more, end=END):
    swap = actions.Swap(brokers=("a", "b", "c"))
    return [
        Header(settings=SoakSettings(seconds=480.0)),
        Began(at=1.0, n=1, action=swap, homes={}),
        Ended(at=2.5, n=1, outcome="done", seconds=1.5),
        Began(at=3.0, n=2, action=swap, homes={}),
        Ended(at=3.5, n=2, outcome="refused: b is locked", seconds=0.5),
        *map(minute, range(1, 9)),
        *more,
        *([end] if end else []),
    ]


def test_the_page_has_verdict_figures_and_actions(tmp_path):
    page = write_report(entries(), tmp_path).read_text()
    assert "**Verdict: clean.**" in page
    assert "| 48,000 | 144,000 | 100 | 0 | 0 | 0 | 0 | 0 | 2 |" in page
    assert "| swap | 1 | 1 | 1.0 | 1.5 |" in page
    assert "| memory per process (MB) | 50.00 | 50.00 | +0.0% " in page


def test_its_charts_are_there_and_are_drawn(tmp_path):
    page = write_report(entries(Wrong(at=90.0, what="lost")), tmp_path, "long").read_text()
    files = re.findall(r"!\[.*\]\((.*)\)", page)
    assert len(files) > 4
    for file in files:
        drawing = ET.fromstring((tmp_path / file).read_text())
        assert [each for each in drawing.iter() if each.tag.endswith("polyline") and len(each.attrib["points"]) > 20]


def test_a_clean_run_that_does_not_grow_is_good():
    assert SoakResult(entries()).is_good


def test_whatever_was_wrong_makes_it_bad():
    assert not SoakResult(entries(Wrong(at=9.0, what="lost: client c"))).is_good
    assert not SoakResult(entries(end=None)).is_good
    assert not SoakResult(entries(end=replace(END, outcome="violated"))).is_good
    grown = [minute(number, memory_bytes=(500 + 100 * number) * 1_000_000) for number in range(9, 17)]
    assert not SoakResult(entries(*grown)).is_good


def test_what_was_wrong_is_listed(tmp_path):
    page = write_report(entries(Wrong(at=9.0, what="lost: client c")), tmp_path).read_text()
    assert "- 9 s: lost: client c" in page


def test_a_run_that_was_ended_early_says_so(tmp_path):
    page = write_report(entries(end=None), tmp_path).read_text()
    assert "8.0 of 8 minutes. **No verdict: it goes on, or was ended before its time" in page
