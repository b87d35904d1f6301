"""Checks of the Host and Origin fields of a request to the admin port.

A page of another site whose name was pointed at this host (DNS rebinding) is, to a browser, of the same origin; but the
Host that it asks for is the name of that site. Addresses cannot be pointed elsewhere, so they are always allowed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping

from pleach.net.addresses import host_of

SAME_SITE = ("same-origin", "none")


class Hosts:
    def __init__(self, names: Iterable[str] = (), remedy: str = "ask by an address") -> None:
        """`names`: of this host, besides addresses and localhost. `remedy`: for who asks by another name."""
        self.remedy = remedy
        self._names = frozenset({"localhost", *(name.lower() for name in names)}) - {""}

    def why_unknown(self, fields: Mapping[str, str]) -> str:
        """Why the Host of this request is not allowed; empty if it is."""
        asked = fields.get("host", "")
        host = host_of(asked)
        return "" if host in self._names or _is_address(host) else f"nothing here is called {asked!r}"


def why_foreign(fields: Mapping[str, str]) -> str:
    """Whether a page of another site has made a browser ask; empty if not. Browsers say where a POST comes from."""
    origin, host = fields.get("origin", ""), fields.get("host", "")
    if origin and origin.partition("://")[2] != host:
        return f"a page of {origin} asks for it, not one of {host}"
    if fields.get("sec-fetch-site", "none") not in SAME_SITE:
        return "a page of another site asks for it"
    return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
