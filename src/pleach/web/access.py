"""Access to the dashboard: which requests are answered, and which may change anything.

Rule 1: the Host must be an address, or a name from the settings (net/allowed_hosts.py).
Rule 2: a change is a POST with a JSON body, with the token that only our page has, and from our own origin. A page of
        another site has no token, and browsers do not let it send such a header.
Rule 3: no page may frame ours; ours loads nothing from elsewhere, and runs no inline scripts.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Mapping

from pleach.net.allowed_hosts import Hosts, why_foreign

TOKEN_FIELD = "x-pleach-token"  # noqa: S105 - the name of a header

FIELDS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class AccessCheck:
    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names`: see Hosts."""
        self._hosts = Hosts(names)
        self.token = secrets.token_urlsafe(24)

    def why_not_seen(self, fields: Mapping[str, str]) -> str:
        """Why this request is not answered; empty if it is."""
        return self._hosts.why_unknown(fields)

    def why_not_done(self, fields: Mapping[str, str]) -> str:
        """Why this request may change nothing; empty if it may."""
        if reason := why_foreign(fields):
            return reason
        if not hmac.compare_digest(fields.get(TOKEN_FIELD, "").encode(), self.token.encode()):
            return "the page is from a former process: reload it"
        return ""
