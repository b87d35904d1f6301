"""The reference says what the code does: what is made from it is as it would be made now, the rest has every name."""

import inspect
import re

import pytest

import reference
import rooms
from pleach import errors
from pleach.core.links.frames import FRAME_BYTES_MAX, PROTOCOL_VERSION, ByeReason, FrameKind
from pleach.core.messages.runs import RUN_EVENTS_MAX
from pleach.server.metrics import Counters
from pleach.server.settings import TABLES, BrokerSettings
from support.docs.blocks import ROOT

PAGES = ROOT / "docs" / "reference"


@pytest.mark.parametrize("name", reference.PLACES)
def test_what_is_made_from_the_code_is_up_to_date(name):
    page, make = reference.PLACES[name]
    text = (PAGES / page).read_text()
    assert reference.renewed(text, name, make()) == text, "give `make reference`, and commit what it writes"


def test_the_picture_of_the_rooms_is_up_to_date():
    assert rooms.PICTURE.read_text() == rooms.picture(), "give `make reference`, and commit what it writes"


def test_no_room_imports_upwards():
    names, _ = rooms.rooms()
    assert all(names.index(room) < names.index(other) for room, other in rooms.imports() if room in names)


def test_every_setting_is_there_once():
    keys = re.findall(r"^\| `(\w+)` ", (PAGES / "configuration.md").read_text(), re.MULTILINE)
    inner = [key for _, struct in TABLES.values() for key in struct.__struct_fields__]
    assert sorted(keys) == sorted([*({*BrokerSettings.__struct_fields__} - {*TABLES}), *inner])


def test_every_setting_says_what_it_means():
    rows = re.findall(r"^\| `(\w+)` (.*)$", (PAGES / "configuration.md").read_text(), re.MULTILINE)
    assert not [key for key, rest in rows if not rest.split(" | ")[4].strip(" |")]


def test_every_command_has_its_options_and_an_example():
    page = (PAGES / "cli.md").read_text()
    for name, command in reference.walk():
        assert f"## `{name}`\n" in page
        assert "Example" in (command.help or ""), name
        for parameter in command.params:
            assert parameter.help, f"{name} {parameter.name}"


def test_every_counter_is_there():
    page = (PAGES / "metrics.md").read_text()
    assert all(f"`pleach_{field}_total`" in page for field in Counters().flat())


def test_alerts_and_curves_name_metrics_that_exist():
    reference_page = (PAGES / "metrics.md").read_text()
    named = set(re.findall(r"\bpleach_[a-z_]+", (ROOT / "docs" / "how-to" / "monitor.md").read_text()))
    assert len(named) > 10
    assert not [name for name in sorted(named) if f"| `{name}` |" not in reference_page]


def test_every_error_is_there_with_what_it_is_and_what_to_do():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.+?) \| (.*?) ?\|$", (PAGES / "errors.md").read_text(), re.MULTILINE)
    raised = [e for _, e in inspect.getmembers(errors, inspect.isclass) if e.__module__ == errors.__name__]
    known = [(error.__name__, error.__bases__[0].__name__) for error in raised]
    assert sorted((name, parent) for name, parent, *_ in rows) == known
    assert [name for name, _, when, remedy in rows if not when or not remedy] == ["PleachError"]


def test_every_frame_and_farewell_is_there():
    page = (PAGES / "wire.md").read_text()
    for member in (*FrameKind, *ByeReason):
        assert f"| {member.value} | {member.name} |" in page
    assert f"Version {PROTOCOL_VERSION}." in page
    assert f"9 bytes to {FRAME_BYTES_MAX // 2**20} MB" in page
    assert f"at most {RUN_EVENTS_MAX} events" in page


def test_a_place_that_is_missing_is_noticed():
    with pytest.raises(SystemExit, match="no place"):
        reference.renewed("a page without one", "settings", "| x |")
