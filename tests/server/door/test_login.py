"""The log-in desk: every order of log-in frames, and what a Hello may be after each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from pleach.access.access_file import load_access
from pleach.access.certificates import issue, new_authority
from pleach.access.identity import Identity, IdentityKind
from pleach.access.keys import public_text
from pleach.core.links.frames import Challenge, Hello, Login, LoginKind
from pleach.errors import AccessError
from pleach.net.client_login import ClientLogin
from pleach.server.door.login import LoginDesk

SECONDS_PER_DAY = 86_400
KEY = Ed25519PrivateKey.generate()
CERTIFICATE = b"the certificate of the broker"


@dataclass(eq=False)
class Stranger:
    peer_certificate: bytes = b""


@pytest.fixture
def desk(tmp_path: Path) -> LoginDesk:
    file = tmp_path / "access.toml"
    file.write_text(f"[principals.alice]\nkey = '{public_text(KEY)}'\nnames = ['alice', 'alice-*']\n[principals.bob]\n")
    access = load_access(file)
    return LoginDesk(lambda: access, lambda: CERTIFICATE)


def hello(name: str) -> Hello:
    return Hello(name, 1, 0, 0, 1, role="client")


def challenged(desk: LoginDesk, stranger: Stranger, login: ClientLogin, name: str) -> Challenge:
    opening = login.opening(name)
    assert opening is not None
    challenge = desk.log_in(stranger, opening)
    assert challenge is not None
    return challenge


def test_a_key_that_signs_the_challenge_is_let_in_under_the_name_that_it_signed(desk: LoginDesk) -> None:
    stranger, login = Stranger(), ClientLogin(key=KEY)
    challenge = challenged(desk, stranger, login, "alice-2")
    assert desk.log_in(stranger, login.answer(challenge, CERTIFICATE, "alice-2")) is None
    principal, login_kept = desk.admit(stranger, hello("alice-2"))
    assert (principal.name, login_kept.expires) == ("alice", 0.0)


def test_a_signature_is_good_for_one_connection_one_broker_and_one_name(desk: LoginDesk) -> None:
    login = ClientLogin(key=KEY)
    for certificate, signed, greeted in product((CERTIFICATE, b"another"), ("alice", "alice-2"), ("alice", "alice-3")):
        stranger = Stranger()
        challenge = challenged(desk, stranger, login, "alice")
        answer = login.answer(challenge, certificate, signed)
        if (certificate, signed) != (CERTIFICATE, "alice"):
            with pytest.raises(AccessError):
                desk.log_in(stranger, answer)
            continue
        desk.log_in(stranger, answer)
        if greeted == "alice":
            desk.admit(stranger, hello(greeted))
        else:
            with pytest.raises(AccessError):
                desk.admit(stranger, hello(greeted))
    first, second = Stranger(), Stranger()
    old = challenged(desk, first, login, "alice")
    challenged(desk, second, login, "alice")
    with pytest.raises(AccessError):
        desk.log_in(second, login.answer(old, CERTIFICATE, "alice"))


def test_another_key_is_not_let_in(desk: LoginDesk) -> None:
    stranger, login = Stranger(), ClientLogin(key=Ed25519PrivateKey.generate())
    challenge = challenged(desk, stranger, login, "alice")
    with pytest.raises(AccessError):
        desk.log_in(stranger, login.answer(challenge, CERTIFICATE, "alice"))


def test_a_certificate_is_good_for_every_name_of_its_principal_and_for_no_other(desk: LoginDesk) -> None:
    authority = new_authority("acme", 1e9)

    def by(kind: IdentityKind, name: str) -> Stranger:
        issued = issue(authority, Identity("acme", kind, name), 1e9, days=7)
        return Stranger(issued.certificate.public_bytes(Encoding.DER))

    for name in ("alice", "alice-7"):
        principal, login = desk.admit(by(IdentityKind.CLIENT, "alice"), hello(name))
        assert (principal.name, login.expires) == ("alice", 1e9 + 7 * SECONDS_PER_DAY)
    for stranger, name in [
        (by(IdentityKind.CLIENT, "alice"), "bob"),
        (by(IdentityKind.CLIENT, "carol"), "alice"),
        (by(IdentityKind.BROKER, "alice"), "alice"),
        (Stranger(), "alice"),
    ]:
        with pytest.raises(AccessError):
            desk.admit(stranger, hello(name))


@pytest.mark.parametrize("kinds", [k for n in (1, 2, 3) for k in product(LoginKind, repeat=n)])
def test_frames_out_of_turn_never_log_in(desk: LoginDesk, kinds: tuple[LoginKind, ...]) -> None:
    stranger = Stranger()

    def try_all() -> None:
        for kind in kinds:
            desk.log_in(stranger, Login(kind, "alice", b"nothing"))
        desk.admit(stranger, hello("alice"))

    with pytest.raises(AccessError):
        try_all()
