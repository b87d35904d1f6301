"""Log-in and log-out of browsers, where there is an access file.

POST /login   {"token": TOKEN}   200 with a cookie that stands for the token; 401 where it is not accepted
POST /logout  {}                 ends the session of the cookie

Both are for everybody. As every POST they are refused for pages of other sites, and recorded, without the token.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPMethod, HTTPStatus

import msgspec

from pleach.errors import AccessError
from pleach.server.door.operator_door import OperatorDoor
from pleach.server.http.page import HttpRequest, HttpResponse, decoded, failure, json_page
from pleach.server.http.routes import Route


class LoginBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str


class LoginPages:
    def __init__(self, door: OperatorDoor) -> None:
        self._door = door

    @property
    def routes(self) -> Sequence[Route]:
        return (
            Route(HTTPMethod.POST, "/login", None, self._log_in, is_secret=True),
            Route(HTTPMethod.POST, "/logout", None, self._log_out),
        )

    async def _log_in(self, asked: HttpRequest) -> HttpResponse:
        body = decoded(asked.body, LoginBody)
        if isinstance(body, HttpResponse):
            return body
        try:
            caller, cookie = self._door.log_in(asked.caller.address, body.token.strip())
        except AccessError as error:
            return failure(HTTPStatus.UNAUTHORIZED, error.remedy, error.reason)
        page = json_page(HTTPStatus.OK, {"principal": caller.principal, "verbs": sorted(caller.verbs)})
        return page._replace(fields={"Set-Cookie": cookie}, caller=caller)

    async def _log_out(self, asked: HttpRequest) -> HttpResponse:
        cookie = self._door.sessions.end(asked.fields)
        return json_page(HTTPStatus.OK, {"ended": True})._replace(fields={"Set-Cookie": cookie})
