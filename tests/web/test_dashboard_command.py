"""`pleach dashboard`, used in the wrong way: what is wrong, and what would be right."""

import socket

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import InvalidInputError, SettingsError, SurveyError, TraceError


def refused(*arguments):
    return CliRunner().invoke(app, ["dashboard", *map(str, arguments)]).exception


@pytest.mark.parametrize("arguments", [(), ("--simulate", 3, "--trace", "runs"), ("127.0.0.1:1", "--simulate", 3)])
def test_one_thing_can_be_shown(arguments):
    error = refused(*arguments)
    assert isinstance(error, InvalidInputError)
    assert "--trace LAKE" in str(error)


def test_no_broker_at_that_address():
    error = refused("127.0.0.1:1")
    assert isinstance(error, SurveyError)
    assert "127.0.0.1:1: Connection refused" in str(error)


def test_no_address():
    assert "HOST:PORT" in str(refused("nonsense"))
    error = refused("--simulate", 3, "--listen", "nonsense")
    assert isinstance(error, SettingsError)
    assert "HOST:PORT" in str(error)


def test_a_port_in_use():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        error = refused("--simulate", 3, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert isinstance(error, SettingsError)
    assert "in use" in str(error)
    assert "port 0 for any" in str(error)


def test_no_trace(tmp_path):
    error = refused("--trace", tmp_path)
    assert isinstance(error, TraceError)


def test_help_has_an_example():
    said = CliRunner().invoke(app, ["dashboard", "--help"])
    assert said.exit_code == 0
    assert "pleach dashboard 127.0.0.1:7301" in said.output
