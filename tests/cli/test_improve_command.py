"""`pleach overlay improve`: what it says, and what it refuses before any broker is asked."""

import msgspec
import pytest
from typer.testing import CliRunner

from pleach.cli.improve import _print_round, _seconds, _share, lines_of
from pleach.cli.main import app
from pleach.core.optimise.improvement import ImproveVerdict
from pleach.errors import InvalidInputError, PriceError
from pleach.operate.improve import Exchanged, ImproveOptions, ImproveRound

BETTER = ImproveRound(
    3, 0.0, ImproveVerdict.IMPROVE, 1_200.0, 4, 80.0, 20.0, 91.25, (Exchanged(("a", "b"), ("a", "c")),), is_done=True
)


def run(*arguments):
    return CliRunner().invoke(app, ["overlay", "improve", *arguments], env={"COLUMNS": "200", "TERM": "dumb"})


def test_help_has_an_example():
    said = " ".join(run("--help").output.split())
    assert "pleach overlay improve 127.0.0.1:7300 --every 10s --saving-min 5% --actions-max-per-minute 6" in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "missing --via HOST:PORT"),
        (("127.0.0.1:1", "--every", "soon"), "'soon' is not a time; write 10s, 500ms or 1min"),
        (("127.0.0.1:1", "--every", "1h"), "is not a time"),
        (("127.0.0.1:1", "--every", "10min"), "0.5 to 30 are possible"),
        (("127.0.0.1:1", "--saving-min", "half"), "'half' is not a share; write 5% or 0.05"),
        (("127.0.0.1:1", "--saving-min", "100%"), "is not a share"),
        (("127.0.0.1:1", "--protocol", "magic"), "unknown protocol 'magic'"),
        (("127.0.0.1:1", "--costs", "nowhere.toml"), "nowhere.toml cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, reason):
    said = run(*arguments)
    assert isinstance(said.exception, InvalidInputError)
    assert reason in str(said.exception)


def test_a_price_list_is_read_first(tmp_path):
    file = tmp_path / "costs.toml"
    file.write_text("link = -3.0")
    assert isinstance(run("127.0.0.1:1", "--costs", str(file)).exception, PriceError)


def test_times_and_shares():
    assert [_seconds(text) for text in ("10s", "10", "500ms", "0.5min")] == [10.0, 10.0, 0.5, 30.0]
    assert [_share(text) for text in ("5%", "0.05", "0")] == [0.05, 0.05, 0.0]


def test_people_hear_costs_exchanges_and_reasons():
    assert list(lines_of(BETTER, is_dry=False)) == [
        "00:00:00  1,200 events cost 80.00 each, took 91.2 ms each; will cost 20.00, 75.0% less:",
        "          − a–b  + a–c",
    ]
    (first, *_) = lines_of(BETTER, is_dry=True)
    assert "; would cost 20.00" in first
    rest = ImproveRound(4, 0.0, ImproveVerdict.LITTLE, 100.0, 1, 20.0, 19.5)
    assert list(lines_of(rest, is_dry=False)) == [
        "00:00:00  100 events cost 20.00 each: nothing to do, it saves too little"
    ]
    assert list(lines_of(ImproveRound(5, 0.0, "not seen", trouble="a is down"), is_dry=False)) == [
        "00:00:00  a is down"
    ]
    torn = msgspec.structs.replace(BETTER, is_done=False, trouble="0 of 1 steps done")
    assert list(lines_of(torn, is_dry=False))[-1].strip() == "0 of 1 steps done"


def test_programs_get_an_object_per_look(capsys):
    _print_round(BETTER, ImproveOptions(dry_run=True), as_json=True)
    (line,) = capsys.readouterr().out.splitlines()
    said = msgspec.json.decode(line)
    assert (said["cost"], said["cost_then"], said["one_in"], said["dry_run"]) == (80.0, 20.0, 4, True)
    assert said["exchanges"] == [{"remove": ["a", "b"], "add": ["a", "c"]}]
