"""Movements at one broker: any number of them at once, each in one of three roles (S4 §4; docs/protocols/movement.md).

    client          source            path              target
      │                │ negotiate ──────▶│──────────────────▶│ may it come?
      │                │◀─────────────────│◀────────── approve │ installs what the client wants; queues for it
      │◀──────── halt  │                  │                   │
      │ halted ───────▶│ state ──────────▶│──────────────────▶│ the client is here
      │                │◀─────────────────│◀────────────── ack │ delivers what the client has not got
      │◀────── resume  │ takes back what it told              │
      ├── goes ───────▶│ commit ─────────▶│──────────────────▶│

Movements do not exclude each other. A movement and an operation of another kind do: a broker that takes part in one is
locked for the other. No broker waits for a lock while others wait for it: a request that meets a locked broker is
refused, and is tried again later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, get_args

import msgspec

from pleach.core.effects import Concluded, Effect, Observe, Send, phase_seen
from pleach.core.messages import (
    Approve,
    Halted,
    HandedClient,
    Message,
    MoveAbort,
    MoveAck,
    MoveCommit,
    MovementMessage,
    MoveState,
    Negotiate,
    Node,
    Reject,
    RequestMove,
    pack,
    unpack,
)
from pleach.core.mobility import source, target
from pleach.core.mobility.admission import CLIENTS_MAX, Admit, Arrival, up_to
from pleach.core.mobility.movements import Movement, PathMovement, SourceMovement, TargetMovement
from pleach.core.mobility.moving import MovementSeam
from pleach.core.mobility.phases import (
    TRANSITIONS,
    AfterReborn,
    BeforeReborn,
    ClientReborn,
    Input,
    Late,
    PathPhase,
    Phase,
    SourcePhase,
    TargetPhase,
)
from pleach.core.mobility.source import TIMER, MovementSource
from pleach.core.mobility.target import MovementTarget, nobody
from pleach.core.overlay.abandonment import ABANDONED, OpenOperation
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.retries import PutOff, Retries
from pleach.core.overlay.seam import Reaction, join
from pleach.core.routing.client_state import weight
from pleach.errors import ProtocolError

RETRY = "mobility:retry:"
UNSURE_MAX = 64  # the latest ones; each is due to a broker that lost its memory
TOWARDS_SOURCE: frozenset[type] = frozenset((Approve, Reject, MoveAck))
NOTHING = Reaction()
Loss: TypeAlias = type[ClientReborn | BeforeReborn | AfterReborn]


class MobilityState(msgspec.Struct):
    movements: dict[str, SourceMovement | TargetMovement | PathMovement] = {}  # by operation
    unsure: dict[str, Node] = {}  # clients that are here, unless their source recalls them, by operation
    retries: Retries = msgspec.field(default_factory=lambda: Retries(RETRY))


class Mobility:
    """`admit`: decides which clients may come here."""

    name = "mobility"
    accepts = frozenset(get_args(MovementMessage))

    def __init__(self, context: BrokerContext, *, admit: Admit | None = None) -> None:
        self._context = context
        self._admit = admit or up_to(CLIENTS_MAX)
        self._state = MobilityState()
        self._moving: MovementSeam | None = None
        context.on_peer_reset(self.peer_reset)
        context.abandonable += [self, PutOff(lambda: self._state.retries)]

    @property
    def under_way(self) -> MovementSeam | None:
        return self._moving

    @property
    def kept_bytes(self) -> int:
        """Bytes of what waits here for clients that are on their way."""
        return 0 if self._moving is None else self._moving.kept_bytes

    @property
    def operation(self) -> str:
        return next(iter(self._state.movements), "")

    @property
    def movements(self) -> Sequence[Movement]:
        return list(self._state.movements.values())

    @property
    def open_operations(self) -> list[OpenOperation]:
        return [*map(_opened, self.movements)]

    def abandon(self, operation: str) -> Reaction:
        """At the source, which decides until it has sent the state: as if its patience were over."""
        movement = self._state.movements[operation]
        assert isinstance(movement, SourceMovement), "it is listed"
        before = movement.phase
        handled = MovementSource(self._context, self._state.retries, movement).give_up(ABANDONED)
        return self._joined(self._noted(movement, before, handled, is_over=False, cause=Late))

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        match message:
            case RequestMove():
                return self._joined(self._asked(message, attempts=0))
            case Negotiate() if message.operation not in self._state.movements:
                return self._joined(self._negotiated(sender, message))
        movement = self._state.movements.get(message.operation)  # type: ignore[attr-defined]
        if isinstance(message, MoveAbort) and movement is None:
            return Reaction(self._recall(sender, message))
        if movement is None:
            return self._of_none(sender, message)
        self._check(sender, message, movement)
        before = movement.phase
        handled, is_over = self._pursue(movement, message)
        return self._joined(self._noted(movement, before, handled, is_over=is_over, cause=type(message)))

    def _of_none(self, sender: Node, message: Message) -> Reaction:
        """A movement that is over here. It may have ended on the refusal of what was amended since.

        Then an approval of the amendment follows, and whoever has approved it waits for a client that does not come.
        """
        return Reaction([Send(sender, MoveAbort(message.operation))]) if isinstance(message, Approve) else NOTHING

    def _pursue(self, movement: Movement, message: Message) -> tuple[Reaction, bool]:
        """Returns the reaction, and whether the movement is over here."""
        match movement:
            case SourceMovement():
                role = MovementSource(self._context, self._state.retries, movement)
                return role.handle(message), role.is_over  # type: ignore[arg-type]
            case TargetMovement():
                if isinstance(message, MoveCommit) and not message.is_sure:
                    self._doubt(movement)
                arriving = MovementTarget(self._context, movement)
                return arriving.handle(message), arriving.is_over  # type: ignore[arg-type]
            case PathMovement():
                return self._pass_on(movement, message)

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        if name.startswith(RETRY):
            waiting = self._state.retries.take(name)
            if waiting is None or not isinstance(waiting.request, RequestMove):
                return NOTHING
            return self._joined(self._asked(waiting.request, attempts=waiting.attempts))
        movement = self._state.movements.get(name.removeprefix(TIMER))
        match movement:
            case SourceMovement():
                role: MovementSource | MovementTarget = MovementSource(self._context, self._state.retries, movement)
            case TargetMovement():
                role = MovementTarget(self._context, movement)
            case _:
                return NOTHING
        before = movement.phase
        handled = role.handle_late()
        return self._joined(self._noted(movement, before, handled, is_over=role.is_over, cause=Late))

    def peer_reset(self, peer: Node) -> Reaction:
        return self._joined(join(*(self._outlive(movement, peer) for movement in self.movements)))

    def _outlive(self, movement: Movement, peer: Node) -> Reaction:
        before, is_over, cause = movement.phase, True, self._loss(movement, peer)
        match movement:
            case _ if cause is None:
                return NOTHING
            case SourceMovement():
                role = MovementSource(self._context, self._state.retries, movement)
                handled = role.client_reborn() if cause is ClientReborn else role.after_reborn()
                is_over = role.is_over
            case TargetMovement(phase=phase):
                if phase is TargetPhase.COMMITTED:
                    self._doubt(movement)
                handled = MovementTarget(self._context, movement).before_reborn()
            case PathMovement():
                handled = Reaction(_reborn_on_the_path(movement, cause))
        return self._noted(movement, before, handled, is_over=is_over, cause=cause)

    def _loss(self, movement: Movement, peer: Node) -> Loss | None:
        """Which input it is for a movement that a peer has lost its memory; None if it does not concern it."""
        match movement:
            case SourceMovement(client=client) if client == peer:
                return ClientReborn
            case SourceMovement(after=after) | PathMovement(after=after) if after == peer:
                return AfterReborn
            case TargetMovement(before=before) | PathMovement(before=before) if before == peer:
                return BeforeReborn
        return None

    def _doubt(self, movement: TargetMovement) -> None:
        """The client is here unless the source recalls it. Where delays are bounded the source has committed."""
        if movement.delay_ms_max:
            return
        unsure = self._state.unsure
        unsure[movement.operation] = movement.client
        if len(unsure) > UNSURE_MAX:
            del unsure[next(iter(unsure))]

    def _recall(self, sender: Node, message: MoveAbort) -> list[Effect]:
        """The client has stayed at its source: release it here, or pass the message on."""
        name, path = self._context.name, message.path
        client = self._state.unsure.pop(message.operation, None)
        if client is not None:
            return target.release(self._context, message.operation, client, to=sender)
        place = path.index(name) if name in path else 0
        if not place or path[place - 1] != sender or name == path[-1]:
            return []  # of a movement that is over here
        return [Send(path[place + 1], message)] if path[place + 1] in self._context.router.neighbours else []

    # Begin ---------------------------------------------------------------------------------------------------

    def _asked(self, request: RequestMove, *, attempts: int) -> Reaction:
        """At the source."""
        name, client, path = self._context.name, request.client, request.path
        if client not in self._context.sessions:
            return Reaction([Concluded(request.operation, f"{name} has no client {client}")])
        if len({*path}) < len(path):
            return Reaction([Concluded(request.operation, f"the path goes twice by one broker: {', '.join(path)}")])
        if path[-1] == name:
            return Reaction([Concluded(request.operation, f"{client} is at {name} already")])
        if path[1] not in self._context.router.neighbours:
            return Reaction([Concluded(request.operation, self._no_way(path[1]))])
        if busy := self._busy(client):
            return Reaction(self._state.retries.put_off(request, attempts, busy))
        movement, effects = source.begin(self._context, request, attempts)
        self._state.movements[request.operation] = movement
        return Reaction([_note(movement), *effects])

    def _negotiated(self, sender: Node, message: Negotiate) -> Reaction:
        """On the path, or at its end."""
        rejection = self._why_not(sender, message)
        if rejection:
            return Reaction([Send(sender, rejection)])
        place = message.path.index(self._context.name)
        if place + 1 < len(message.path):
            after = message.path[place + 1]
            through = PathMovement(message.operation, message.client.name, sender, after, path=message.path)
            self._state.movements[message.operation] = through
            return Reaction([_note(through), Send(after, message)])
        empty = nobody(message.client.name)
        entering = TargetMovement(message.operation, empty, sender, message.delay_ms_max)
        self._state.movements[message.operation] = entering
        approved = MovementTarget(self._context, entering).approve(message.client)
        return Reaction([_note(entering), *approved.effects])

    def _why_not(self, sender: Node, message: Negotiate) -> Reject | None:
        name, path, client = self._context.name, message.path, message.client
        place = path.index(name) if name in path else 0
        if not place or path[place - 1] != sender or sender not in self._context.router.neighbours:
            return Reject(message.operation, self._no_way(sender))
        if place + 1 < len(path):
            after = path[place + 1]
            if after not in self._context.router.neighbours:
                return Reject(message.operation, self._no_way(after))
        elif reason := self._not_admitted(message):
            return Reject(message.operation, reason)
        if busy := self._locked():
            return Reject(message.operation, busy, is_busy=True)
        if place + 1 == len(path) and self._is_coming(client.name):
            return Reject(message.operation, f"{client.name} is on its way to {name} already", is_busy=True)
        return None

    def _not_admitted(self, message: Negotiate) -> str:
        sessions, client = self._context.sessions, message.client
        if client.name == self._context.name or client.name in self._context.router.neighbours:
            return f"{client.name} is the name of a broker"
        if client.name in sessions:
            return f"{self._context.name} has a client {client.name} already"
        if message.component and (reason := self._context.component_host.why_not(message.component)):
            return reason
        coming = [m.handed for m in self.movements if isinstance(m, TargetMovement) and m.client not in sessions]
        names = sessions.names + sum(map(weight_of, [*coming, client]))
        return self._admit(Arrival(self._context.name, len(sessions.clients) + len(coming), names, client))

    def _busy(self, client: Node) -> str:
        """Why a client cannot begin to move now; empty if it can."""
        for movement in self.movements:
            if isinstance(movement, SourceMovement) and movement.client == client:
                return f"{client} moves already, by operation {movement.operation}"
        return self._locked()

    def _locked(self) -> str:
        busy = self._context.locked_for()
        is_ours = not busy or busy in self._state.movements
        return "" if is_ours else f"{self._context.name} is locked for operation {busy}"

    def _is_coming(self, client: Node) -> bool:
        return any(isinstance(movement, TargetMovement) and movement.client == client for movement in self.movements)

    def _no_way(self, neighbour: Node) -> str:
        return f"{self._context.name} and {neighbour} are no neighbours: the tree is another one; find the path anew"

    # On the path ---------------------------------------------------------------------------------------------

    def _pass_on(self, movement: PathMovement, message: Message) -> tuple[Reaction, bool]:
        match message:
            case Approve():
                movement.phase = PathPhase.SHADOWED
            case MoveState():
                movement.phase = PathPhase.CARRIED
            case MoveAck():
                movement.phase = PathPhase.ANSWERED
        to = movement.before if message.__class__ in TOWARDS_SOURCE else movement.after
        return Reaction([Send(to, message)]), isinstance(message, Reject | MoveCommit)

    # Parts ---------------------------------------------------------------------------------------------------

    def _check(self, sender: Node, message: Message, movement: Movement) -> None:
        """Check the sender, and the table in phases.py."""
        match movement:
            case SourceMovement():
                expected = movement.client if isinstance(message, Halted) else movement.after
            case TargetMovement():
                expected = movement.before
            case PathMovement():
                expected = movement.after if message.__class__ in TOWARDS_SOURCE else movement.before
        if sender != expected:
            raise ProtocolError(self._context.name, sender, message, f"it is for {expected} to say")
        if (movement.phase, type(message)) not in TRANSITIONS:
            reason = f"it does not fit the state of the movement, {movement.phase.name}"
            raise ProtocolError(self._context.name, sender, message, reason)

    def _noted(self, movement: Movement, before: Phase, handled: Reaction, *, is_over: bool, cause: Input) -> Reaction:
        after = None if is_over else movement.phase
        assert after in TRANSITIONS[before, cause], (before, cause, after)
        if is_over:
            del self._state.movements[movement.operation]
        if after is before:
            return handled
        return handled._replace(effects=[_note(movement, is_over=is_over), *handled.effects])

    def _joined(self, handled: Reaction) -> Reaction:
        """Make the seam, and the list of clients that are on their way here, anew."""
        arriving = (movement for movement in self.movements if isinstance(movement, TargetMovement))
        self._context.awaited = tuple(each.client for each in arriving if each.phase is TargetPhase.APPROVED)
        moving = MovementSeam(self.movements, None if self._moving is None else self._moving.weights)
        self._moving = None if moving.is_idle else moving
        return handled

    # State ---------------------------------------------------------------------------------------------------

    def resume(self) -> Sequence[Effect]:
        effects: list[Effect] = [*self._state.retries.timers()]
        for movement in self.movements:
            match movement:
                case SourceMovement():
                    effects += source.timers(movement)
                case TargetMovement():
                    effects += target.timers(movement)
        return effects

    def capture(self) -> bytes:
        """Sorted: equal states are equal bytes, whichever movement came first."""
        state = self._state
        return pack(MobilityState(dict(sorted(state.movements.items())), state.unsure, state.retries))

    def restore(self, state: bytes) -> None:
        self._state = unpack(state, MobilityState)
        self._moving = None
        self._joined(NOTHING)


def weight_of(client: HandedClient) -> int:
    return sum(map(weight, (*client.subscriptions.values(), *client.advertisements.values())))


def _opened(movement: Movement) -> OpenOperation:
    phase = f"movement of {movement.client}, {movement.phase.value}"
    match movement:
        case SourceMovement(phase=SourcePhase.HALTING):
            return OpenOperation(movement.operation, phase, (movement.client,))
        case SourceMovement(phase=SourcePhase.NEGOTIATING | SourcePhase.AMENDING):
            return OpenOperation(movement.operation, phase, (movement.target,))
        case SourceMovement():
            why_not = f"that is for {movement.target} to say now: it waits for its answer"
            return OpenOperation(movement.operation, phase, (movement.target,), why_not)
    why_not = "that is for the broker to decide from which the client comes: abandon it there"
    return OpenOperation(movement.operation, phase, (movement.before,), why_not)


def _note(movement: Movement, *, is_over: bool = False) -> Observe:
    phase = "over" if is_over else movement.phase.value
    role = {SourceMovement: "source", TargetMovement: "target", PathMovement: "path"}[type(movement)]
    return phase_seen("movement", movement.operation, f"{role} {phase}")


def _reborn_on_the_path(movement: PathMovement, cause: Loss) -> list[Effect]:
    """Tell the neighbour that still knows of it. Where the outcome is unknown, the client stays at the source."""
    operation, has_state = movement.operation, movement.phase in (PathPhase.CARRIED, PathPhase.ANSWERED)
    if cause is BeforeReborn:
        return [Send(movement.after, MoveCommit(operation, is_sure=False) if has_state else MoveAbort(operation))]
    if movement.phase is PathPhase.ANSWERED:
        return []  # the source has the client go
    reject = Send(movement.before, Reject(operation, f"{movement.after} has lost its memory meanwhile; ask again"))
    return [reject, Send(movement.after, MoveAbort(operation, movement.path))] if has_state else [reject]
