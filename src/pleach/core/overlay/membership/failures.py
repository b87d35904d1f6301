"""What becomes of a change of membership whose partner loses its memory (S0 has no failures).

Until clients are sent on everything is undone; after that the change is completed:

    joining               refused; what clients asked for goes on
    leaving, ASKED        undone, and refused
    leaving, HANDED       the same: b takes its clients back
    leaving, CLOSED       b takes its clients back, and begins again with removeReq
    inheriting, ASKED     free: the partner has forgotten that it wanted to leave
    inheriting, CLOSED    free, with b's clients; b is a neighbour again, and has none
"""

from __future__ import annotations

from pleach.core.effects import Concluded, Effect, LinkDown, Send
from pleach.core.messages import Node, PublishRefused, RemoveReq, RequestRemove
from pleach.core.overlay.membership.handover import confirm
from pleach.core.overlay.membership.state import Changing, MembershipPart
from pleach.core.overlay.membership.transitions import MembershipPhase, MembershipRole, Speaker
from pleach.core.overlay.seam import Reaction

NOTHING = Reaction()


class MembershipFailures:
    """The peer hook of AddBroker and RemoveBroker."""

    def __init__(self, part: MembershipPart) -> None:
        self._part = part

    def peer_reset(self, peer: Node) -> Reaction:
        """The partner knows of nothing. What it has taken from us we still have."""
        state, context = self._part.state, self._part.context
        change = state.change
        if change is None or change.partner != peer:
            state.sent_on.pop(peer, None)  # a client that has lost its memory: nobody has sent it on since
            return NOTHING
        self._part.end()
        forgotten = Concluded(change.operation, f"{peer} has lost its memory meanwhile; ask again")
        match change.role, change.phase:
            case MembershipRole.JOINING, _:
                state.is_turned_away = True
                return Reaction([LinkDown(peer), forgotten], released=list(change.clients))
            case MembershipRole.LEAVING, phase:
                taken_back = self._take_back(change)
                if phase is MembershipPhase.CLOSED or state.sent_on:
                    return Reaction([*taken_back, *self._begin_again(change)])
                return Reaction([*taken_back, forgotten])
            case MembershipRole.INHERITING, MembershipPhase.CLOSED:  # with nothing in it: its clients are ours
                return Reaction(context.answered(context.router.connect(peer)), released=list(change.clients))
        return NOTHING

    def _take_back(self, change: Changing) -> list[Effect]:
        """At b: the clients are ours again, with what they have said since we handed them over.

        We do not know whether a has passed their events on. Clients that were told where to go hear of it there.
        """
        context = self._part.context
        reason = f"{context.name} passed it on to {change.partner}, which has lost its memory since"
        doubts = [
            Send(client, PublishRefused(event, reason, is_in_doubt=True))
            for client, events in change.passed_on.items()
            for event in events
            if not change.clients.get(client)
        ]
        confirmed = [send for client, waiting in change.waiting.items() for send in confirm(context, client, waiting)]
        said_again = [each for said in change.said for each in context.sessions.handle(said.client, said.request)]
        return [*doubts, *confirmed, *said_again]

    def _begin_again(self, change: Changing) -> list[Effect]:
        """At b: clients are on their way to a broker that does not know them. It is to take them over once more."""
        told = self._part.context.sessions.clients if change.phase is MembershipPhase.CLOSED else ()
        for client in told:
            if change.clients.get(client, True):
                self._part.state.sent_on[client] = client not in change.clients
        again = Changing(change.operation, MembershipRole.LEAVING, change.partner, absent=change.absent)
        begun = self._part.begin(again, RequestRemove, Speaker.OTHER)
        return [begun, Send(change.partner, RemoveReq(change.operation))]
