"""Tokens: signed by the named key, for this audience, with an end; nothing else is one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pleach.access.tokens import LEEWAY_SECONDS, TOKEN_BYTES_MAX, TokenSettings, TokenVerifier
from pleach.errors import AccessError

SETTINGS = TokenSettings("https://id.example", "pleach", "issuer.pem")
KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def claims(**changes: Any) -> dict[str, Any]:
    whole = {"iss": "https://id.example", "aud": "pleach", "sub": "alice", "exp": time.time() + 60, **changes}
    return {name: value for name, value in whole.items() if value is not None}


def test_a_valid_token_names_its_subject_and_end() -> None:
    told = claims()
    found = TokenVerifier(SETTINGS, PEM).verify(jwt.encode(told, KEY, "ES256"))
    assert found.subject == "alice"
    assert found.expires == pytest.approx(told["exp"] + LEEWAY_SECONDS, abs=1)


def test_a_session_ends_when_its_token_would_be_refused() -> None:
    """Else a client would be let in and sent away again and again, until then."""
    told = claims(exp=time.time() - LEEWAY_SECONDS / 2)
    found = TokenVerifier(SETTINGS, PEM).verify(jwt.encode(told, KEY, "ES256"))
    assert found.expires > time.time()


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": time.time() - 60},
        {"exp": None},
        {"aud": "another"},
        {"aud": None},
        {"iss": "https://elsewhere.example"},
        {"sub": None},
        {"sub": ""},
        {"nbf": time.time() + 600},
        {"exp": 10**400},
        {"exp": "9" * 400},
    ],
)
def test_other_claims_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(AccessError):
        TokenVerifier(SETTINGS, PEM).verify(jwt.encode(claims(**changes), KEY, "ES256"))


@pytest.mark.parametrize("algorithm", ["EdDSA", "ES384", "RS256", "PS256"])
def test_an_algorithm_for_another_kind_of_key_is_refused(algorithm: str) -> None:
    header, rest = base64.urlsafe_b64encode(json.dumps({"alg": algorithm}).encode()).rstrip(b"=").decode(), "e30.AAAA"
    with pytest.raises(AccessError, match="malformed"):  # and nothing is told of the key
        TokenVerifier(SETTINGS, PEM).verify(f"{header}.{rest}")


def test_another_key_is_refused() -> None:
    with pytest.raises(AccessError):
        TokenVerifier(SETTINGS, PEM).verify(jwt.encode(claims(), ec.generate_private_key(ec.SECP256R1()), "ES256"))


def test_an_unsigned_token_or_one_signed_with_the_public_key_as_a_secret_is_refused() -> None:
    verifier = TokenVerifier(SETTINGS, PEM)
    header = {"alg": "HS256", "typ": "JWT"}
    # By hand: the library refuses to make such a token.
    parts = b".".join(base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (header, claims()))
    forged = parts + b"." + base64.urlsafe_b64encode(hmac.digest(PEM, parts, hashlib.sha256)).rstrip(b"=")
    for token in (jwt.encode(claims(), None, "none"), forged.decode()):
        with pytest.raises(AccessError):
            verifier.verify(token)


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "." * 100, "é.é.é", "A" * (TOKEN_BYTES_MAX + 1), "\x00.\x00.\x00"])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(AccessError):
        TokenVerifier(SETTINGS, PEM).verify(token)


def test_a_set_of_keys_is_chosen_from_by_id() -> None:
    second = ed25519.Ed25519PrivateKey.generate()
    keys = [
        {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())), "kid": "one"},
        {**json.loads(jwt.algorithms.OKPAlgorithm.to_jwk(second.public_key())), "kid": "two"},
    ]
    verifier = TokenVerifier(SETTINGS, json.dumps({"keys": keys}).encode())
    assert verifier.verify(jwt.encode(claims(), KEY, "ES256", headers={"kid": "one"})).subject == "alice"
    assert verifier.verify(jwt.encode(claims(), second, "EdDSA", headers={"kid": "two"})).subject == "alice"
    for headers in ({"kid": "two"}, {"kid": "three"}, {}):
        with pytest.raises(AccessError):
            verifier.verify(jwt.encode(claims(), KEY, "ES256", headers=headers))


@pytest.mark.parametrize(
    "content", [b"", b"no key", b"{}", b'{"keys": []}', b'{"keys": [{"kty": "oct", "k": "AAAA"}]}']
)
def test_unusable_keys_are_refused(content: bytes) -> None:
    with pytest.raises(AccessError):
        TokenVerifier(SETTINGS, content)
