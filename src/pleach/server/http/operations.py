"""Reconfigurations over HTTP: an operator asks this broker for one, and is told how it ended.

POST /overlay/swap     {"a": "a", "b": "b", "c": "c"}               at a: a–b–c becomes a–c–b
POST /overlay/exchange {"path": ["a", "b", "c", "d"], "cut": 1, "protocol": "path"}   at a: link b–c becomes a–d
POST /overlay/expect   {"broker": "b"}                              at a: b is going to join here; let it in
POST /overlay/add      {"to": "a", "address": "10.0.0.1:7200"}      at b, which has no neighbours: join the tree at a
POST /overlay/remove   {"broker": "b"}                              at b, a leaf: leave the tree, and end
POST /overlay/move     {"client": "me", "path": ["a", "b", "c"]}    at a, which has the client: have it go to c

GET /overlay/operations, /overlay/operations/NAME                   the last ones that this broker was asked for

200 done · 400 malformed · 409 refused, and nothing has changed · 504 not over yet: ask for it by its name later.
A request may name its `operation`: asked twice under one name, it is carried out once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, TypeAlias

import msgspec

from pleach.core.broker import Broker
from pleach.core.messages import (
    HostingRequest,
    Node,
    OperatorRequest,
    RequestAdd,
    RequestExchange,
    RequestMove,
    RequestRemove,
)
from pleach.core.overlay.choice import CHOICES, INSTEAD, why_not
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.registry import swap_request
from pleach.errors import ProtocolError, SettingsError
from pleach.net.addresses import parse_address
from pleach.operate.operation import OperationState, OperationStatus, asked_name, fresh_name
from pleach.server.absence import AbsentClients
from pleach.server.http.page import Action, HttpResponse, failure, json_page, posted
from pleach.server.links import LinkTable
from pleach.server.operations import Operations, described
from pleach.server.peer_directory import PeerDirectory
from pleach.server.settings import NAME_BYTES_MAX, BrokerSettings

TIMEOUT_SECONDS = 60.0
TIMEOUT_SECONDS_MAX = 600.0
RUNNING_MAX = 64
CLIENTS_NAMED_MAX = 20
CYCLE_BROKERS_MAX = 256  # they are locked one after another, and the request must fit into a body
TREE_REMEDY = "`pleach overlay show` draws the tree as it is"

Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_BYTES_MAX)]
Path: TypeAlias = Annotated[list[Name], msgspec.Meta(min_length=3, max_length=CYCLE_BROKERS_MAX)]
Protocol: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_BYTES_MAX)]
OperationName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[!-.0-}]{0,40}$")]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=TIMEOUT_SECONDS_MAX)]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    operation: OperationName = ""
    timeout: Seconds = TIMEOUT_SECONDS


class SwapBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    a: Name
    b: Name
    c: Name
    protocol: Protocol = ""


class ExchangeBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`path`: the brokers from one end of the new link to the other. The link after `path[cut]` goes."""

    path: Path
    cut: Annotated[int, msgspec.Meta(ge=0)]
    protocol: Protocol


class AddBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: Name
    address: Name


class ExpectBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    broker: Name


class MoveBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`path`: the brokers from that of the client to the one where it shall go."""

    client: Name
    path: Annotated[list[Name], msgspec.Meta(min_length=1, max_length=CYCLE_BROKERS_MAX)]
    delay_ms_max: Annotated[int, msgspec.Meta(ge=0)] = 0


class RemoveBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`detach_absent`: clients that are not connected lose their sessions; else they are a reason to refuse."""

    broker: Name
    detach_absent: bool = False


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
    def pages(self) -> Mapping[str, Callable[[], HttpResponse]]:
        return {"/overlay/operations": self._recent}

    @property
    def families(self) -> Mapping[str, Callable[[str], HttpResponse]]:
        return {"/overlay/operations": self._one}

    @property
    def actions(self) -> Mapping[str, Action]:
        return {
            "/overlay/swap": posted(SwapBody, self._swap),
            "/overlay/exchange": posted(ExchangeBody, self._exchange),
            "/overlay/expect": posted(ExpectBody, self._expect),
            "/overlay/add": posted(AddBody, self._add),
            "/overlay/remove": posted(RemoveBody, self._remove),
            "/overlay/move": posted(MoveBody, self._move),
        }

    # Looking ---------------------------------------------------------------------------------------------------

    def _recent(self) -> HttpResponse:
        return json_page(
            HTTPStatus.OK,
            {"locked_for": asked_name(self._broker.operation), "operations": list(self._operations.recent)},
        )

    def _one(self, name: str) -> HttpResponse:
        if name in self._operations:
            return json_page(HTTPStatus.OK, self._operations[name])
        if name and name == asked_name(self._broker.operation):  # begun before a restart, or asked for elsewhere
            return json_page(HTTPStatus.OK, OperationStatus(name, "", ()))
        remedy = "the broker that was asked for it knows it, for a while; " + TREE_REMEDY
        return failure(HTTPStatus.NOT_FOUND, remedy, f"{self._broker.name} knows no operation {name!r}")

    # Asking ----------------------------------------------------------------------------------------------------

    async def _swap(self, body: SwapBody) -> HttpResponse:
        if body.a != self._broker.name:
            return self._misdirected(body.a, f"a swap begins at its first broker, {body.a!r}")
        if body.protocol and body.protocol not in CHOICES:
            return failure(HTTPStatus.BAD_REQUEST, f"one of {', '.join(CHOICES)}", f"no protocol {body.protocol!r}")
        protocol, name = body.protocol or self._settings().exchange, body.operation or fresh_name()
        if reason := why_not(protocol, self._settings().circumstances):
            return failure(HTTPStatus.CONFLICT, INSTEAD, reason)
        return await self.carry_out(swap_request(protocol, name, body.a, body.b, body.c), body.timeout)

    async def _exchange(self, body: ExchangeBody) -> HttpResponse:
        if body.path[0] != self._broker.name:
            return self._misdirected(body.path[0], f"an exchange begins at an end of its new link, {body.path[0]!r}")
        request = RequestExchange(body.operation or fresh_name(), body.path, body.cut, body.protocol)
        if reason := Cycle.of(request).why_not():
            return failure(HTTPStatus.BAD_REQUEST, f"the brokers from one end to the other; {TREE_REMEDY}", reason)
        if reason := why_not(body.protocol, self._settings().circumstances):
            return failure(HTTPStatus.CONFLICT, INSTEAD, reason)
        return await self.carry_out(request, body.timeout)

    async def _expect(self, body: ExpectBody) -> HttpResponse:
        if body.broker == self._broker.name or body.broker in self._broker.sessions:
            error = f"{body.broker!r} is this broker itself, or a client of it"
            return failure(HTTPStatus.CONFLICT, "nodes share one name space: give the new broker another name", error)
        self._directory.expect(body.broker)
        return json_page(HTTPStatus.OK, {"expected": body.broker})

    async def _add(self, body: AddBody) -> HttpResponse:
        try:
            parse_address(body.address, key="address")
        except SettingsError as error:
            return failure(HTTPStatus.BAD_REQUEST, error.remedy, f"address: {error.reason}")
        return await self.carry_out(RequestAdd(body.operation or fresh_name(), body.to, body.address), body.timeout)

    async def _remove(self, body: RemoveBody) -> HttpResponse:
        if body.broker != self._broker.name:
            return self._misdirected(body.broker, "a broker is asked itself to leave")
        if body.operation in self._operations:
            return await self.carry_out(RequestRemove(body.operation, body.broker), body.timeout)
        absent = [client for client in self._broker.sessions.clients if not self._is_here(client)]
        if absent and not body.detach_absent:
            return _absent_page(absent)
        return await self.carry_out(RequestRemove(body.operation or fresh_name(), body.broker, absent), body.timeout)

    async def _move(self, body: MoveBody) -> HttpResponse:
        if body.path[0] != self._broker.name:
            return self._misdirected(body.path[0], f"a movement begins where the client is, at {body.path[0]!r}")
        name = body.operation or fresh_name()
        return await self.carry_out(RequestMove(name, body.client, body.path, body.delay_ms_max), body.timeout)

    def _is_here(self, client: Node) -> bool:
        """Connected, or read by a reader that comes again before a broker that leaves gives the client up."""
        return self._links.is_up(client) or self._absent.is_here(client, self._settings().limits.leave_seconds)

    def _misdirected(self, broker: Node, error: str) -> HttpResponse:
        known = self._directory.admins.get(broker)
        where = f", which answers at {known}" if known else "; `pleach overlay` finds it from here"
        return failure(HTTPStatus.BAD_REQUEST, f"ask {broker}{where}", f"{error}; this is {self._broker.name}")

    async def carry_out(self, request: OperatorRequest | HostingRequest, seconds: float) -> HttpResponse:
        """An operation is carried out once, however often it is asked for under its name."""
        operations, name = self._operations, request.operation
        if name in operations and described(request) != (operations[name].what, operations[name].brokers):
            return failure(HTTPStatus.CONFLICT, "choose another name", f"{name!r} stands for another operation")
        if name not in operations:
            if operations.running >= RUNNING_MAX:
                error = f"{RUNNING_MAX} operations wait here already"
                return failure(HTTPStatus.SERVICE_UNAVAILABLE, "try again when some have ended", error)
            try:
                operations.request(request)
            except ProtocolError as error:
                return failure(HTTPStatus.CONFLICT, "this broker has no protocol for it", str(error))
        return _page_of(await operations.ended(name, seconds), seconds)


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
