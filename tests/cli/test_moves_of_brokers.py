"""`pleach broker move` and `pleach standby promote`: words that are actions, and what is refused."""

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import InvalidInputError, UnreachableError

NOBODY = "127.0.0.1:1"


def run(*words, **options):
    return CliRunner().invoke(app, words, **options)


def test_the_first_word_decides_between_a_name_and_an_action():
    assert "Move a broker" in run("broker", "move", "--help").stdout
    assert "Run a broker" in run("broker", "--help").stdout
    assert '"name": "moved"' in run("broker", "moved", "--validate").stdout
    assert '"name": "move"' in run("broker", "--name", "move", "--validate").stdout
    assert "promote" in run("standby", "promote", "--help").stdout


@pytest.mark.parametrize("option", ["--tls", "--token-file", "--via"])
def test_an_action_that_asks_brokers_logs_in_as_others_do(option):
    assert option in run("broker", "move", "--help", env={"COLUMNS": "200"}).stdout


def test_a_copy_is_asked_for_at_one_machine_that_answers():
    with pytest.raises(InvalidInputError, match="one machine is wanted"):
        run("standby", "promote", "b", "--via", NOBODY, "--via", "127.0.0.1:2", catch_exceptions=False)
    with pytest.raises(UnreachableError):
        run("standby", "promote", "b", "--via", NOBODY, catch_exceptions=False)
