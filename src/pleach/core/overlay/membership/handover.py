"""The seam while a broker joins, or while the clients of one that leaves go over to its neighbour (S0 §IV-C).

Two ChangePaths for each client: client→b→a becomes client→a, and a holds what comes straight until `ClientLeft`;
a→b→client becomes a→client, and the client holds what a sends until `Redirect`.

`tables_of` and `confirm` serve whoever takes a client over (mobility/ does so, too).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pleach.core.access.client_access import ClientAccess
from pleach.core.effects import Send
from pleach.core.messages import (
    CLIENT_REQUESTS,
    PUB_SUB,
    Attach,
    ClientRequest,
    Detach,
    HandedClient,
    Layer,
    Node,
    Publish,
    Rejudge,
    Said,
)
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.membership.state import Changing
from pleach.core.overlay.membership.transitions import MembershipPhase, MembershipRole
from pleach.core.overlay.seam import Drop, Hold, Pass, Passing, Verdict, stale
from pleach.core.routing.clients import owner
from pleach.core.routing.entries import Entry
from pleach.core.routing.pending_acks import Ticket


class HandoverSeam:
    """What arrives and leaves while clients cross from b to a."""

    keeps_causal_order = True

    def __init__(self, change: Changing, access_of: Callable[[Node], ClientAccess | None]) -> None:
        self._change = change
        self._access_of = access_of

    @property
    def peers(self) -> frozenset[Node]:
        """A broker that joins counts its neighbour-to-be among its links."""
        return frozenset((self._change.partner,))

    def arriving(self, sender: Node, message: Passing) -> Verdict:
        if message.__class__ in CLIENT_REQUESTS:
            return self._request(sender, message)  # type: ignore[arg-type]
        if self._change.role is MembershipRole.JOINING and sender == self._change.partner:
            return Drop("of a former connection, which was abandoned")  # its answer to `Connect` comes first
        return stale(sender, message)

    def _request(self, client: Node, request: ClientRequest) -> Verdict:
        change = self._change
        if isinstance(request, Rejudge):  # a client that is handed over is judged by its new broker
            has_gone = change.role is MembershipRole.LEAVING and change.phase is not MembershipPhase.ASKED
            return Drop("handed over") if has_gone else Pass(client, request)
        match change.role, change.phase:
            case MembershipRole.JOINING, _:
                change.clients[client] = False
                return Hold()  # what is published now is for the tree that this broker is joining
            case MembershipRole.LEAVING, MembershipPhase.HANDED | MembershipPhase.CLOSED:
                return Drop("passed on", self._pass_on(client, request))
            case MembershipRole.INHERITING, _ if client in change.clients:
                return Hold()  # what it sent by way of b comes first
        return Pass(client, request)

    def _pass_on(self, client: Node, request: ClientRequest) -> Sequence[Send]:
        """A client that has come after the handover, or has lost its memory, is sent on like the others."""
        change = self._change
        is_at_its_end = isinstance(request, Detach) and client in change.clients
        is_to_be_told = change.phase is MembershipPhase.CLOSED and not is_at_its_end and not change.clients.get(client)
        change.clients[client] = is_to_be_told or (change.clients.get(client, False) and not is_at_its_end)
        redirected = [Send(client, change.redirect())] if is_to_be_told else []
        said = Said(client, request, self._logged_in(client) if isinstance(request, Attach) else None)
        if not isinstance(request, Publish):
            change.said.append(said)
        elif change.phase is MembershipPhase.HANDED:  # a client that has been told where to go hears of it there
            change.passed_on.setdefault(client, []).append(request.event.id)
        return [Send(change.partner, said), *redirected]

    def _logged_in(self, client: Node) -> ClientAccess | None:
        """Who a client is that logged in here; None where that says nothing."""
        known = self._access_of(client)
        return known.without_names() if known and known.without_names() != ClientAccess() else None

    def leaving(self, _source: Node, _cause: Passing, sends: Sequence[Send]) -> Sequence[Send]:
        """After the handover b tells a nothing by itself: a has it all."""
        change = self._change
        if change.role is not MembershipRole.LEAVING or change.phase is MembershipPhase.ASKED:
            return sends
        return [send for send in sends if not (send.to == change.partner and send.message.__class__ in PUB_SUB)]


def tables_of(client: HandedClient) -> dict[Layer, list[Entry]]:
    """What a client that is handed over has asked for, as entries."""
    names = {Layer.SUBSCRIPTIONS: client.subscriptions, Layer.ADVERTISEMENTS: client.advertisements}
    return {layer: [Entry(owner(client.name, name), f) for name, f in named.items()] for layer, named in names.items()}


def confirm(context: BrokerContext, client: Node, waiting: Sequence[tuple[Layer, str]]) -> list[Send]:
    """What waited for confirmation at its former broker waits here for all that is unanswered."""
    tickets = [Ticket(layer, client, name) for layer, name in waiting]
    return [send for ticket in tickets for send in context.answered(context.router.wait_for_all(ticket))]
