"""What peers say is shown in logs, in metrics and on terminals, and forges and controls nothing there."""

import io
import json
import logging
import sys

import pytest

from pleach.cli import terminal
from pleach.cli.overlay import _table
from pleach.cli.sub import _line
from pleach.cli.tree import draw_survey
from pleach.core.events.event import Event, EventId
from pleach.net.printable import printable
from pleach.operate.survey import BrokerStatus, Survey
from pleach.server.logs import JsonFormatter, PlainFormatter
from pleach.server.metrics import Counters, MetricSample, render

HOSTILE = [
    "a\n2026-01-01 CRITICAL b: forged",
    "a\r\x1b[2J\x1b[31mred",
    "a\x1b]0;title\x07",
    "a\x9b31m",
    "a\u202etxt.exe",
    "a\u2028b\x85c",
    'a"} 1\npleach_ready 0\n#',
    "[bold]a[/] \x7f\x00",
]


def is_clean(text):
    return all(line.isprintable() for line in text.split("\n"))


def test_a_line_that_is_the_one_before_again_is_not_printed():
    unrepeated = terminal.Unrepeated()
    texts = ["refused", "refused", "in", "refused", "refused"]
    records = [logging.LogRecord("n", logging.WARNING, "", 0, "%s", (text,), None) for text in texts]
    assert [record.args for record in records if unrepeated.filter(record)] == [("refused",), ("in",), ("refused",)]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_not_printed_as_itself_is_escaped(text):
    assert printable(text).isprintable() or text.isprintable()
    assert "\n" not in printable(text)
    assert printable("grüße, 東京 – ok") == "grüße, 東京 – ok"
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"


# Logs ------------------------------------------------------------------------------------------------------------


def record_of(text, *, fails=False):
    try:
        int(f"no number: {text}")
    except ValueError:
        info = sys.exc_info() if fails else None
    return logging.LogRecord("pleach.x", logging.WARNING, __file__, 1, "connection with %s ended", (text,), info)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_record_is_one_line_of_a_log(text):
    line = PlainFormatter("%(levelname)s b: %(message)s").format(record_of(text))
    assert line.startswith("WARNING b: connection with ")
    assert line.isprintable()
    line = JsonFormatter().format(record_of(text))
    assert line.isprintable()
    assert json.loads(line)["message"] == f"connection with {text} ended"


@pytest.mark.parametrize("text", HOSTILE)
def test_an_exception_cannot_forge_a_line(text):
    first, *more = PlainFormatter("%(message)s").format(record_of(text, fails=True)).split("\n")
    assert first.startswith("connection with")
    assert all(line.startswith("    ") and line.isprintable() for line in more)
    assert JsonFormatter().format(record_of(text, fails=True)).isprintable()


# Metrics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE)
def test_a_label_is_one_label(text):
    given = render({"pleach_link_up": [MetricSample(1, text)]}, Counters())
    without = render({"pleach_link_up": [MetricSample(1, "a")]}, Counters())
    assert len(given.splitlines()) == len(without.splitlines())
    assert is_clean(given)
    (line,) = [line for line in given.splitlines() if line.startswith("pleach_link_up{")]
    label = line.removeprefix('pleach_link_up{neighbour="').removesuffix('"} 1')
    assert '"' not in label.replace("\\\\", "").replace('\\"', "")


# Terminals -------------------------------------------------------------------------------------------------------


def shown(draw):
    out = io.StringIO()
    draw(terminal.Console(file=out, width=200, color_system=None))
    return out.getvalue()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_console_shows_text_and_is_not_controlled_by_it(text):
    assert is_clean(shown(lambda console: console.print(text, markup=False)))
    line = shown(lambda console: console.print(f"[red]refused[/]: {terminal.escape(text)}", soft_wrap=True))
    assert line == f"refused: {printable(text)}\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_commands_show_what_brokers_say(text):
    found = Survey(found={"b": BrokerStatus("b", False, True, [text], {}, {})}, unreachable={text: text})
    tree = shown(lambda console: draw_survey(console, found))
    assert is_clean(tree)
    assert f"{printable(text)} does not answer" in tree
    one = {"what": text, "brokers": [text], "name": text, "state": text, "reason": text, "phase": ""}
    table = shown(lambda console: console.print(_table(found, {"b": {"operations": [one], "locked_for": ""}})))
    assert is_clean(table)


@pytest.mark.parametrize("text", HOSTILE)
def test_events_of_others_are_lines(text):
    assert _line(Event(EventId(text, 1, 1), {"a": text})).isprintable()
