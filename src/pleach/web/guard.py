"""Who may ask the dashboard for what.

Rule 1: the Host must be an address or a name that we have been given. A page of another site whose name was pointed
        at us (DNS rebinding) has the name of that site.
Rule 2: what changes anything is a POST with a JSON body, with the token that only our page has been given, and from our
        own origin. A page of another site has no token, and cannot send such a header unasked.
Rule 3: no page may frame ours, and ours loads nothing from elsewhere, nor runs what is written into it.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Iterable, Mapping

TOKEN_FIELD = "x-pleach-token"  # noqa: S105 - the name of a header
SAME_SITE = ("same-origin", "none")

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


class Guard:
    def __init__(self, names: Iterable[str] = ()) -> None:
        """`names`: of hosts that we are reached by, besides addresses and localhost."""
        self._names = frozenset({"localhost", *(name.lower() for name in names)})
        self.token = secrets.token_urlsafe(24)

    def why_not_seen(self, fields: Mapping[str, str]) -> str:
        """Why this request is not answered at all; empty if it is."""
        host = _host_of(fields.get("host", ""))
        if host in self._names or _is_address(host):
            return ""
        return f"this dashboard is not called {host!r}"

    def why_not_done(self, fields: Mapping[str, str]) -> str:
        """Why nothing is changed for this request; empty if it may be."""
        origin, host = fields.get("origin", ""), fields.get("host", "")
        if origin and origin.partition("://")[2] != host:
            return f"a page of {origin} asks for it, not the dashboard's own"
        if fields.get("sec-fetch-site", "none") not in SAME_SITE:
            return "a page of another site asks for it"
        if not hmac.compare_digest(fields.get(TOKEN_FIELD, "").encode(), self.token.encode()):
            return "the page is of a former process: load it again"
        return ""


def _host_of(field: str) -> str:
    """Without its port."""
    host = field.rpartition(":")[0] if field.rpartition(":")[2].isdigit() else field
    return host.removeprefix("[").removesuffix("]").lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
