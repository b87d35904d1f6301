"""Log-in at the port for clients: the frames before a client's Hello, and whether the Hello is let in.

    STRANGER ── Login KEY ──▶ challenged ── Login PROOF ──▶ known ── Hello ──▶ admitted
        │ └─── Login TOKEN ──────────────────────────────────▶ │
        └──── Hello, with a certificate ───────────────────────┴──────────────▶ admitted

Rule 1: a connection logs in once. Whatever does not fit ends it with DENIED, and the log says why and whence; the
        client is told no more than it needs to mend its own side.
Rule 2: a log-in by key or token is for the one name in it; a certificate is good for every name of its principal.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pleach.access.access_file import Access, KeyProof, Proof
from pleach.access.certificates import certificate_of, expiry_of
from pleach.access.identity import identity_in
from pleach.access.keys import NONCE_BYTES, is_signed_by, signed_text
from pleach.access.principals import Principal
from pleach.core.links.frames import Challenge, Hello, Login, LoginKind
from pleach.core.messages import Node
from pleach.errors import AccessError


class Visitor(Protocol):
    """A connection, as far as its log-in cares."""

    @property
    def peer_certificate(self) -> bytes:
        """DER, of this network and not revoked; empty without one."""


@dataclass(frozen=True, slots=True)
class Challenged:
    node: Node
    public: bytes
    nonce: bytes


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """`node`: the only name that it is good for; empty: every name of the principal. `expires`: 0.0: never."""

    principal: str
    proof: Proof
    node: Node = ""
    expires: float = 0.0


LoginState: TypeAlias = Challenged | LoggedIn


class LoginDesk:
    """The log-ins that are under way; states are kept by connection until its Hello."""

    def __init__(self, access: Callable[[], Access], certificate: Callable[[], bytes]) -> None:
        """`certificate`: of this broker, DER; empty without TLS."""
        self._access = access
        self._certificate = certificate
        self._states: dict[Visitor, LoginState] = {}

    def log_in(self, visitor: Visitor, login: Login) -> Challenge | None:
        """Take a Login; returns the challenge to send, if it asks for one. Raises AccessError: the connection ends."""
        match login.kind, self._states.get(visitor):
            case LoginKind.KEY, None:
                nonce = secrets.token_bytes(NONCE_BYTES)
                self._states[visitor] = Challenged(login.node, login.proof, nonce)
                return Challenge(nonce)
            case LoginKind.PROOF, Challenged() as challenged:
                self._states[visitor] = self._by_key(challenged, login)
            case LoginKind.TOKEN, None:
                self._states[visitor] = self._by_token(login)
            case _:
                raise AccessError(f"{login.kind.name} out of turn", "log in once, before Hello")
        return None

    def admit(self, visitor: Visitor, hello: Hello) -> tuple[Principal, LoggedIn]:
        """The principal of a Hello, and its log-in. Raises AccessError."""
        state = self._states.pop(visitor, None)
        if state is None:
            state = self._by_certificate(visitor)
        if not isinstance(state, LoggedIn):
            raise AccessError("the challenge was not answered", "sign it before Hello")
        principal = self._access().of_proof(state.proof)
        if principal is None or (state.node and state.node != hello.node) or not principal.may_be(hello.node):
            raise AccessError(
                f"{state.principal!r} may not connect as {hello.node!r}", "use a name that the access file lists for it"
            )
        return principal, state

    def forget(self, visitor: Visitor) -> None:
        self._states.pop(visitor, None)

    def _by_certificate(self, visitor: Visitor) -> LoggedIn:
        if not visitor.peer_certificate:
            raise AccessError("not logged in", "give a certificate, a key or a token")
        certificate = certificate_of(visitor.peer_certificate)
        identity = identity_in(certificate)
        principal = self._access().of_certificate(identity)
        if principal is None:
            raise AccessError(f"no principal for the certificate of {identity}", "add it to the access file")
        return LoggedIn(principal.name, identity, expires=expiry_of(certificate))

    def _by_key(self, challenged: Challenged, login: Login) -> LoggedIn:
        principal = self._access().of_key(challenged.public)
        text = signed_text(challenged.nonce, self._certificate(), challenged.node)
        is_proven = is_signed_by(challenged.public, login.proof, text)  # also where nobody has the key: the same time
        if principal is None or not is_proven or login.node != challenged.node:
            raise AccessError(
                "the key is not accepted", "add its public part to the access file, and sign the challenge"
            )
        return LoggedIn(principal.name, KeyProof(challenged.public), challenged.node)

    def _by_token(self, login: Login) -> LoggedIn:
        access = self._access()
        principal, subject = access.of_token(login.proof.decode(errors="replace"))
        if principal is None:
            raise AccessError("no principal has this token's subject", "add it to the access file")
        return LoggedIn(principal.name, access.proof_of(subject), login.node, subject.expires)
