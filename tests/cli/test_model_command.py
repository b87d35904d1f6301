"""`pleach model`: answers, and refusals with a place and a reason."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import InvalidInputError

EXAMPLE = Path(__file__).parents[2] / "examples" / "model" / "network.toml"


def ask(*arguments):
    result = CliRunner().invoke(app, ["model", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_break_even_of_the_thesis():
    found = json.loads(ask("--json"))
    assert found["break_even"] == pytest.approx(299_172, abs=1)
    assert found["flooding"] == pytest.approx(120_000)


def test_more_subscriptions_than_break_even_are_better_flooded():
    assert "flood;" in ask("--subscriptions", 400_000)
    assert "filter;" in ask("--subscriptions", 200_000)


def test_a_network_from_a_file_with_a_picture(tmp_path):
    picture = tmp_path / "costs.svg"
    assert "filtering saves always" in ask(EXAMPLE, "--peer-to-peer", "--plot", picture)
    assert "<svg" in picture.read_text()


def test_peer_to_peer_spares_the_way_to_the_root():
    assert json.loads(ask(EXAMPLE, "--json"))["detour"] == pytest.approx(392.284, abs=1e-3)
    assert json.loads(ask(EXAMPLE, "--json", "--peer-to-peer"))["detour"] == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ('["hq", "east"], ', "do not make a tree"),
        ("lifetime = 60.0", "missing required field `lifetime`"),
        ("refresh = 60.0", "missing required field `refresh`"),
    ],
)
def test_what_is_missing_is_named(tmp_path, change, reason):
    file = tmp_path / "network.toml"
    file.write_text(EXAMPLE.read_text().replace(change, "", 1))
    with pytest.raises(InvalidInputError, match=reason):
        ask(file)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("e1 = 0.8", "e9 = 0.8", "'e9', which is not in the tree"),
        ('["west", "w1"]', '["w2", "w2"]', "no path leads|do not make a tree"),
        ("lifetime = 600.0", "lifetime = -1.0", "lifetime is -1.0 s"),
        ("count = 500", 'count = "many"', "classes.*count"),
        ("count = 500", "color = 500", "unknown field `color`"),
        ('root = "hq"', "root = hq", "Invalid value"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, old, new, reason):
    file = tmp_path / "network.toml"
    file.write_text(EXAMPLE.read_text().replace(old, new, 1))
    with pytest.raises(InvalidInputError, match=reason):
        ask(file)


def test_a_plot_that_cannot_be_written(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be written"):
        ask("--plot", tmp_path / "no" / "such.png")
