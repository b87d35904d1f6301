"""The door for operators: who asks the operators' port, by what each request proves.

Rule 1: a token in the request counts before a session, and a session before the certificate of the connection: a
        broker's dashboard asks other brokers in the name of who is logged in, over the broker's own connection.
Rule 2: what is brought must be valid. Who brings a token that is not accepted is nobody, whatever else it has.
Rule 3: verbs are those of the access file as it is now: a reload changes them for everybody who is logged in.
Rule 4: a broker on the membership list may read and reweave, which brokers need of each other, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pleach.access.access_file import Access
from pleach.access.identity import IdentityKind
from pleach.access.principals import Principal, Verb
from pleach.errors import AccessError, TlsError
from pleach.server.door.audit_log import AuditLog
from pleach.server.door.browser_sessions import BrowserSession, BrowserSessions
from pleach.server.door.transport_security import TransportSecurity
from pleach.server.feature import Feature
from pleach.server.http.caller import Caller, Evidence, LoginWay

BROKERS_MAY = frozenset({Verb.READ, Verb.REWEAVE})
SCHEME = "bearer"


class OperatorDoor(Feature):
    def __init__(
        self,
        broker: str,
        access: Callable[[], Access],
        security: TransportSecurity | None,
        audit: AuditLog,
    ) -> None:
        """`security`: None without TLS, where only tokens prove anything."""
        self._access = access
        self._security = security
        self.audit = audit
        self.sessions = BrowserSessions(broker, is_secure=security is not None)

    def recognise(self, evidence: Evidence) -> Caller:
        try:
            if "authorization" in evidence.fields:
                return self._by_token(evidence.address, bearer_token(evidence.fields["authorization"]))
            if token := self.sessions.token_of(evidence.fields):
                return self._by_token(evidence.address, token)._replace(way=LoginWay.SESSION)
            if evidence.certificate and self._security is not None:
                return self._by_certificate(evidence, self._security)
        except (AccessError, TlsError) as error:
            return Caller(evidence.address, frozenset(), complaint=str(error))
        return Caller(evidence.address, frozenset())

    def log_in(self, address: str, token: str) -> tuple[Caller, str]:
        """Begin a session; returns whose it is, and the cookie. Raises AccessError where the token is not accepted."""
        caller = self._by_token(address, token)
        _, subject = self._access().of_token(token)
        return caller, self.sessions.begin(BrowserSession(caller.principal, token), subject.expires - time.time())

    def settings_applied(self) -> None:
        self.audit.reopen()

    async def stop(self, *, is_fatal: bool) -> None:
        await self.audit.close()

    def _by_token(self, address: str, token: str) -> Caller:
        principal, _ = self._access().of_token(token)
        if principal is None:
            raise AccessError("no principal has this token's subject", "add it to the access file")
        return _caller(address, principal, LoginWay.TOKEN, token)

    def _by_certificate(self, evidence: Evidence, security: TransportSecurity) -> Caller:
        identity = security.credentials.checked(evidence.certificate)
        match identity.kind:
            case IdentityKind.BROKER:
                security.credentials.check_broker(evidence.certificate)
                return Caller(evidence.address, BROKERS_MAY, identity.name, LoginWay.BROKER)
            case IdentityKind.OPERATOR | IdentityKind.CLIENT:
                principal = self._access().of_certificate(identity)
                if principal is None:
                    raise AccessError(f"no principal for the certificate of {identity}", "add it to the access file")
                return _caller(evidence.address, principal, LoginWay.CERTIFICATE)
            case IdentityKind.AUTHORITY:
                raise AccessError("the certificate of the authority is nobody's", "give that of an operator")


def bearer_token(field: str) -> str:
    """Raises AccessError where the field has none."""
    scheme, _, token = field.strip().partition(" ")
    if scheme.lower() != SCHEME or not token.strip():
        raise AccessError("Authorization without a bearer token", "send Authorization: Bearer TOKEN")
    return token.strip()


def _caller(address: str, principal: Principal, way: LoginWay, token: str = "") -> Caller:
    return Caller(address, principal.verbs, principal.name, way, principal.tenant, token)
