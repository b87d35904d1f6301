"""Operators for tests: an identity provider, an access file, and requests to the operators' port of a real broker."""

import http.client
import json
import ssl
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.live.broker_process import address

TOKENS = "[tokens]\nissuer = 'i'\naudience = 'pleach'\nkeys = 'issuer.pem'\n"


class Provider:
    """Issues tokens, whose public key is beside the access file."""

    def __init__(self, place):
        self._key = ec.generate_private_key(ec.SECP256R1())
        pem = self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (place / "issuer.pem").write_bytes(pem)
        self.file = place / "access.toml"

    def write(self, **principals):
        """Lines of TOML by principal, which has tokens of its own name."""
        tables = [f"[principals.{name}]\ntoken = '{name}'\n{lines}\n" for name, lines in principals.items()]
        self.file.write_text("\n".join([TOKENS, *tables]))

    def token(self, principal, seconds=600):
        claims = {"iss": "i", "aud": "pleach", "sub": principal, "exp": time.time() + seconds}
        return jwt.encode(claims, self._key, "ES256")

    def bearer(self, principal, seconds=600):
        return {"Authorization": f"Bearer {self.token(principal, seconds)}"}


class Reply:
    def __init__(self, response):
        self.code, self.fields, self.text = response.status, response.headers, response.read().decode()

    @property
    def value(self):
        return json.loads(self.text)


def request(broker, method, path, body=None, fields=None, context=None):
    """One request to a broker's operators' port; with TLS if there is a context."""
    place = address(broker.ready["admin"])
    options = {"timeout": 60} if context is None else {"timeout": 60, "context": context}
    kind = http.client.HTTPConnection if context is None else http.client.HTTPSConnection
    connection = kind(*place, **options)
    told = {"Content-Type": "application/json"} if body is not None else {}
    try:
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        connection.request(method, path, data, {**told, **(fields or {})})
        return Reply(connection.getresponse())
    finally:
        connection.close()


def shows(files):
    """The context of a client that checks nothing, and shows the certificate in these files; None: no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if files is not None:
        context.load_cert_chain(files / "certificate.pem", files / "key.pem")
    return context


def audit_lines(file):
    """What the log has; a line that is no JSON object fails."""
    return [json.loads(line) for line in file.read_text(encoding="ascii").splitlines()]
