import json

import pytest
from typer.testing import CliRunner

from pleach.cli.certs import app
from pleach.errors import CertificateError


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_from_nothing_to_certificates_for_everybody(tmp_path):
    place = tmp_path / "certs"
    assert "authority of acme" in run("init", place, "--network", "acme")
    made = json.loads(
        run("broker", place, "a", "--host", "localhost", "--role", "broker", "--role", "standby", "--json")
    )
    assert made == {"path": str(place / "brokers" / "a"), "network": "acme", "list": 2}
    run("client", place, "alice")
    run("operator", place, "oscar")
    shown = json.loads(run("show", place, "--json"))
    assert [(each["kind"], each["name"]) for each in shown["certificates"]] == [
        ("broker", "a"),
        ("client", "alice"),
        ("operator", "oscar"),
    ]
    assert shown["certificates"][0]["roles"] == ["broker", "standby"]
    assert "client alice" in run("revoke", place, "alice")
    assert "revoked" in run("show", place)


def test_a_key_for_the_challenge(tmp_path):
    run("init", tmp_path / "certs", "--network", "acme")
    public = run("client", tmp_path / "certs", "bob", "--key").strip()
    assert run("client", tmp_path / "certs", "bob", "--key").strip() == public, "who asks again is not locked out"
    assert len(public) == 44
    assert (tmp_path / "certs/clients/bob/ed25519.pem").exists()


def test_without_an_authority_the_remedy_is_named(tmp_path):
    with pytest.raises(CertificateError, match="pleach certs init"):
        run("broker", tmp_path, "a")
