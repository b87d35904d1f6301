"""SwapLink(a, b, c): the messages of S0 §IV-A, figure 5, numbered as in docs/protocols/swaplink.md.

     a              b              c
     1 lock ───────▶│2 lock ──────▶│ opens a–c; floods from here on
     │◀───── lockAck 4◀──── lockAck 3      (also close(cba))
     5 swap ───────▶│6 swap ──────▶│        (also close(abc); 6 carries the tables)
     │◀──────────────────────swap 7
     8 open(acb) ─────────────────▶│        a adopts the new routing
     9 close(ab) ──▶│10 close(ab)+open(bca) ▶│   b adopts it
     │◀──── close(ba) 11                    │
     12 close(ba) ────────────────▶│        a–b is gone; all are unlocked

Which message is legal when, and the phase that it leads to, is in transitions.py. `swaplink` is the corrected protocol
(events.py), `swaplink-published` the one of the paper; a request says which, and `lock` tells the others. Beyond S0, a
request that meets a locked broker is made again later (retries.py), and a swap survives failures (failures.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from pleach.core.effects import CancelTimer, Concluded, Effect, LinkDown, LinkUp, Send
from pleach.core.messages import (
    Abort,
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
from pleach.core.overlay.abandonment import OpenOperation
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.retries import PutOff
from pleach.core.overlay.seam import Reaction, join
from pleach.core.overlay.swaplink import sides
from pleach.core.overlay.swaplink.events import Triangle
from pleach.core.overlay.swaplink.failures import LEASE, SwapFailures, lease
from pleach.core.overlay.swaplink.state import SwapLinkState, SwapPart, Swapping, note
from pleach.core.overlay.swaplink.transitions import LATE, TRANSITIONS, SwapPhase, SwapRole
from pleach.errors import ProtocolError

NOTHING = Reaction()


class SwapLink:
    name = "swaplink"
    accepts = frozenset(get_args(SwapLinkMessage))

    def __init__(self, context: BrokerContext, *, ordering: str) -> None:
        self._context = context
        self._ordering = ordering
        self._part = SwapPart(context)
        self._failures = SwapFailures(self._part)
        context.on_peer_reset(self._failures.peer_reset)
        context.abandonable += [self, PutOff(lambda: self._part.state.retries)]

    @property
    def under_way(self) -> Triangle | None:
        swap = self._part.state.swap
        return None if swap is None else Triangle(swap, self._part.end_if_over, ordering=self._ordering)

    @property
    def operation(self) -> str:
        return self._part.operation

    @property
    def open_operations(self) -> list[OpenOperation]:
        state = self._part.state
        return [] if state.swap is None else [self._failures.opened(state.swap)]

    def abandon(self, operation: str) -> Reaction:  # noqa: ARG002 - there is one at most
        swap = self._part.state.swap
        assert swap is not None, "it is listed"
        return self._failures.spare_the_lost(swap, self._failures.abandon(swap))

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        swap = self._part.state.swap
        handled = self._failures.spare_the_lost(swap, self._handle(swap, sender, message))
        self._part.end_if_over()
        return handled

    def _handle(self, swap: Swapping | None, sender: Node, message: Message) -> Reaction:
        match message:
            case RequestSwap():
                return self._requested(message, attempts=0)
            case Lock():
                return self._lock(sender, message)
        if swap is None or message.operation != swap.operation:  # type: ignore[attr-defined]
            if isinstance(message, Forgot) and message.is_asking:
                return Reaction([Send(sender, Abort(message.operation))])  # it was undone here
            if type(message) in LATE:
                return NOTHING
            raise self._refused(sender, message, "no such swap is under way here")
        if (swap.role, swap.phase, type(message), swap.role_of(sender)) not in TRANSITIONS:
            raise self._refused(sender, message, f"role {swap.role.name}, phase {swap.phase.name}")
        return self._step(swap, sender, message)

    def _step(self, swap: Swapping, sender: Node, message: Message) -> Reaction:
        match message:
            case LockAck():
                return self._pass_lock_ack(swap) if swap.role is SwapRole.B else self._send_swap(swap)
            case LockNack():
                return self._lock_nack(swap, message)
            case Swap():
                return self._swap(swap, message)
            case Open():
                return NOTHING  # 8: a's events follow, and c routes them as its tables say
            case Close():
                return self._close(swap, sender)
        return self._failures.handle(swap, sender, message)

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        if name == LEASE:
            return self._failures.lease_over()
        waiting = self._part.state.retries.take(name)
        if waiting is None or not isinstance(waiting.request, RequestSwap):
            return NOTHING
        return self._requested(waiting.request, attempts=waiting.attempts)

    def resume(self) -> Sequence[Effect]:
        swap = self._part.state.swap
        leases = lease(swap) if swap is not None and swap.is_leased else []
        return [*self._part.state.retries.timers(), *leases]

    def capture(self) -> bytes:
        return pack(self._part.state)

    def restore(self, state: bytes) -> None:
        self._part.state = unpack(state, SwapLinkState)

    # State 0: a request --------------------------------------------------------------------------------------

    def _requested(self, request: RequestSwap, *, attempts: int) -> Reaction:
        router, state = self._context.router, self._part.state
        if len({request.a, request.b, request.c}) < 3:
            return _rejected(request.operation, "a swap takes three different brokers")
        if request.b not in router.neighbours:
            return _rejected(request.operation, f"{request.a} and {request.b} are not linked")
        if request.c in router.neighbours:
            return _rejected(request.operation, f"{request.a} and {request.c} are linked already")
        if busy := self._context.locked_for():
            return Reaction(state.retries.put_off(request, attempts, f"{request.a} is locked for operation {busy}"))
        state.begun += 1
        state.request, state.attempts = request, attempts
        name = f"{request.operation}~{state.begun}"  # what is late of a former attempt must not fit this one
        lock = Lock(name, request.a, request.b, request.c, self._context.address, request.is_published)
        swap = self._part.begin(lock, SwapRole.A, RequestSwap, None)
        return Reaction([note(swap, SwapPhase.LOCKED), LinkUp(request.c), Send(request.b, lock)])

    # States 1 and 2: locks, 1 to 4 ---------------------------------------------------------------------------

    def _lock(self, sender: Node, lock: Lock) -> Reaction:
        """1, 2."""
        name, neighbours = self._context.name, self._context.router.neighbours
        if len({lock.a, lock.b, lock.c, ""}) < 4:
            raise self._refused(sender, lock, "a swap takes three different brokers")
        is_before = (name, sender) in ((lock.b, lock.a), (lock.c, lock.b))
        if is_before and sender not in neighbours:
            return Reaction([Send(sender, LockNack(lock.operation, f"{name} and {sender} are not linked"))])
        if busy := self._context.locked_for():
            reason = f"{name} is locked for operation {busy}"
            return Reaction([Send(sender, LockNack(lock.operation, reason, is_busy=True))])
        match name, sender:
            case lock.b, lock.a:
                return self._lock_b(lock)
            case lock.c, lock.b:
                return self._lock_c(lock)
        raise self._refused(sender, lock, "the sender or the receiver has no part in this swap")

    def _lock_b(self, lock: Lock) -> Reaction:
        if lock.c not in self._context.router.neighbours:
            return Reaction([Send(lock.a, LockNack(lock.operation, f"{lock.b} and {lock.c} are not linked"))])
        swap = self._part.begin(lock, SwapRole.B, Lock, SwapRole.A)
        return Reaction([note(swap, SwapPhase.LOCKED), Send(lock.c, lock), *lease(swap)])

    def _lock_c(self, lock: Lock) -> Reaction:
        """c opens a–c, which takes it from state 1 to 2: it floods from here on. 3 is also close(cba)."""
        if lock.a in self._context.router.neighbours:
            return Reaction([Send(lock.b, LockNack(lock.operation, f"{lock.a} and {lock.c} are linked already"))])
        swap = self._part.begin(lock, SwapRole.C, Lock, SwapRole.B)
        self._context.addresses[lock.a] = lock.address
        self._context.router.suspend([lock.b])
        opened: list[Effect] = [LinkUp(lock.a, lock.address), Send(lock.b, LockAck(lock.operation))]
        return Reaction([note(swap, SwapPhase.LOCKED), *opened, note(swap, SwapPhase.FLOODING)])

    def _pass_lock_ack(self, swap: Swapping) -> Reaction:
        """3, at b."""
        noted = self._part.advance(swap, LockAck, SwapRole.C)
        return Reaction([*noted, Send(swap.a, LockAck(swap.operation)), *lease(swap)])

    def _send_swap(self, swap: Swapping) -> Reaction:
        """4, at a: close(cba). What c has flooded over a–c goes on now. 5 is also close(abc)."""
        self._context.router.suspend([swap.b])
        noted = self._part.advance(swap, LockAck, SwapRole.B)
        return Reaction([Send(swap.b, Swap(swap.operation)), *noted], released=[swap.c])

    def _lock_nack(self, swap: Swapping, message: LockNack) -> Reaction:
        if swap.role is SwapRole.B:
            self._part.advance(swap, LockNack, SwapRole.C)
            return Reaction([CancelTimer(LEASE), Send(swap.a, message)])
        self._part.advance(swap, LockNack, SwapRole.B)
        return self._part.undone_at_a(swap, message.reason, is_busy=message.is_busy)

    # State 3: tables, 5 to 7 ---------------------------------------------------------------------------------

    def _swap(self, swap: Swapping, message: Swap) -> Reaction:
        match swap.role:
            case SwapRole.A:
                return self._adopt_at_a(swap)
            case SwapRole.B:
                return self._pass_tables(swap)
            case SwapRole.C:
                return self._adopt_at_c(swap, message)

    def _pass_tables(self, swap: Swapping) -> Reaction:
        """5, at b, which knows a's side for good now."""
        noted = self._part.advance(swap, Swap, SwapRole.A)
        if swap.phase is SwapPhase.ABORTING:
            return NOTHING
        self._context.router.suspend([swap.a, swap.c])
        message = sides.sides_for_c(self._context.router, swap)
        self._part.state.side_b = message.side_b
        return Reaction([CancelTimer(LEASE), Send(swap.c, message), *noted])

    def _adopt_at_c(self, swap: Swapping, message: Swap) -> Reaction:
        """6: close(abc). What a has flooded over a–c goes on now."""
        rewiring = sides.new_at_c(self._context.router, swap, message)
        noted = self._part.advance(swap, Swap, SwapRole.B)
        effects = [Send(swap.a, Swap(swap.operation)), *noted, *self._context.rewire(rewiring)]
        return join(Reaction(effects, released=[swap.a]), self._failures.face_loss(swap))

    def _adopt_at_a(self, swap: Swapping) -> Reaction:
        """7. 8 is open(acb), 9 close(ab)."""
        rewired = self._context.rewire(sides.new_at_a(self._context.router, swap))
        closing = [Send(swap.c, Open(swap.operation)), Send(swap.b, Close(swap.operation))]
        noted = self._part.advance(swap, Swap, SwapRole.C)
        return join(Reaction([*closing, *noted, *rewired]), self._failures.face_loss(swap))

    # State 0, new configuration: the old link, 8 to 12 -------------------------------------------------------

    def _close(self, swap: Swapping, sender: Node) -> Reaction:
        match swap.role:
            case SwapRole.A:
                return self._part.done_at_a(swap)
            case SwapRole.B:
                return self._adopt_at_b(swap, sender)
            case SwapRole.C:
                return self._closed_at_c(swap, sender)

    def _adopt_at_b(self, swap: Swapping, sender: Node) -> Reaction:
        """9: close(ab). 10 is close(ab) and open(bca), 11 close(ba). From c it comes for an a that is lost."""
        if swap.closed_ab:
            return NOTHING
        swap.closed_ab = True
        rewired = self._context.rewire(sides.new_at_b(self._context.router, swap, self._part.state.side_b))
        closing: list[Effect] = [
            Send(swap.c, Close(swap.operation)),
            Send(swap.a, Close(swap.operation)),
            LinkDown(swap.a),
        ]
        noted = self._part.advance(swap, Close, swap.role_of(sender))
        return Reaction([*closing, *noted, *rewired], released=[swap.c])

    def _closed_at_c(self, swap: Swapping, sender: Node) -> Reaction:
        """10 from b: close(ab); 12 from a: close(ba). c stops marking what it relays on that path."""
        if sender == swap.b:
            swap.closed_ab = True
        else:
            swap.closed_ba = True
        return Reaction(self._part.advance(swap, Close, swap.role_of(sender)))

    def _refused(self, sender: Node, message: Message, reason: str) -> ProtocolError:
        return ProtocolError(self._context.name, sender, message, reason)


def _rejected(operation: str, reason: str) -> Reaction:
    return Reaction([Concluded(operation, reason)])
