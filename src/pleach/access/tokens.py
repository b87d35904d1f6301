"""Signed tokens of an identity provider (JWT): which subject, and until when.

Only asymmetric signatures are accepted, by a key that the access file names; `exp` and the subject are required.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jwt
import msgspec
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from pleach.errors import AccessError

TOKEN_BYTES_MAX = 8_192
ALGORITHMS = ("EdDSA", "ES256", "ES384", "RS256", "PS256")
LEEWAY_SECONDS = 5.0  # between the clocks of the provider and of the broker


class TokenSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[tokens]` of the access file."""

    issuer: str
    audience: str
    keys: str  # a file: a public key in PEM form, or a JWK set
    claim: str = "sub"  # the claim that names the subject


class TokenSubject(NamedTuple):
    subject: str
    expires: float  # seconds since 1970; from then on the token is not accepted any more


class TokenVerifier:
    def __init__(self, settings: TokenSettings, keys: bytes) -> None:
        """`keys`: the content of the file of keys. Raises AccessError."""
        self._settings = settings
        self._keys = _read_keys(keys)
        self.fingerprint = hashlib.sha256(msgspec.json.encode(settings) + keys).digest()  # of what tokens must fit

    def verify(self, token: str) -> TokenSubject:
        """Raises AccessError, with a reason that tells a stranger nothing of the keys."""
        if len(token) > TOKEN_BYTES_MAX:
            raise AccessError(f"a token of {len(token):,} characters", f"at most {TOKEN_BYTES_MAX:,}")
        settings = self._settings
        try:
            key = self._keys.get(jwt.get_unverified_header(token).get("kid", "")) or self._keys.get("")
            if key is None:
                raise AccessError("the token is signed by an unknown key", "ask the identity provider for a new one")
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.InvalidTokenError as error:
            raise AccessError(
                f"the token is not accepted: {error}", "ask the identity provider for a new one"
            ) from None
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):  # an algorithm for other keys, for example
            raise AccessError("the token is malformed", "send a signed JWT") from None
        return _subject(claims, settings.claim)


def _subject(claims: Mapping[str, Any], claim: str) -> TokenSubject:
    subject = claims.get(claim)
    if not isinstance(subject, str) or not subject:
        raise AccessError(f"the token has no claim {claim!r}", "let the identity provider add it")
    try:
        expires = float(claims["exp"])
    except OverflowError:
        expires = math.inf
    if not math.isfinite(expires):
        raise AccessError("the token never expires", "let the identity provider set exp to a time")
    return TokenSubject(subject, expires + LEEWAY_SECONDS)


def _read_keys(content: bytes) -> dict[str, Any]:
    """Keys by their id; the one under "" is for tokens that name none."""
    try:
        if content.lstrip().startswith(b"{"):
            found = {key.key_id or "": key.key for key in jwt.PyJWKSet.from_dict(json.loads(content)).keys}
        else:
            found = {"": load_pem_public_key(content)}
    except (ValueError, TypeError, jwt.PyJWTError) as error:
        raise AccessError(f"tokens.keys: no public key: {error}", "give a PEM public key, or a JWK set") from None
    if any(isinstance(key, bytes) for key in found.values()):
        raise AccessError("tokens.keys: a secret, not a public key", "give the public key of the identity provider")
    if len(found) == 1:
        found.setdefault("", next(iter(found.values())))
    return found
