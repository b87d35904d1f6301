"""`pleach spark`: what its commands say of themselves, and what they say when something is wrong."""

from typer.testing import CliRunner

from pleach.cli.main import app


def run(*arguments):
    return CliRunner().invoke(app, ["spark", *arguments], env={"COLUMNS": "200", "TERM": "dumb"})


def test_help_has_an_example():
    said = run("source-demo", "--help")
    assert said.exit_code == 0
    assert "pleach spark source-demo --seconds 5" in " ".join(said.output.split())


def test_a_time_that_is_none_is_refused():
    assert run("source-demo", "--seconds", "0").exit_code == 2
