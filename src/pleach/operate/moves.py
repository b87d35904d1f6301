"""Have a client of a running broker go to another one: ask its broker, and again, until it is known how that ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pleach.core.messages import Node
from pleach.errors import SurveyError, UnreachableError
from pleach.net.http_client import ask
from pleach.operate.apply import ASK_SECONDS, PAUSE_SECONDS, read_end
from pleach.operate.operation import OperationState
from pleach.operate.survey import Survey


@dataclass(frozen=True)
class ClientMove:
    """`path`: from the client's broker to the one where it shall go. `admin`: where the two ends answer operators."""

    operation: str
    client: Node
    path: tuple[Node, ...]
    admin: tuple[str, str]
    delay_ms_max: int = 0

    @classmethod
    def planned(cls, found: Survey, client: Node, to: Node, operation: str, delay_ms_max: int = 0) -> ClientMove:
        """Raises SurveyError where nobody knows the client, TopologyError where there is no such broker."""
        places = [broker for broker in sorted(found.found) if client in found.found[broker].clients]
        tree = found.topology()
        tree.check(to)
        if not places:
            raise SurveyError(f"no broker has a client {client!r}", "`pleach overlay show` draws who is where")
        path = tree.path(places[0], to)
        return cls(operation, client, path, (found.admin[path[0]], found.admin[path[-1]]), delay_ms_max)

    async def carry_out(self, *, seconds_max: float) -> tuple[OperationState, str]:
        """Whether it was done (RUNNING: nobody knows), and if not, why."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds_max
        state, reason, is_in_doubt = OperationState.RUNNING, "", False
        while state is OperationState.RUNNING and clock() < deadline:
            try:
                state, reason = read_end(await ask(self.admin[0], "/overlay/move", self._body, seconds_max=ASK_SECONDS))
            except UnreachableError as error:
                is_in_doubt, reason = True, str(error)
            if state is not OperationState.DONE and is_in_doubt and await self._has_come():
                state, reason = OperationState.DONE, ""
            if state is OperationState.RUNNING:
                await asyncio.sleep(PAUSE_SECONDS)
        return state, reason

    @property
    def _body(self) -> dict[str, object]:
        """Always the same request: who knows it already only says how it stands."""
        return {
            "operation": self.operation,
            "client": self.client,
            "path": self.path,
            "delay_ms_max": self.delay_ms_max,
            "timeout": ASK_SECONDS / 2,
        }

    async def _has_come(self) -> bool:
        """A broker that was restarted may have forgotten what it was asked for; where the client is shows it, too. That
        the target has one of its name is not enough: it may be one that was left there long ago.
        """
        try:
            source, target = [(await ask(admin, "/status")).value["clients"] for admin in self.admin]
        except UnreachableError:
            return False
        return self.client in target and self.client not in source
