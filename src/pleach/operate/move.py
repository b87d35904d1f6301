"""Movements of clients between running brokers: the client's broker is asked until the end of the movement is known."""

from __future__ import annotations

from dataclasses import dataclass

from pleach.core.messages import Node, RequestMove
from pleach.errors import SurveyError, UnreachableError
from pleach.net.http_client import Answer
from pleach.operate.apply import request_until_ended
from pleach.operate.operation import ASK_SECONDS, OperationState, ask_broker, send_request
from pleach.operate.survey import Survey


@dataclass(frozen=True)
class ClientMove:
    """`admin`: operators' ports of the client's broker and of the one that it moves to."""

    request: RequestMove
    admin: tuple[str, str]

    @classmethod
    def planned(cls, found: Survey, client: Node, to: Node, operation: str, delay_ms_max: int = 0) -> ClientMove:
        """Raises SurveyError where no broker has the client, TopologyError where there is no broker `to`."""
        places = [broker for broker in sorted(found.found) if client in found.found[broker].clients]
        tree = found.topology()
        tree.check(to)
        if not places:
            remedy = "`pleach overlay show` lists the clients of brokers"
            raise SurveyError(f"no broker has a client {client!r}", remedy=remedy)
        path = tree.path(places[0], to)
        request = RequestMove(operation, client, list(path), delay_ms_max)
        return cls(request, (found.admin[path[0]], found.admin[path[-1]]))

    @property
    def client(self) -> Node:
        return self.request.client

    @property
    def path(self) -> tuple[Node, ...]:
        return tuple(self.request.path)

    async def carry_out(self, *, seconds_max: float) -> tuple[OperationState, str]:
        """The state (RUNNING: not known), and the reason if it was not done."""
        end = await request_until_ended(self._send, self._has_arrived, seconds_max)
        return end.state, end.reason

    async def _send(self) -> Answer:
        return await send_request(self.admin[0], self.request, seconds=ASK_SECONDS / 2)

    async def _has_arrived(self) -> bool:
        """Whether the client is at the target alone. That the target has one of its name is not enough: that one may be
        left over from an earlier time.
        """
        try:
            source, target = [(await ask_broker(admin, "/status")).value["clients"] for admin in self.admin]
        except UnreachableError:
            return False
        return self.client in target and self.client not in source
