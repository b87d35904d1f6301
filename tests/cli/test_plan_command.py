"""`pleach overlay plan`: what it says of itself, and what it refuses before anything is read."""

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import InvalidInputError, PriceError


def run(*arguments):
    return CliRunner().invoke(app, ["overlay", "plan", *arguments], env={"COLUMNS": "200", "TERM": "dumb"})


def test_help_has_examples():
    said = " ".join(run("--help").output.split())
    assert "pleach overlay plan --from lake/ --costs costs.toml --degree-max 4 > plan.json" in said
    assert "--steps-max" in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "give one of --to TREE and --from LAKE"),
        (("--to", "a-b", "--from", "lake"), "give one of --to TREE and --from LAKE"),
        (("--from", "lake", "--protocol", "magic"), "there is no 'magic'"),
        (("--from", "lake", "--tree", "a-b", "--via", "127.0.0.1:1"), "give one of them"),
        (("--from", "lake", "--costs", "nowhere.toml"), "nowhere.toml cannot be read"),
        (("--to", "a-b"), "where is the tree?"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, reason):
    said = run(*arguments)
    assert isinstance(said.exception, InvalidInputError)
    assert reason in str(said.exception)


def test_a_price_list_is_read_before_spark_is_started(tmp_path):
    file = tmp_path / "costs.toml"
    file.write_text("link = -3.0")
    said = run("--from", "lake", "--costs", str(file))
    assert isinstance(said.exception, PriceError)


def test_limits_are_kept():
    assert run("--from", "lake", "--degree-max", "1").exit_code == 2
    assert run("--from", "lake", "--starts", "0").exit_code == 2
