import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from pleach.access.certificates import certificate_of, issue, new_authority
from pleach.access.identity import Identity, IdentityKind, identity_in, parse_identity
from pleach.errors import CertificateError, TlsError

names = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=40).filter(
    lambda text: text.isprintable() and not text.startswith("/")
)


@given(names, st.sampled_from(IdentityKind))
def test_an_identity_is_read_as_it_was_written(name, kind):
    identity = Identity("acme", kind, name)
    assert parse_identity(str(identity)) == identity


@pytest.mark.parametrize(
    "text",
    [
        "https://acme/broker/a",
        "pleach://acme/broker/",
        "pleach://acme/king/a",
        "pleach:///broker/a",
        "pleach://ACME/broker/a",
        "pleach://acme/broker/%00",
        "pleach://acme/broker/" + "a" * 256,
        "pleach://acme/client//a",
    ],
)
def test_what_is_no_identity_is_refused(text):
    with pytest.raises(TlsError, match="is no identity"):
        parse_identity(text)


def test_a_certificate_has_the_identity_that_it_was_issued_for():
    authority = new_authority("acme", 1e9)
    wanted = Identity("acme", IdentityKind.CLIENT, "tenant/älice")
    issued = issue(authority, wanted, 1e9)
    assert identity_in(issued.certificate) == wanted
    assert certificate_of(issued.certificate.public_bytes(Encoding.DER)) == issued.certificate


def test_what_is_no_certificate_is_refused():
    with pytest.raises(TlsError, match="no certificate"):
        certificate_of(b"what?")


@pytest.mark.parametrize("network", ["", "Acme", "a b", "-a", "a" * 64, "a/b"])
def test_a_network_has_a_plain_name(network):
    with pytest.raises(CertificateError, match="is no network"):
        new_authority(network, 1e9)
