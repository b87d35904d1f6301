"""`pleach overlay show` says where a broker runs, where else its data directory is, and who is in the ring."""

import io

import pytest

from pleach.cli import terminal
from pleach.cli.tree import draw_ring, draw_survey, report_of
from pleach.core.ring.chord import RingPhase
from pleach.operate.ring_seats import RingSeat
from pleach.operate.survey import BrokerStatus, CopyLag, CopyStatus, NeighbourStatus, StandbyStatus, Survey

WHOLE = CopyStatus(CopyLag(0))


def drawn(standby, *, durable=True):
    status = BrokerStatus("b", ready=True, durable=durable, reasons=[], neighbours={}, clients={}, standby=standby)
    file = io.StringIO()
    draw_survey(terminal.Console(file=file, width=120), Survey({"b": status}, {"b": "127.0.0.1:1"}))
    return file.getvalue().strip()


@pytest.mark.parametrize(
    ("machine", "covered", "copies", "shown"),
    [
        ("b#1", True, {"a#2": WHOLE}, "b copy at a"),
        ("m1#1", True, {"a#2": WHOLE, "c#3": WHOLE}, "b on m1 copy at a, c"),
        ("b#1", False, {"a#2": CopyStatus(CopyLag(1200))}, "b copy at a (1,200 behind) not covered"),
        ("b#1", False, {"a#2": CopyStatus()}, "b copy at a (being brought up) not covered"),
        ("b#1", False, {}, "b no copy elsewhere not covered"),
        ("[red]#1", True, {"[bold]\x1b#2": WHOLE}, "b on [red] copy at [bold]\\x1b"),
    ],
)
def test_a_broker_is_shown_with_its_copies(machine, covered, copies, shown):
    assert drawn(StandbyStatus(machine, covered, copies)) == shown


def test_a_link_is_shown_with_the_broker_that_passes_it_on():
    def status(name, other, *, up=True, relay=""):
        link = NeighbourStatus(up=up, queued=0, relay=relay)
        return BrokerStatus(name, ready=True, durable=True, reasons=[], neighbours={other: link}, clients={})

    def shown(**values):
        file = io.StringIO()
        found = {"a": status("a", "b", **values), "b": status("b", "a", **values)}
        draw_survey(terminal.Console(file=file, width=120), Survey(found, {"a": "127.0.0.1:1", "b": "127.0.0.1:2"}))
        return file.getvalue()

    assert "b through r" in shown(relay="r")
    assert "through" not in shown()
    assert "through" not in shown(relay="r", up=False)


def test_a_broker_without_standbys_is_shown_as_ever():
    assert drawn(None) == "b"
    assert drawn(None, durable=False) == "b in memory"


def seat(key, low, phase=RingPhase.MEMBER):
    return RingSeat(phase, 8, key, low, key, "", [], "", [], weaves=False)


def ring_of(width, **seats):
    found = {
        name: BrokerStatus(name, ready=True, durable=True, reasons=[], neighbours={}, clients={}, ring=each)
        for name, each in seats.items()
    }
    survey, file = Survey(found, {}), io.StringIO()
    draw_ring(terminal.Console(file=file, width=width), survey, report_of(survey), is_compared=False)
    return file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_circle_is_whole_however_narrow_the_terminal_is(width):
    shown = ring_of(width, a=seat(120, 250), b=seat(250, 120))
    assert "…" not in shown
    assert shown.count("◆") == 2


def test_a_broker_that_is_not_in_the_ring_yet_owns_nothing():
    shown = ring_of(80, a=seat(120, 120, RingPhase.OUT), b=seat(250, 250))
    (row,) = [line for line in shown.splitlines() if " a " in line]
    assert "not in it yet" in row
    assert "%" not in row
    assert "◆" not in row
