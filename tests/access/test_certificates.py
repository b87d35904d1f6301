"""The authority's directory: what `pleach certs` makes, and what is read back."""

import stat

import pytest

from pleach.access.certificate_directory import CertificateDirectory
from pleach.access.identity import IdentityKind
from pleach.access.membership import MemberRole, read_members
from pleach.errors import CertificateError

BROKER = (MemberRole.BROKER,)


def test_private_keys_are_readable_by_their_owner_only(network, tmp_path):
    network.add_broker("a", ["localhost"], BROKER, 10)
    network.add_challenge_key("bob")
    keys = [*tmp_path.rglob("*key.pem"), *tmp_path.rglob("ed25519.pem")]
    assert len(keys) == 3
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


def test_a_broker_is_on_the_list_and_every_directory_has_the_list(network, tmp_path):
    a = network.add_broker("a", [], BROKER, 10)
    network.add(IdentityKind.CLIENT, "alice")
    network.add_broker("b", [], (MemberRole.BROKER, MemberRole.STANDBY), 10)
    again = CertificateDirectory(tmp_path / "certs")
    assert again.members.brokers.keys() == {"a", "b"}
    assert again.members.number == 3
    lists = {path.read_bytes() for path in tmp_path.rglob("members.json")}
    assert len(lists) == 1, "all directories have the newest one"
    assert (a / "members.json").exists()


def test_a_certificate_that_is_issued_again_keeps_its_key(network):
    place = network.add_broker("a", [], BROKER, 10)
    key, certificate = (place / "key.pem").read_bytes(), (place / "certificate.pem").read_bytes()
    network.add_broker("a", [], BROKER, 20)
    assert (place / "key.pem").read_bytes() == key
    assert (place / "certificate.pem").read_bytes() != certificate


def test_a_revoked_broker_is_off_the_list(network):
    network.add_broker("a", [], BROKER, 10)
    (revoked,) = network.revoke("a")
    assert network.members.brokers == {}
    assert network.members.revoked == {revoked.serial}
    (shown,) = network.issued()
    assert shown.is_revoked


def test_a_name_of_two_kinds_is_not_revoked_by_name_alone(network):
    network.add_broker("a", [], BROKER, 10)
    network.add(IdentityKind.CLIENT, "a")
    with pytest.raises(CertificateError, match="write broker/a"):
        network.revoke("a")
    (revoked,) = network.revoke("client/a")
    assert revoked.kind == "client"
    assert "a" in network.members.brokers


def test_a_serial_number_is_revoked_without_its_file(network):
    network.revoke("0A:1b")
    assert network.members.revoked == {"a1b"}
    with pytest.raises(CertificateError, match="is not here"):
        network.revoke("nobody")


def test_there_is_one_authority_in_a_directory(network, tmp_path):
    with pytest.raises(CertificateError, match="already"):
        CertificateDirectory.create(tmp_path / "certs", "acme", 10)
    with pytest.raises(CertificateError, match="pleach certs init"):
        CertificateDirectory(tmp_path / "elsewhere")


@pytest.mark.parametrize("name", [".", "..", "../../b", "a b"])
def test_no_name_leads_out_of_the_directory(network, tmp_path, name):
    place = network.add(IdentityKind.CLIENT, name)
    assert place.resolve().parent == (tmp_path / "certs" / "clients").resolve()
    assert [each.name for each in network.issued()] == [name]


# The list ----------------------------------------------------------------------------------------------------------


def _read(network, path, *, name="acme", known=0):
    return read_members(path, network._certificate, name, known=known)


def test_a_list_that_was_changed_is_refused(network, tmp_path):
    network.add_broker("a", [], BROKER, 10)
    path = tmp_path / "certs" / "members.json"
    content = path.read_bytes()
    assert _read(network, path).number == 2
    path.write_bytes(content.replace(b'"number": 2', b'"number": 9'))
    with pytest.raises(CertificateError, match="not signed"):
        _read(network, path)
    path.write_bytes(content)
    (tmp_path / "certs" / "members.json.sig").write_text("nonsense")
    with pytest.raises(CertificateError, match="not signed"):
        _read(network, path)


def test_a_list_of_another_network_or_an_older_one_is_refused(network, tmp_path):
    path = tmp_path / "certs" / "members.json"
    with pytest.raises(CertificateError, match="of network acme, not other"):
        _read(network, path, name="other")
    assert _read(network, path, known=1).number == 1
    with pytest.raises(CertificateError, match="older than number 2"):
        _read(network, path, known=2)


def test_who_may_speak_as_whom(network):
    network.add_broker("a", [], BROKER, 10)
    network.add_broker("b", [], (MemberRole.STANDBY,), 10)
    network.add_broker("c", [], (), 10)
    why_not = network.members.why_not
    assert not why_not("a", "a")
    assert "the certificate is of a, not b" in why_not("a", "b")
    assert not why_not("b", "b")
    assert "the certificate is of b, not a" in why_not("b", "a")
    assert "c is no broker" in why_not("c", "c")
    assert "not on the membership list" in why_not("x", "x")
