"""Sessions of the dashboard: a cookie stands for the token that somebody has logged in with.

Rule 1: a session is nothing but its token, which is verified for each request: it ends when the token expires, and when
        the access file no longer knows who that is.
Rule 2: the cookie is a random number of 256 bits; scripts cannot read it, and no page of another site sends it.
Rule 3: a principal has at most SESSIONS_PER_PRINCIPAL_MAX, all together SESSIONS_MAX: the oldest ends for the next.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import NamedTuple

ID_BYTES = 32
SESSIONS_PER_PRINCIPAL_MAX = 16
SESSIONS_MAX = 1_024
NAME_DIGITS = 8


class BrowserSession(NamedTuple):
    principal: str
    token: str


class BrowserSessions:
    def __init__(self, broker: str, *, is_secure: bool) -> None:
        """`is_secure`: whether the port has TLS. Cookies know no ports: their name is of the broker."""
        self._cookie = f"pleach-{hashlib.sha256(broker.encode()).hexdigest()[:NAME_DIGITS]}"
        self._attributes = "; Path=/; HttpOnly; SameSite=Strict" + ("; Secure" if is_secure else "")
        self._sessions: dict[str, BrowserSession] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, session: BrowserSession, seconds: float) -> str:
        """The field Set-Cookie of a new session, which the browser forgets after so many seconds."""
        own = [key for key, each in self._sessions.items() if each.principal == session.principal]
        if len(own) >= SESSIONS_PER_PRINCIPAL_MAX:
            del self._sessions[own[0]]
        elif len(self._sessions) >= SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        key = secrets.token_urlsafe(ID_BYTES)
        self._sessions[key] = session
        return f"{self._cookie}={key}; Max-Age={max(0, int(seconds))}{self._attributes}"

    def token_of(self, fields: Mapping[str, str]) -> str:
        """The token of the session of a request; empty where there is none."""
        session = self._sessions.get(self._key(fields))
        return session.token if session else ""

    def end(self, fields: Mapping[str, str]) -> str:
        """The field Set-Cookie that makes the browser forget the session of a request."""
        self._sessions.pop(self._key(fields), None)
        return f"{self._cookie}=; Max-Age=0{self._attributes}"

    def _key(self, fields: Mapping[str, str]) -> str:
        for part in fields.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self._cookie:
                return value
        return ""
