"""The walk along admin addresses, where one leads to a broker that has been asked already."""

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import SurveyError
from support.live.broker_process import eventually, processes


@pytest.fixture(scope="module")
def misled(tmp_path_factory):
    """b tells where a answers, as two brokers do that each listen on a loopback of their own."""
    place = tmp_path_factory.mktemp("misled")
    with processes() as start:
        a = start("a", place, "--neighbour", "b")
        start("b", place, "--peer", f"a={a.ready['peer']}", "--admin-advertise", a.ready["admin"])
        eventually(a.is_ready)
        yield a


def overlay(*arguments):
    return CliRunner().invoke(app, ["overlay", *arguments], env={"COLUMNS": "200"})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_broker_behind_an_address_that_is_anothers_is_missing_and_said_to_be(misled, host):
    via = misled.ready["admin"].replace("127.0.0.1", host)
    said = f"b is advertised at {misled.ready['admin']}, where a answers: set `admin_advertise` at b"
    shown = overlay("show", via)
    assert (shown.exit_code, said in shown.stdout) == (1, True), shown.output
    refused = overlay("remove", "b", "--via", via)
    assert isinstance(refused.exception, SurveyError)
    assert said in str(refused.exception)
