"""The routing table of an admin port, as data: method, path, the verb that a caller needs, and the handler.

Rule 1: a GET changes nothing; what changes anything is a POST with a JSON body.
Rule 2: each route names the verb that it needs. Only PUBLIC_PATHS and what is needed to log in need none.
Rule 3: operators of one tenant have only the routes that know of tenants (`for_tenants`): another one would have to be
        looked through before it is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPMethod
from typing import NamedTuple

from pleach.access.principals import Verb
from pleach.net.allowed_hosts import Hosts
from pleach.server.http.page import Handler

PUBLIC_PATHS = ("/healthz", "/readyz")
ANY_NAME = "NAME"  # as the last part of a path: whatever stands there


class Route(NamedTuple):
    method: HTTPMethod
    path: str
    verb: Verb | None  # None: public
    handler: Handler
    is_secret: bool = False  # whether bodies are not for logs
    is_judged_within: bool = False  # whether its handler asks for further verbs, by what is in the body
    is_for_tenants: bool = False  # whether it shows and does to operators of a tenant what is theirs, and no more
    log_in_at: str = ""  # where browsers of those who have not logged in are sent

    @property
    def changes(self) -> bool:
        """Whether it may change anything but who is logged in."""
        return self.is_judged_within or self.verb not in (None, Verb.READ)

    @property
    def listed(self) -> str:
        return self.path if self.method is HTTPMethod.GET else f"{self.method} {self.path}"


def reads(path: str, handler: Handler) -> Route:
    return Route(HTTPMethod.GET, path, None if path in PUBLIC_PATHS else Verb.READ, handler)


def posts(path: str, verb: Verb, handler: Handler) -> Route:
    return Route(HTTPMethod.POST, path, verb, handler)


def for_tenants(route: Route) -> Route:
    return route._replace(is_for_tenants=True)


class Site:
    def __init__(self, routes: Iterable[Route], hosts: Hosts) -> None:
        """`hosts`: the names that the site answers to, on every route."""
        self.routes = tuple(routes)
        self.hosts = hosts
        self._by_path: dict[str, dict[str, Route]] = {}
        for route in self.routes:
            methods = self._by_path.setdefault(route.path, {})
            assert route.method not in methods, f"two routes for {route.method} {route.path}"
            methods[route.method] = route

    def at(self, path: str) -> Mapping[str, Route]:
        """The routes of a path, by method."""
        family, _, _ = path.rpartition("/")
        return self._by_path.get(path) or self._by_path.get(f"{family}/{ANY_NAME}") or {}

    @property
    def listed(self) -> str:
        return ", ".join(route.listed for route in self.routes)
