"""The source of a movement: the broker that a client leaves.

It decides until it has sent the state: until then it may give up, at any time and for any reason, and the client goes
on as before. After that the target decides, and the source keeps what comes for the client in case of a `Reject`. Where
delays are bounded, an acknowledgement that does not come in time is taken as sent.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pleach.core.effects import CancelTimer, Concluded, Effect, LinkDown, Send, SetTimer
from pleach.core.messages import (
    Approve,
    Halt,
    Halted,
    MoveAbort,
    MoveAck,
    MoveCommit,
    MoveState,
    Negotiate,
    Reject,
    RequestMove,
    Resume,
)
from pleach.core.mobility.movements import SourceMovement
from pleach.core.mobility.phases import SourcePhase
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.membership.handover import confirm
from pleach.core.overlay.retries import Retries
from pleach.core.overlay.seam import Reaction

PATIENCE_SECONDS = 20.0  # for the answer of the target, and for that of the client, where no bound is given
TIMER = "mobility:late:"
ROUND_TRIP = 2  # times the longest delay, from one end to the other


def begin(context: BrokerContext, request: RequestMove, attempts: int) -> tuple[SourceMovement, list[Effect]]:
    """A component has one copy, which a bound on delays that does not hold would lose: bounds are ignored for it."""
    if context.component_host.kind_of(request.client):
        request = msgspec.structs.replace(request, delay_ms_max=0)
    movement = SourceMovement(request, attempts)
    return movement, [_negotiate(context, movement), *timers(movement)]


def timers(movement: SourceMovement) -> list[SetTimer]:
    """The longest time to wait in this phase; none where the source can only wait."""
    bound = movement.request.delay_ms_max / 1_000
    match movement.phase:
        case SourcePhase.ABORTING:
            return []
        case SourcePhase.PREPARED if not bound:
            return []
    return [SetTimer(TIMER + movement.operation, ROUND_TRIP * bound or PATIENCE_SECONDS)]


class MovementSource:
    """One movement, at its source. `is_over`: the movement is over here."""

    def __init__(self, context: BrokerContext, retries: Retries, movement: SourceMovement) -> None:
        self._context = context
        self._retries = retries
        self._movement = movement
        self.is_over = False

    def handle(self, message: Approve | Reject | MoveAck | Halted) -> Reaction:
        movement = self._movement
        match movement.phase, message:
            case SourcePhase.NEGOTIATING, Approve(_, address, life):
                movement.address, movement.life = address, life
                return self._halt()
            case SourcePhase.AMENDING, Approve():
                return self._transfer()
            case SourcePhase.HALTING, Halted():
                return self._halted()
            case SourcePhase.PREPARED, MoveAck():
                return self._commit()
            case _, Reject(_, reason, is_busy):
                return self._rejected(reason, is_busy=is_busy)
        return Reaction()  # ABORTING: only `Reject` ends it

    def handle_late(self) -> Reaction:
        """An answer has not come in time."""
        movement = self._movement
        match movement.phase:
            case SourcePhase.PREPARED:
                return self._commit()
            case SourcePhase.HALTING:
                return self.give_up(f"{movement.client} does not answer")
        return self.give_up(f"{movement.target} does not answer")

    def client_reborn(self) -> Reaction:
        """The client that halted is gone. Its new incarnation stays, and does not get what was kept before."""
        movement = self._movement
        if movement.phase is SourcePhase.ABORTING:
            return Reaction()
        movement.kept = []
        return self._abort(f"{movement.client} has lost its memory, and begins anew", resumed=[])

    def after_reborn(self) -> Reaction:
        """The client stays: this broker has all that came for it, and has not sent it away.

        If the target has taken the client over, it has to release it; brokers that know of no movement pass that on.
        """
        movement = self._movement
        self.is_over = True
        recalled: list[Effect] = []
        if movement.phase is SourcePhase.PREPARED and movement.after != movement.target:
            recalled.append(Send(movement.after, MoveAbort(movement.operation, movement.request.path)))
        reason = movement.reason or f"{movement.after} has lost its memory meanwhile; ask again"
        effects = [self._done_waiting(), *self._stay(), *recalled, Concluded(movement.operation, reason)]
        return Reaction(effects, released=[movement.client])

    # Forward -------------------------------------------------------------------------------------------------

    def _halt(self) -> Reaction:
        movement = self._movement
        if movement.client not in self._context.sessions:
            return self.give_up(f"{movement.client} has left")
        movement.phase = SourcePhase.HALTING
        return Reaction([Send(movement.client, Halt(movement.operation)), *timers(movement)])

    def _halted(self) -> Reaction:
        """If the client has changed its requests, negotiate again with the present ones.

        Also where these are again what was negotiated: the target has queued events for which it was not subscribed.
        """
        movement = self._movement
        sessions = self._context.sessions
        if movement.is_outdated and movement.client in sessions:
            movement.phase, movement.delivered = SourcePhase.AMENDING, []
            return Reaction([_negotiate(self._context, movement), *timers(movement)])
        return self._transfer()

    def _transfer(self) -> Reaction:
        movement, sessions = self._movement, self._context.sessions
        if movement.client not in sessions:
            return self.give_up(f"{movement.client} has left")
        component = self._context.component_host.pack(movement.client)
        movement.phase = SourcePhase.PREPARED
        handed = sessions.hand_over(movement.client)
        sessions.leave_unanswered(handed)
        movement.waiting = handed.waiting
        state = MoveState(movement.operation, handed, movement.delivered, component)
        movement.delivered = []
        return Reaction([self._done_waiting(), Send(movement.after, state), *timers(movement)])

    def _commit(self) -> Reaction:
        """The client is at the target: send it there, and withdraw what was told for it."""
        movement = self._movement
        self.is_over = True
        client = movement.client
        withdrawn: Sequence[Effect] = self._context.sessions.part_with(client)
        effects: list[Effect] = [
            self._done_waiting(),
            Send(client, Resume(movement.operation, movement.target, movement.address, movement.life)),
            LinkDown(client, is_client=True),
            *withdrawn,
            Send(movement.after, MoveCommit(movement.operation)),
            Concluded(movement.operation),
        ]
        return Reaction(effects, discarded=[client])

    # Back ----------------------------------------------------------------------------------------------------

    def give_up(self, reason: str) -> Reaction:
        """The client goes on here. Until the state has been sent."""
        return self._abort(reason, resumed=self._stay())

    def _abort(self, reason: str, *, resumed: Sequence[Effect]) -> Reaction:
        movement = self._movement
        movement.phase, movement.reason = SourcePhase.ABORTING, reason
        abort = Send(movement.after, MoveAbort(movement.operation))
        return Reaction([self._done_waiting(), *resumed, abort])

    def _rejected(self, reason: str, *, is_busy: bool) -> Reaction:
        movement = self._movement
        self.is_over = True
        effects = [self._done_waiting(), *self._stay()]
        if movement.reason:
            effects.append(Concluded(movement.operation, movement.reason))
        elif is_busy:
            effects += self._retries.put_off(movement.request, movement.attempts, reason)
        else:
            effects.append(Concluded(movement.operation, reason))
        return Reaction(effects, released=[movement.client])

    def _stay(self) -> list[Effect]:
        """The client goes on here, with what came for it meanwhile and confirmations of its requests."""
        movement = self._movement
        if movement.phase in {SourcePhase.NEGOTIATING, SourcePhase.ABORTING}:
            return []  # it has not been halted, or has been resumed
        resume = Send(movement.client, Resume(movement.operation, self._context.name))
        confirmed = confirm(self._context, movement.client, movement.waiting)
        return [resume, *self._context.sessions.replies(movement.client, movement.kept), *confirmed]

    def _done_waiting(self) -> CancelTimer:
        return CancelTimer(TIMER + self._movement.operation)


def _negotiate(context: BrokerContext, movement: SourceMovement) -> Send:
    request = movement.request
    client, kind = context.sessions.hand_over(request.client), context.component_host.kind_of(request.client)
    return Send(movement.after, Negotiate(request.operation, client, request.path, request.delay_ms_max, kind))
