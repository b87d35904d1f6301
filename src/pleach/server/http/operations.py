"""Reconfigurations over HTTP: an operator asks this broker for one, and is told how it ended.

POST /overlay/swap     {"a": "a", "b": "b", "c": "c"}               at a: a–b–c becomes a–c–b
POST /overlay/exchange {"path": ["a", "b", "c", "d"], "cut": 1, "protocol": "path"}   at a: link b–c becomes a–d
POST /overlay/expect   {"broker": "b"}                              at a: b is going to join here; let it in
POST /overlay/add      {"to": "a", "address": "10.0.0.1:7200"}      at b, which has no neighbours: join the tree at a
POST /overlay/remove   {"broker": "b"}                              at b, a leaf: leave the tree, and end
POST /overlay/abandon  {"abandoned": "OPERATION"}                   at a broker that takes part in it: give it up
POST /overlay/move     {"client": "me", "path": ["a", "b", "c"]}    at a, which has the client: have it go to c

GET /overlay/operations, /overlay/operations/NAME                   the last ones that this broker was asked for

200 done · 400 malformed · 409 refused, and nothing has changed · 504 not over yet: ask for it by its name later.
A request may name its `operation`: asked twice under one name, it is carried out once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Annotated, TypeAlias, cast

import msgspec

from pleach.access.principals import Verb
from pleach.core.broker import Broker
from pleach.core.messages import (
    Node,
    OperatorRequest,
    RequestAbandon,
    RequestAdd,
    RequestExchange,
    RequestMove,
    RequestRemove,
    RequestSwap,
    asked_name,
)
from pleach.core.overlay.choice import CHOICES
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.registry import swap_request
from pleach.errors import ProtocolError, SettingsError
from pleach.net.addresses import parse_address
from pleach.operate.operation import ABANDON_PATH, PATHS, OperationState, OperationStatus, fresh_name
from pleach.server.absence import AbsentClients
from pleach.server.http.page import HttpRequest, HttpResponse, failure, json_page, posted, shown
from pleach.server.http.routes import ANY_NAME, Route, for_tenants, posts, reads
from pleach.server.links import LinkTable
from pleach.server.operations import Operations, Request, described
from pleach.server.peer_directory import PeerDirectory
from pleach.server.settings import NAME_BYTES_MAX, BrokerSettings

TIMEOUT_SECONDS = 60.0
TIMEOUT_SECONDS_MAX = 600.0
RUNNING_MAX = 64
CLIENTS_NAMED_MAX = 20
CYCLE_BROKERS_MAX = 256  # they are locked one after another, and the request must fit into a body
TREE_REMEDY = "`pleach overlay show` draws the tree as it is"

Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_BYTES_MAX)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Path: TypeAlias = Annotated[list[Name], msgspec.Meta(min_length=3, max_length=CYCLE_BROKERS_MAX)]
Protocol: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_BYTES_MAX)]
MovePath: TypeAlias = Annotated[list[Name], msgspec.Meta(min_length=1, max_length=CYCLE_BROKERS_MAX)]
OperationName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[!-.0-}]{0,40}$")]
AbandonedName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[!-.0-}]{1,40}$")]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=TIMEOUT_SECONDS_MAX)]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    operation: OperationName = ""
    timeout: Seconds = TIMEOUT_SECONDS


class AbandonBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    abandoned: AbandonedName


class ExpectBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    broker: Name


def _body_of(kind: type[OperatorRequest], hidden: tuple[str, ...] = (), **more: object) -> type[Body]:
    """The JSON object of a request: its fields but those `hidden`; texts are names, unless `more` says otherwise.

    `more`: further fields, or fields with narrower types; a type and a default for each that may be left out.
    """
    fields = {
        field.name: Name if field.type in (str, Node) else field.type
        for field in msgspec.structs.fields(kind)
        if field.name not in ("operation", "is_patient", *hidden)
    }
    given = [(name, *(of if isinstance(of, tuple) else (of,))) for name, of in {**fields, **more}.items()]
    made = msgspec.defstruct(kind.__name__, given, bases=(Body,), frozen=True, kw_only=True, forbid_unknown_fields=True)
    return cast(type[Body], made)


BODIES: Mapping[type[OperatorRequest], type[Body]] = {
    RequestSwap: _body_of(RequestSwap, protocol=(Protocol, "")),
    RequestExchange: _body_of(RequestExchange, path=Path, cut=Count, protocol=Protocol),
    RequestAdd: _body_of(RequestAdd, address=Name),
    # `detach_absent`: clients that are not connected lose their sessions; else they are a reason to refuse.
    RequestRemove: _body_of(RequestRemove, hidden=("absent",), detach_absent=(bool, False)),
    RequestMove: _body_of(RequestMove, path=MovePath, delay_ms_max=(Count, 0)),
}
VERBS: Mapping[type[OperatorRequest], Verb] = {
    RequestSwap: Verb.REWEAVE,
    RequestExchange: Verb.REWEAVE,
    RequestAdd: Verb.REWEAVE,
    RequestRemove: Verb.REMOVE,
    RequestMove: Verb.MOVE,
}
BEGINS: Mapping[type[OperatorRequest], str] = {
    RequestSwap: "a swap begins at its first broker",
    RequestExchange: "an exchange begins at an end of its new link",
    RequestRemove: "a broker is asked itself to leave",
    RequestMove: "a movement begins where the client is",
}


class OperationPages:
    def __init__(
        self,
        broker: Broker,
        directory: PeerDirectory,
        links: LinkTable,
        operations: Operations,
        absent: AbsentClients,
        settings: Callable[[], BrokerSettings],
    ) -> None:
        self._broker = broker
        self._directory = directory
        self._links = links
        self._operations = operations
        self._absent = absent
        self._settings = settings

    @property
    def routes(self) -> Sequence[Route]:
        return (
            *(self._route(kind) for kind in PATHS),
            posts(ABANDON_PATH, Verb.REWEAVE, posted(AbandonBody, self._abandon)),
            posts("/overlay/expect", Verb.REWEAVE, posted(ExpectBody, self._expect)),
            reads("/overlay/operations", shown(self._recent)),
            reads(f"/overlay/operations/{ANY_NAME}", self._one),
        )

    def _route(self, kind: type[OperatorRequest]) -> Route:
        path, verb, act = PATHS[kind], VERBS[kind], partial(self._ask, kind)
        if kind is RequestMove:
            return for_tenants(posts(path, verb, posted(BODIES[kind], act, _client_of)))
        return posts(path, verb, posted(BODIES[kind], act))

    # Looking ---------------------------------------------------------------------------------------------------

    def _recent(self) -> HttpResponse:
        return json_page(
            HTTPStatus.OK,
            {
                "locked_for": asked_name(self._broker.operation),
                "open": self._operations.opened(self._broker.open_operations, self._links.is_up),
                "operations": list(self._operations.recent),
            },
        )

    async def _one(self, asked: HttpRequest) -> HttpResponse:
        name = asked.name
        if name in self._operations:
            return json_page(HTTPStatus.OK, self._operations[name])
        if name and name == asked_name(self._broker.operation):  # begun before a restart, or asked for elsewhere
            return json_page(HTTPStatus.OK, OperationStatus(name, "", ()))
        remedy = "the broker that was asked for it knows it, for a while; " + TREE_REMEDY
        return failure(HTTPStatus.NOT_FOUND, remedy, f"{self._broker.name} knows no operation {name!r}")

    # Asking ----------------------------------------------------------------------------------------------------

    async def _ask(self, kind: type[OperatorRequest], body: Body) -> HttpResponse:
        given = msgspec.structs.asdict(body)
        seconds, detach_absent = given.pop("timeout"), given.pop("detach_absent", False)
        request = kind(**{**given, "operation": body.operation or fresh_name()})
        if not isinstance(request, RequestAdd) and request.begins_at != self._broker.name:
            return self._misdirected(request.begins_at, BEGINS[kind])
        checked = self._checked(request, detach_absent=detach_absent)
        return checked if isinstance(checked, HttpResponse) else await self.carry_out(checked, seconds)

    def _checked(self, request: OperatorRequest, *, detach_absent: bool) -> OperatorRequest | HttpResponse:
        """The request as this broker's machine takes it, or the page that says why it does not."""
        match request:
            case RequestSwap(protocol=protocol) if protocol and protocol not in CHOICES:
                return failure(HTTPStatus.BAD_REQUEST, f"one of {', '.join(CHOICES)}", f"no protocol {protocol!r}")
            case RequestSwap(name, a, b, c, protocol):
                request = swap_request(protocol or self._settings().exchange, name, a, b, c)
            case RequestExchange() if reason := Cycle.of(request).why_not():
                return failure(HTTPStatus.BAD_REQUEST, f"the brokers from one end to the other; {TREE_REMEDY}", reason)
            case RequestAdd(to=to, address=address):
                try:
                    parse_address(address, key="address")
                except SettingsError as error:
                    return failure(HTTPStatus.BAD_REQUEST, error.remedy, f"address: {error.reason}")
                self._directory.hint(to, address)
            case RequestRemove(name, broker) if name not in self._operations:
                absent = [client for client in self._broker.sessions.clients if not self._is_here(client)]
                if absent and not detach_absent:
                    return _absent_page(absent)
                request = RequestRemove(name, broker, absent)
        return request

    async def _abandon(self, body: AbandonBody) -> HttpResponse:
        return await self.carry_out(RequestAbandon(body.operation or fresh_name(), body.abandoned), body.timeout)

    async def _expect(self, body: ExpectBody) -> HttpResponse:
        if body.broker == self._broker.name or body.broker in self._broker.hosting.here:
            error = f"{body.broker!r} is this broker itself, or a component that it hosts"
            return failure(HTTPStatus.CONFLICT, "nodes share one name space: give the new broker another name", error)
        self._directory.expect(body.broker)
        return json_page(HTTPStatus.OK, {"expected": body.broker})

    def _is_here(self, client: Node) -> bool:
        """Connected, or read by a reader that comes again before a broker that leaves gives the client up."""
        return self._links.is_up(client) or self._absent.is_here(client, self._settings().limits.leave_seconds)

    def _misdirected(self, broker: Node, error: str) -> HttpResponse:
        known = self._directory.admins.get(broker)
        where = f", which answers at {known}" if known else "; `pleach overlay` finds it from here"
        return failure(
            HTTPStatus.BAD_REQUEST, f"ask {broker}{where}", f"{error}, {broker!r}; this is {self._broker.name}"
        )

    async def carry_out(self, request: Request, seconds: float) -> HttpResponse:
        """An operation is carried out once, however often it is asked for under its name."""
        operations, name = self._operations, request.operation
        if name in operations and described(request) != (operations[name].what, operations[name].brokers):
            return failure(HTTPStatus.CONFLICT, "choose another name", f"{name!r} stands for another operation")
        if name not in operations:
            is_a_way_out = isinstance(request, RequestAbandon)
            if operations.running >= RUNNING_MAX and not is_a_way_out:
                error = f"{RUNNING_MAX} operations wait here already"
                return failure(HTTPStatus.SERVICE_UNAVAILABLE, "try again when some have ended", error)
            try:
                operations.request(request)
            except ProtocolError as error:
                return failure(HTTPStatus.CONFLICT, "this broker has no protocol for it", str(error))
        return _page_of(await operations.ended(name, seconds), seconds)


def _client_of(body: Body) -> Node:
    client: Node = getattr(body, "client")  # noqa: B009 - its type is made at run time
    return client


def _absent_page(absent: list[Node]) -> HttpResponse:
    shown = ", ".join(absent[:CLIENTS_NAMED_MAX]) + (", …" if len(absent) > CLIENTS_NAMED_MAX else "")
    error = f"{len(absent)} of its clients are not connected: {shown}; they could not be told where to go"
    remedy = "wait until they are back, or let their sessions go with `detach_absent` (`--detach-absent`)"
    return failure(HTTPStatus.CONFLICT, remedy, error, state=OperationState.REFUSED, absent=absent)


def _page_of(operation: OperationStatus, seconds: float) -> HttpResponse:
    known = msgspec.to_builtins(operation)
    match operation.state:
        case OperationState.DONE:
            return json_page(HTTPStatus.OK, {"operation": operation.name, **known})
        case OperationState.REFUSED:
            return failure(HTTPStatus.CONFLICT, TREE_REMEDY, operation.reason, operation=operation.name, **known)
        case OperationState.RUNNING:
            remedy = f"GET /overlay/operations/{operation.name} tells how it ended"
            error = f"not over within {seconds:g} s"
            return failure(HTTPStatus.GATEWAY_TIMEOUT, remedy, error, operation=operation.name, **known)
