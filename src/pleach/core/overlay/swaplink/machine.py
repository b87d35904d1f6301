"""SwapLink(a, b, c): the tree a–b–c becomes a–c–b while events flow (S0 §IV-A; docs/protocols/swaplink.md).

     a              b              c
     1 lock ───────▶│2 lock ──────▶│ opens a–c; floods from here on
     │◀───── lockAck 4◀──── lockAck 3      (also close(cba))
     5 swap ───────▶│6 swap ──────▶│        (also close(abc); 6 carries the tables)
     │◀──────────────────────swap 7
     8 open(acb) ─────────────────▶│        a adopts the new routing
     9 close(ab) ──▶│10 close(ab)+open(bca) ▶│   b adopts it
     │◀──── close(ba) 11                    │
     12 close(ba) ────────────────▶│        a–b is gone; all are unlocked

`swaplink` is the corrected protocol (events.py), `swaplink-published` the one of the paper; a request says which, and
`lock` tells the others. Beyond S0, who is busy is asked again later, and b gives up a swap whose a or c stalls for
longer than a lease (not in the published protocol, which assumes that no broker fails).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from pleach.core.effects import CancelTimer, Concluded, Effect, LinkDown, LinkUp, Send
from pleach.core.messages import (
    Abort,
    Aborted,
    Close,
    Forgot,
    Lock,
    LockAck,
    LockNack,
    Message,
    Node,
    Open,
    RequestSwap,
    Swap,
    SwapLinkMessage,
    pack,
    unpack,
)
from pleach.core.overlay.context import Between, BrokerContext
from pleach.core.overlay.seam import Reaction, join
from pleach.core.overlay.swaplink import tables as swap_tables
from pleach.core.overlay.swaplink.events import SwapPhase, Swapping, SwapRole, Triangle
from pleach.core.overlay.swaplink.failures import SwapFate, fate
from pleach.core.overlay.swaplink.state import LEASE, LEASE_SECONDS, SwapLinkState, SwapPart, died
from pleach.errors import ProtocolError

NOTHING = Reaction()


class SwapLink:
    name = "swaplink"
    accepts = frozenset(get_args(SwapLinkMessage))

    def __init__(self, context: BrokerContext, *, ordering: str) -> None:
        self._context = context
        self._part = SwapPart(context, ordering)
        context.death_hooks.append(self)
        context.reset_hooks.append(self)

    @property
    def under_way(self) -> Triangle | None:
        return self._part.triangle

    @property
    def operation(self) -> str:
        swap = self._part.state.swap
        return swap.operation if swap is not None else ""

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        swap = self._part.state.swap
        handled = self._spared(swap, self._handle(sender, message))
        self._part.end_if_over()
        return handled

    def _handle(self, sender: Node, message: Message) -> Reaction:
        match message:
            case RequestSwap():
                return self._requested(message, attempts=0)
            case Lock():
                return self._lock(sender, message)
            case LockNack():
                return self._lock_nack(message)
        swap = self._part.state.swap
        if swap is not None and message.operation == swap.operation:  # type: ignore[attr-defined]
            return self._go_on(swap, sender, message)
        if isinstance(message, Abort | Aborted | LockAck | Swap | Forgot):
            return NOTHING  # of a swap that was given up
        return self._unexpected(sender, message)

    def _go_on(self, swap: Swapping, sender: Node, message: Message) -> Reaction:
        match message:
            case LockAck():
                return self._lock_ack(swap)
            case Swap():
                return self._swap(swap, sender, message)
            case Open():
                return NOTHING  # a's events follow, and c routes them as its tables say
            case Close():
                return self._close(swap, sender)
            case Abort():
                return self._abort(swap, sender)
            case Aborted():
                return self._part.aborted(swap)
            case Forgot(_, broker):
                return NOTHING if broker in swap.dead else self.peer_died(broker)
        return self._unexpected(sender, message)

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        if name == LEASE:
            return self._part.give_up()
        waiting = self._part.state.retries.take(name)
        if waiting is None or not isinstance(waiting.request, RequestSwap):
            return NOTHING
        return self._requested(waiting.request, attempts=waiting.attempts)

    def resume(self) -> Sequence[Effect]:
        timers = self._part.state.retries.timers()
        swap = self._part.state.swap
        if swap is not None and swap.role is SwapRole.B and swap.phase in (SwapPhase.LOCKED, SwapPhase.FLOODING):
            timers += self._part.lease()
        return timers

    def capture(self) -> bytes:
        return pack(self._part.state)

    def restore(self, state: bytes) -> None:
        self._part.state = unpack(state, SwapLinkState)
        self._part.triangle = None if self._part.state.swap is None else self._part.make_triangle(self._part.state.swap)

    # 0: a request --------------------------------------------------------------------------------------------

    def _requested(self, request: RequestSwap, *, attempts: int) -> Reaction:
        router = self._context.router
        if len({request.a, request.b, request.c}) < 3:
            return _refused(request.operation, "a swap takes three different brokers")
        if request.b not in router.neighbours:
            return _refused(request.operation, f"{request.a} and {request.b} are not linked")
        if request.c in router.neighbours:
            return _refused(request.operation, f"{request.a} and {request.c} are linked already")
        if busy := self._context.locked_for():
            return Reaction(
                self._part.state.retries.put_off(request, attempts, f"{request.a} is locked for operation {busy}")
            )
        self._part.state.begun += 1
        self._part.state.request, self._part.state.attempts = request, attempts
        name = f"{request.operation}~{self._part.state.begun}"  # what is late of a former attempt must not fit this one
        lock = Lock(name, request.a, request.b, request.c, self._context.address, request.is_published)
        return Reaction([*self._part.begin(lock, SwapRole.A), LinkUp(request.c), Send(request.b, lock)])

    # 1–4: locks ----------------------------------------------------------------------------------------------

    def _lock(self, sender: Node, lock: Lock) -> Reaction:
        if busy := self._context.locked_for():
            reason = f"{self._context.name} is locked for operation {busy}"
            return Reaction([Send(sender, LockNack(lock.operation, reason, is_busy=True))])
        router = self._context.router
        if self._context.name == lock.b and lock.c not in router.neighbours:
            return Reaction([Send(sender, LockNack(lock.operation, f"{lock.b} and {lock.c} are not linked"))])
        if self._context.name == lock.b:
            return Reaction([*self._part.begin(lock, SwapRole.B), Send(lock.c, lock), *self._part.lease()])
        effects = self._part.begin(lock, SwapRole.C)
        self._context.addresses[lock.a] = lock.address
        router.suspend([lock.b])
        return Reaction(
            [
                *effects,
                LinkUp(lock.a, lock.address),
                Send(lock.b, LockAck(lock.operation)),
                *self._part.enter(SwapPhase.FLOODING),
            ]
        )

    def _lock_ack(self, swap: Swapping) -> Reaction:
        if swap.phase is not SwapPhase.LOCKED:
            return NOTHING
        if swap.role is SwapRole.B:
            return Reaction(
                [*self._part.enter(SwapPhase.FLOODING), Send(swap.a, LockAck(swap.operation)), *self._part.lease()]
            )
        self._context.router.suspend([swap.b])
        return Reaction([Send(swap.b, Swap(swap.operation)), *self._part.enter(SwapPhase.SWAPPING)], released=[swap.c])

    def _lock_nack(self, message: LockNack) -> Reaction:
        swap = self._part.state.swap
        if swap is None or swap.operation != message.operation or swap.phase is not SwapPhase.LOCKED:
            return NOTHING
        self._part.end()
        if swap.role is SwapRole.B:
            return Reaction([CancelTimer(LEASE), Send(swap.a, message)])
        return self._part.undone(swap, message.reason, is_busy=message.is_busy)

    # 5–7: tables ---------------------------------------------------------------------------------------------

    def _swap(self, swap: Swapping, sender: Node, message: Swap) -> Reaction:
        match swap.role, swap.phase:
            case SwapRole.B, SwapPhase.FLOODING:
                return self._pass_tables(swap)
            case SwapRole.C, SwapPhase.FLOODING:
                return self._adopt_at_c(swap, message)
            case SwapRole.A, SwapPhase.SWAPPING:
                return self._adopt_at_a(swap)
            case SwapRole.B, SwapPhase.ABORTING:
                return NOTHING
        return self._unexpected(sender, message)

    def _pass_tables(self, swap: Swapping) -> Reaction:
        self._context.router.suspend([swap.a, swap.c])
        message = swap_tables.sides_for_c(self._context.router, swap)
        self._part.state.side_b = message.side_b
        return Reaction([CancelTimer(LEASE), Send(swap.c, message), *self._part.enter(SwapPhase.SWAPPING)])

    def _adopt_at_c(self, swap: Swapping, message: Swap) -> Reaction:
        rewiring = swap_tables.new_at_c(self._context.router, swap, message)
        effects = [
            Send(swap.a, Swap(swap.operation)),
            *self._part.enter(SwapPhase.SWAPPING),
            *self._context.rewire(rewiring),
        ]
        return join(Reaction(effects, released=[swap.a]), self._face_death(swap))

    def _adopt_at_a(self, swap: Swapping) -> Reaction:
        rewired = self._context.rewire(swap_tables.new_at_a(self._context.router, swap))
        closing: list[Effect] = [Send(swap.c, Open(swap.operation)), Send(swap.b, Close(swap.operation))]
        return join(Reaction([*closing, *self._part.enter(SwapPhase.ADOPTED), *rewired]), self._face_death(swap))

    # 8–12: the old link --------------------------------------------------------------------------------------

    def _close(self, swap: Swapping, sender: Node) -> Reaction:
        match swap.role, sender:
            case SwapRole.B, swap.a | swap.c:  # c says it for an a that is dead
                return self._adopt_at_b(swap)
            case SwapRole.A, swap.b:
                return self._closed_at_a(swap)
            case SwapRole.C, swap.b:
                swap.closed_ab = True
                return Reaction(self._part.enter(SwapPhase.ADOPTED))
            case SwapRole.C, swap.a:
                swap.closed_ba = True
                return NOTHING
        return self._unexpected(sender, Close(swap.operation))

    def _closed_at_a(self, swap: Swapping) -> Reaction:
        swap.closed_ba = True
        closed = Send(swap.c, Close(swap.operation))
        return Reaction([closed, LinkDown(swap.b), Concluded(self._part.request().operation)], released=[swap.c])

    def _adopt_at_b(self, swap: Swapping) -> Reaction:
        swap.closed_ab = True
        rewired = self._context.rewire(swap_tables.new_at_b(self._context.router, swap, self._part.state.side_b))
        closing: list[Effect] = [
            Send(swap.c, Close(swap.operation)),
            Send(swap.a, Close(swap.operation)),
            LinkDown(swap.a),
        ]
        return Reaction([*closing, *self._part.enter(SwapPhase.ADOPTED), *rewired], released=[swap.c])

    # Giving up -----------------------------------------------------------------------------------------------

    def _abort(self, swap: Swapping, sender: Node) -> Reaction:
        if swap.role is SwapRole.A and sender == swap.b:
            noted, resumed = self._part.enter(SwapPhase.ABORTING), self._part.resume([swap.b])
            reason = died(swap) or f"{swap.a} was silent for {LEASE_SECONDS:g} s, and {swap.b} gave up"
            undone = self._part.undone(swap, reason, is_busy=False)
            return undone._replace(effects=[*noted, *resumed, *undone.effects])
        answer = Send(sender, Aborted(swap.operation))
        return join(Reaction([answer]), self._part.undo(swap)) if swap.role is not SwapRole.A else self._part.undo(swap)

    # Deaths --------------------------------------------------------------------------------------------------

    def peer_died(self, peer: Node) -> Reaction:
        """The peer is dead for good, and nothing more comes from it."""
        swap = self._part.state.swap
        if swap is None or peer not in swap.others:
            return NOTHING
        swap.dead = sorted({*swap.dead, peer})
        handled = self._spared(swap, self._face_death(swap))
        self._part.end_if_over()
        return handled

    def peer_reset(self, peer: Node) -> Reaction:
        """As if it had died: it says nothing more of the swap, and what it had sent and is not here yet is void.

        b, which both others have for a neighbour, always hears of it, and tells the third if that one decides.
        """
        swap = self._part.state.swap
        if swap is None or (swap.role is SwapRole.A and swap.phase is SwapPhase.LOCKED and peer == swap.c):
            return NOTHING  # a cannot know whether b has asked c before or after
        outlived = self.peer_died(peer)
        if swap.role is not SwapRole.B or peer not in swap.dead or fate(swap) is not SwapFate.WAIT:
            return outlived
        third = swap.c if peer == swap.a else swap.a
        return join(outlived, Reaction([Send(third, Forgot(swap.operation, peer))]))

    def is_open(self, peer: Node) -> bool:
        swap = self._part.state.swap
        return swap is not None and peer in swap.others and swap.is_flooding

    def between(self, peer: Node) -> Between:
        """Once the swap is completed, c is between a and b. Once it is undone, b is between a and c, as ever."""
        swap = self._part.state.swap
        if swap is None:
            return Between()
        match swap.role, peer:
            case (SwapRole.A, swap.b) | (SwapRole.B, swap.a):
                return Between(swap.c)
            case (SwapRole.A, swap.c) | (SwapRole.C, swap.a):
                return Between(swap.b, had_all=True)
        return Between()

    def _face_death(self, swap: Swapping) -> Reaction:
        if not swap.dead:
            return NOTHING
        match fate(swap):
            case SwapFate.WAIT:
                return NOTHING
            case SwapFate.UNDO:
                told = Reaction([Send(swap.a, Abort(swap.operation))] if swap.role is SwapRole.C else [])
                return join(told, self._part.undo(swap))
            case SwapFate.GIVE_UP:
                given_up = self._part.give_up()
                is_over = swap.c in swap.dead and self._part.state.swap is not None
                return join(given_up, self._part.aborted(swap)) if is_over else given_up
            case SwapFate.ASK:
                return Reaction([Send(swap.b, Abort(swap.operation))])
            case SwapFate.COMPLETE:
                return self._complete(swap)
            case SwapFate.END:
                return self._part.aborted(swap)

    def _complete(self, swap: Swapping) -> Reaction:
        """As if the dead had closed its paths, and sent straight what came as a copy."""
        if swap.c in swap.dead:
            swap.owed.clear()
        match swap.role:
            case SwapRole.A if swap.b in swap.dead and not swap.closed_ba:
                return self._closed_at_a(swap)
            case SwapRole.C:
                swap.closed_ba = swap.closed_ba or swap.a in swap.dead
                swap.closed_ab = swap.closed_ab or swap.b in swap.dead
                noted = self._part.enter(SwapPhase.ADOPTED) if swap.closed_ab else []
                return Reaction([*noted, *([] if swap.closed_ab else [Send(swap.b, Close(swap.operation))])])
        return NOTHING

    def _spared(self, swap: Swapping | None, handled: Reaction) -> Reaction:
        """Nothing is sent to the dead. What waited for the outcome goes on once it is there."""
        if swap is None or not swap.dead:
            return handled
        effects = [each for each in handled.effects if not (isinstance(each, Send) and each.to in swap.dead)]
        if swap is self._part.state.swap and swap.is_flooding:
            return handled._replace(effects=effects)
        waiting, swap.waiting = sorted(swap.waiting), {}
        effects += self._context.on_settled()
        return handled._replace(effects=effects, released=[*handled.released, *waiting])

    # Parts ---------------------------------------------------------------------------------------------------

    def _unexpected(self, sender: Node, message: Message) -> Reaction:
        raise ProtocolError(self._context.name, sender, message, "it does not fit the state of the swap here")


def _refused(operation: str, reason: str) -> Reaction:
    return Reaction([Concluded(operation, reason)])
