"""What becomes of a change of membership whose partner dies, or loses its memory (S0 has no failures).

Until clients are sent on everything is undone; after that the change is completed:

    role, phase           the partner is dead                  the partner has lost its memory
    joining               refused                              refused; what clients asked for goes on
    leaving, ASKED        refused                              undone, and refused
    leaving, HANDED       (b begins anew itself)               the same: b takes its clients back
    leaving, CLOSED       (the same)                           b takes its clients back, and begins again with removeReq
    inheriting, ASKED     free                                 free: the partner has forgotten that it wanted to leave
    inheriting, CLOSED    free, with b's clients               the same; b is a neighbour again, and has no clients
"""

from __future__ import annotations

from pleach.core.effects import Concluded, Effect, LinkDown, Send
from pleach.core.messages import Node, PublishRefused, RemoveReq, RequestRemove
from pleach.core.overlay.context import MiddleBroker
from pleach.core.overlay.membership.handover import confirm
from pleach.core.overlay.membership.state import Changing, MembershipPart
from pleach.core.overlay.membership.transitions import MembershipPhase, MembershipRole, Speaker
from pleach.core.overlay.seam import Reaction

NOTHING = Reaction()


class MembershipFailures:
    """The peer hooks of AddBroker and RemoveBroker."""

    def __init__(self, part: MembershipPart) -> None:
        self._part = part

    @property
    def operation(self) -> str:
        return self._part.operation

    def peer_died(self, peer: Node) -> Reaction:
        """The partner is dead, and nothing more comes from it."""
        change = self._part.state.change
        if change is None or change.partner != peer:
            return NOTHING
        self._part.end()
        died, clients = Concluded(change.operation, f"{peer} died meanwhile"), list(change.clients)
        match change.role:
            case MembershipRole.JOINING:
                self._part.state.is_turned_away = True
                return Reaction([died], released=clients)
            case MembershipRole.LEAVING:
                assert change.phase is MembershipPhase.ASKED, "a broker whose heir is dead begins anew itself"
                return Reaction([died])
            case MembershipRole.INHERITING:
                return Reaction([LinkDown(peer)] if change.phase is MembershipPhase.CLOSED else [], released=clients)

    def is_open(self, peer: Node) -> bool:  # noqa: ARG002
        return False

    def between(self, peer: Node) -> MiddleBroker:
        """Nobody is: an heir takes the place of the dead broker itself."""
        return MiddleBroker(self._part.context.name if peer == self._part.state.heir_of else "")

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
