"""Rights of this broker's clients, as its driver gives them (docs/protocols/rights.md).

    driver ── Permit ──▶ rights of the client ──▶ what waits for it is withheld ──▶ its requests are judged anew

Rule 1: rights hold at once for all that is asked, published and delivered from now on, whatever is under way.
Rule 2: requests are judged anew at the seam, like a request of the client: while it moves, that waits for the outcome,
        and each delivery is judged by itself.
Rule 3: a client that is not attached may have something waiting for it, from before: that is withheld likewise.
"""

from __future__ import annotations

from collections.abc import Sequence

from pleach.core.access.client_access import ExpectedClients
from pleach.core.access.rights import Rights
from pleach.core.effects import Effect, Withhold
from pleach.core.events.algebra import covers
from pleach.core.messages import OPERATOR, Message, Node, Permit, Rejudge, pack, unpack
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.seam import Reaction, Reconfiguration
from pleach.errors import ProtocolError

NOTHING = Reaction()


class Permits:
    name = "permits"
    accepts: frozenset[type[Message]] = frozenset((Permit,))
    operation = ""  # it locks nobody

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    @property
    def under_way(self) -> Reconfiguration | None:
        return None

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        if sender != OPERATOR or not isinstance(message, Permit):
            raise ProtocolError(self._context.name, sender, message, "only the broker's own driver gives rights")
        sessions = self._context.sessions
        if not message.client:
            sessions.guard(message.rights)
            return NOTHING
        client = message.client
        former = sessions.permit(client, message.principal, message.rights)
        if former is None:
            return NOTHING
        waiting = sessions.rights_on_waiting(client)
        effects = [Withhold(client, waiting)] if _shows_less(message.rights, former) else []
        return Reaction(effects, on_behalf=(client, Rejudge()) if client in sessions else None)

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        return NOTHING

    def resume(self) -> Sequence[Effect]:
        return ()

    def capture(self) -> bytes:
        return pack(self._context.sessions.expected)

    def restore(self, state: bytes) -> None:
        self._context.sessions.expected = unpack(state, ExpectedClients)


def _shows_less(rights: Rights, former: Rights) -> bool:
    return not {*rights.hidden} <= {*former.hidden} or not covers(rights.subscribe, former.subscribe)
