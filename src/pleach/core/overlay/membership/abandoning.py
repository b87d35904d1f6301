"""How a broker that joins or leaves is told that it is not to (abandonment.py); S0 does not have it.

joining, ASKED    b is free, and says `ConnectAbandoned`: if a has taken it on, or does so when it is back, a lets it go
leaving, ASKED    b is free, and says `RemoveAbandoned`: a, which was locked for it, is free as well
later             clients are a's, or on their way there: it only goes forward
"""

from __future__ import annotations

from pleach.core.effects import Concluded, Effect, LinkDown, Send
from pleach.core.messages import ConnectAbandoned, Node, RemoveAbandoned
from pleach.core.overlay.abandonment import ABANDONED, OpenOperation
from pleach.core.overlay.membership.state import Changing, MembershipPart
from pleach.core.overlay.membership.transitions import WHY_NOT, MembershipPhase, MembershipRole
from pleach.core.overlay.seam import Reaction
from pleach.core.routing.rewiring import Rewiring

CLIENTS_NAMED_MAX = 10


class MembershipAbandoning:
    def __init__(self, part: MembershipPart) -> None:
        self._part = part

    def opened(self, change: Changing) -> OpenOperation:
        is_for_clients = change.role is MembershipRole.LEAVING and change.phase is MembershipPhase.CLOSED
        waits_for = tuple(change.clients)[:CLIENTS_NAMED_MAX] if is_for_clients else (change.partner,)
        why_not = WHY_NOT[change.role, change.phase].format(partner=change.partner, awaited=", ".join(waits_for))
        phase = f"{change.role.name.lower()} {change.phase.name.lower()}"
        return OpenOperation(change.operation, phase, waits_for, why_not)

    def abandon(self, change: Changing) -> Reaction:
        """At b, which has heard nothing yet."""
        self._part.end()
        ended = Concluded(change.operation, ABANDONED)
        if change.role is MembershipRole.LEAVING:
            return Reaction([Send(change.partner, RemoveAbandoned(change.operation)), ended])
        self._part.state.is_turned_away = True
        told: list[Effect] = [Send(change.partner, ConnectAbandoned(change.operation)), LinkDown(change.partner), ended]
        return Reaction(told, released=list(change.clients), forsaken=(change.operation, change.partner))

    def disconnected(self, sender: Node) -> Reaction:
        """At a: b does not join after all. If a has refused it, there is nothing to undo."""
        context = self._part.context
        if sender not in context.router.neighbours:
            return Reaction()
        parent = None if context.router.parent == sender else context.router.parent
        return Reaction([*context.rewire(Rewiring(gone=(sender,), parent=parent)), LinkDown(sender)])
