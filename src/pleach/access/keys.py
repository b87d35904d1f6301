"""Log-in by an Ed25519 key: the broker sends a nonce, the client signs it together with the broker's certificate.

The signature covers the nonce (so that it is good once), the digest of the certificate that the client saw (so that
nobody in between can pass it on to the true broker), and the name that the client asks for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from pleach.errors import AccessError

NONCE_BYTES = 32
KEY_BYTES = 32
_CONTEXT = b"pleach log-in, version 1\x00"


def signed_text(nonce: bytes, server_certificate: bytes, name: str) -> bytes:
    """What is signed. `server_certificate`: DER; empty on a connection without TLS."""
    return _CONTEXT + nonce + hashlib.sha256(server_certificate).digest() + name.encode()


def load_private_key(pem: bytes) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise AccessError(f"no private key in PEM form: {error}", "make one with `pleach certs client --key`") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise AccessError("not an Ed25519 key", "make one with `pleach certs client --key`")
    return key


def public_text(key: Ed25519PrivateKey) -> str:
    """The public key as the access file has it."""
    return base64.b64encode(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def read_public_key(text: str) -> bytes:
    """Raises AccessError where this is no Ed25519 public key in base64."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != KEY_BYTES:
        raise AccessError(
            f"{text!r} is no Ed25519 public key",
            f"{KEY_BYTES} bytes in base64, as `pleach certs client --key` prints them",
        )
    return raw


def is_signed_by(public: bytes, signature: bytes, text: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True
