"""What files are taken as credentials, and whom they let in; handshakes over buffers, without sockets."""

import ssl
import time

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from pleach.access.certificate_directory import CertificateDirectory
from pleach.access.certificates import KeyPair, certificate_pem, issue, key_pem, read_key
from pleach.access.identity import Identity, IdentityKind
from pleach.access.membership import MemberRole
from pleach.access.tls import Credentials, Tls
from pleach.errors import CertificateError, TlsError

BROKER = (MemberRole.BROKER,)


def loaded(place, **options):
    return Credentials(Tls.directory(place), time.time(), **options)


def shaken(server: ssl.SSLContext, client: ssl.SSLContext):
    """Both ends after a handshake, over buffers; raises what either end raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server)
    there = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [here, there]
    for _ in range(6):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    return here, there


def der(credentials):
    return credentials.certificate.public_bytes(Encoding.DER)


def test_brokers_shake_hands_in_tls_1_3_and_know_each_other(network):
    a = loaded(network.add_broker("a", [], BROKER, 10))
    b = loaded(network.add_broker("b", [], BROKER, 10))
    here, there = shaken(a.listening(ssl.CERT_REQUIRED), b.dialling)
    assert here.version() == "TLSv1.3"
    b.check_broker(here.getpeercert(binary_form=True), "a")
    with pytest.raises(TlsError, match="not on the membership list"):
        a.check_broker(there.getpeercert(binary_form=True), "b")  # a's list is the one before b was added
    loaded(network.add_broker("a", [], BROKER, 10)).check_broker(there.getpeercert(binary_form=True), "b")


def test_no_certificate(network):
    a = loaded(network.add_broker("a", [], BROKER, 10))
    alone = Credentials(Tls(a.files.authority), time.time())
    with pytest.raises(ssl.SSLError, match=r"(?i)peer did not return a certificate"):
        shaken(a.listening(ssl.CERT_REQUIRED), alone.dialling)
    _, there = shaken(a.listening(ssl.CERT_OPTIONAL), alone.dialling)
    assert there.getpeercert(binary_form=True) is None
    a.check_other(None)
    with pytest.raises(TlsError, match="no certificate"):
        a.check_broker(None)


def test_a_certificate_of_another_authority(network, tmp_path):
    other = CertificateDirectory.create(tmp_path / "other", "acme", 10)
    a, b = loaded(network.add_broker("a", [], BROKER, 10)), loaded(other.add_broker("b", [], BROKER, 10))
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shaken(a.listening(ssl.CERT_OPTIONAL), b.dialling)


def test_an_expired_certificate(network, tmp_path):
    a = loaded(network.add_broker("a", [], BROKER, 10))
    place = network.add_broker("b", [], BROKER, 10)
    b = loaded(place)
    authority = KeyPair(network._certificate, read_key(tmp_path / "certs" / "authority.key.pem"))
    old = issue(authority, b.identity, time.time() - 20 * 86_400, days=10, key=b.key)
    (place / "certificate.pem").write_bytes(certificate_pem(old.certificate))
    with pytest.raises(CertificateError, match="expired on"):
        loaded(place)
    b.dialling.load_cert_chain(place / "certificate.pem", place / "key.pem")
    with pytest.raises(ssl.SSLError, match="certificate has expired"):
        shaken(a.listening(ssl.CERT_REQUIRED), b.dialling)


def test_revoked_wrong_kind_wrong_name_wrong_network(network, tmp_path):
    b = loaded(network.add_broker("b", [], BROKER, 10))
    alice = loaded(network.add(IdentityKind.CLIENT, "alice"))
    place = network.add_broker("a", [], BROKER, 10)
    a = loaded(place)
    a.check_broker(der(b), "b")
    with pytest.raises(TlsError, match="the certificate is of b, not c"):
        a.check_broker(der(b), "c")
    with pytest.raises(TlsError, match="of client alice, not of a broker"):
        a.check_broker(der(alice))
    a.check_other(der(alice))
    network.revoke("b")
    network.revoke("alice")
    again = loaded(place)
    for void in (b, alice):
        with pytest.raises(TlsError, match="revoked"):
            again.check_other(der(void))
    with pytest.raises(TlsError, match="revoked"):
        again.check_broker(der(b), "b")
    authority = KeyPair(network._certificate, read_key(tmp_path / "certs" / "authority.key.pem"))
    stray = issue(authority, Identity("other", IdentityKind.BROKER, "b"), time.time())
    with pytest.raises(TlsError, match="of network other, not acme"):
        a.check_broker(stray.certificate.public_bytes(Encoding.DER))


def test_files_that_do_not_fit_each_other_are_refused(network, tmp_path):
    place = network.add_broker("a", [], BROKER, 10)
    network.add_broker("b", [], BROKER, 10)
    good = (place / "key.pem").read_bytes()
    (place / "key.pem").write_bytes((tmp_path / "certs/brokers/b/key.pem").read_bytes())
    with pytest.raises(CertificateError, match="not the key of the certificate"):
        loaded(place)
    (place / "key.pem").unlink()
    with pytest.raises(CertificateError, match="the key is missing"):
        loaded(place)
    (place / "key.pem").write_bytes(good)
    with pytest.raises(CertificateError, match="older than"):
        loaded(place, known_number=9)
    (place / "authority.pem").write_bytes((place / "certificate.pem").read_bytes())
    with pytest.raises(CertificateError, match="not of an authority"):
        loaded(place)
    with pytest.raises(CertificateError, match="no directory"):
        Tls.directory(tmp_path / "nowhere")


def test_a_key_that_is_encrypted_does_not_ask_the_terminal(network):
    place = network.add_broker("a", [], BROKER, 10)
    key = read_key(place / "key.pem")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    (place / "key.pem").write_bytes(pem)
    with pytest.raises(CertificateError, match="no private key"):
        loaded(place)
    (place / "key.pem").write_bytes(key_pem(key))
    assert loaded(place).days_left(time.time()) == pytest.approx(10, abs=0.1)
