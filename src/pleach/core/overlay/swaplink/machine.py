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
from pleach.core.overlay.context import Between, Layers
from pleach.core.overlay.seam import Handled, join
from pleach.core.overlay.swaplink import tables as swap_tables
from pleach.core.overlay.swaplink.events import Phase, Role, Swapping, Triangle
from pleach.core.overlay.swaplink.failures import Fate, fate
from pleach.core.overlay.swaplink.state import LEASE, LEASE_SECONDS, SwapLinkState, SwapPart, died
from pleach.errors import ProtocolError

NOTHING = Handled()


class SwapLink:
    name = "swaplink"
    accepts = frozenset(get_args(SwapLinkMessage))

    def __init__(self, layers: Layers, *, ordering: str) -> None:
        self._layers = layers
        self._part = SwapPart(layers, ordering)
        layers.mourners.append(self)
        layers.survivors.append(self)

    @property
    def under_way(self) -> Triangle | None:
        return self._part.triangle

    @property
    def operation(self) -> str:
        swap = self._part.state.swap
        return swap.operation if swap is not None else ""

    def handle(self, sender: Node, message: Message, *, now: float) -> Handled:  # noqa: ARG002
        swap = self._part.state.swap
        handled = self._spared(swap, self._handle(sender, message))
        self._part.end_if_over()
        return handled

    def _handle(self, sender: Node, message: Message) -> Handled:
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

    def _go_on(self, swap: Swapping, sender: Node, message: Message) -> Handled:
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
                return NOTHING if broker in swap.dead else self.bereaved(broker)
        return self._unexpected(sender, message)

    def handle_timer(self, name: str, *, now: float) -> Handled:  # noqa: ARG002
        if name == LEASE:
            return self._part.give_up()
        waiting = self._part.state.retries.take(name)
        if waiting is None or not isinstance(waiting.request, RequestSwap):
            return NOTHING
        return self._requested(waiting.request, attempts=waiting.attempts)

    def resume(self) -> Sequence[Effect]:
        timers = self._part.state.retries.timers()
        swap = self._part.state.swap
        if swap is not None and swap.role is Role.B and swap.phase in (Phase.LOCKED, Phase.FLOODING):
            timers += self._part.lease()
        return timers

    def capture(self) -> bytes:
        return pack(self._part.state)

    def restore(self, state: bytes) -> None:
        self._part.state = unpack(state, SwapLinkState)
        self._part.triangle = None if self._part.state.swap is None else self._part.make_triangle(self._part.state.swap)

    # 0: a request --------------------------------------------------------------------------------------------

    def _requested(self, request: RequestSwap, *, attempts: int) -> Handled:
        router = self._layers.router
        if len({request.a, request.b, request.c}) < 3:
            return _refused(request.operation, "a swap takes three different brokers")
        if request.b not in router.neighbours:
            return _refused(request.operation, f"{request.a} and {request.b} are not linked")
        if request.c in router.neighbours:
            return _refused(request.operation, f"{request.a} and {request.c} are linked already")
        if busy := self._layers.locked_for():
            return Handled(
                self._part.state.retries.put_off(request, attempts, f"{request.a} is locked for operation {busy}")
            )
        self._part.state.begun += 1
        self._part.state.request, self._part.state.attempts = request, attempts
        name = f"{request.operation}~{self._part.state.begun}"  # what is late of a former attempt must not fit this one
        lock = Lock(name, request.a, request.b, request.c, self._layers.address, request.is_published)
        return Handled([*self._part.begin(lock, Role.A), LinkUp(request.c), Send(request.b, lock)])

    # 1–4: locks ----------------------------------------------------------------------------------------------

    def _lock(self, sender: Node, lock: Lock) -> Handled:
        if busy := self._layers.locked_for():
            reason = f"{self._layers.name} is locked for operation {busy}"
            return Handled([Send(sender, LockNack(lock.operation, reason, is_busy=True))])
        router = self._layers.router
        if self._layers.name == lock.b and lock.c not in router.neighbours:
            return Handled([Send(sender, LockNack(lock.operation, f"{lock.b} and {lock.c} are not linked"))])
        if self._layers.name == lock.b:
            return Handled([*self._part.begin(lock, Role.B), Send(lock.c, lock), *self._part.lease()])
        effects = self._part.begin(lock, Role.C)
        self._layers.addresses[lock.a] = lock.address
        router.suspend([lock.b])
        return Handled(
            [
                *effects,
                LinkUp(lock.a, lock.address),
                Send(lock.b, LockAck(lock.operation)),
                *self._part.enter(Phase.FLOODING),
            ]
        )

    def _lock_ack(self, swap: Swapping) -> Handled:
        if swap.phase is not Phase.LOCKED:
            return NOTHING
        if swap.role is Role.B:
            return Handled(
                [*self._part.enter(Phase.FLOODING), Send(swap.a, LockAck(swap.operation)), *self._part.lease()]
            )
        self._layers.router.suspend([swap.b])
        return Handled([Send(swap.b, Swap(swap.operation)), *self._part.enter(Phase.SWAPPING)], released=[swap.c])

    def _lock_nack(self, message: LockNack) -> Handled:
        swap = self._part.state.swap
        if swap is None or swap.operation != message.operation or swap.phase is not Phase.LOCKED:
            return NOTHING
        self._part.end()
        if swap.role is Role.B:
            return Handled([CancelTimer(LEASE), Send(swap.a, message)])
        return self._part.undone(swap, message.reason, is_busy=message.is_busy)

    # 5–7: tables ---------------------------------------------------------------------------------------------

    def _swap(self, swap: Swapping, sender: Node, message: Swap) -> Handled:
        match swap.role, swap.phase:
            case Role.B, Phase.FLOODING:
                return self._pass_tables(swap)
            case Role.C, Phase.FLOODING:
                return self._adopt_at_c(swap, message)
            case Role.A, Phase.SWAPPING:
                return self._adopt_at_a(swap)
            case Role.B, Phase.ABORTING:
                return NOTHING
        return self._unexpected(sender, message)

    def _pass_tables(self, swap: Swapping) -> Handled:
        self._layers.router.suspend([swap.a, swap.c])
        message = swap_tables.sides_for_c(self._layers.router, swap)
        self._part.state.side_b = message.side_b
        return Handled([CancelTimer(LEASE), Send(swap.c, message), *self._part.enter(Phase.SWAPPING)])

    def _adopt_at_c(self, swap: Swapping, message: Swap) -> Handled:
        rewiring = swap_tables.new_at_c(self._layers.router, swap, message)
        effects = [
            Send(swap.a, Swap(swap.operation)),
            *self._part.enter(Phase.SWAPPING),
            *self._layers.rewire(rewiring),
        ]
        return join(Handled(effects, released=[swap.a]), self._face_death(swap))

    def _adopt_at_a(self, swap: Swapping) -> Handled:
        rewired = self._layers.rewire(swap_tables.new_at_a(self._layers.router, swap))
        closing: list[Effect] = [Send(swap.c, Open(swap.operation)), Send(swap.b, Close(swap.operation))]
        return join(Handled([*closing, *self._part.enter(Phase.ADOPTED), *rewired]), self._face_death(swap))

    # 8–12: the old link --------------------------------------------------------------------------------------

    def _close(self, swap: Swapping, sender: Node) -> Handled:
        match swap.role, sender:
            case Role.B, swap.a | swap.c:  # c says it for an a that is dead
                return self._adopt_at_b(swap)
            case Role.A, swap.b:
                return self._closed_at_a(swap)
            case Role.C, swap.b:
                swap.closed_ab = True
                return Handled(self._part.enter(Phase.ADOPTED))
            case Role.C, swap.a:
                swap.closed_ba = True
                return NOTHING
        return self._unexpected(sender, Close(swap.operation))

    def _closed_at_a(self, swap: Swapping) -> Handled:
        swap.closed_ba = True
        closed = Send(swap.c, Close(swap.operation))
        return Handled([closed, LinkDown(swap.b), Concluded(self._part.request().operation)], released=[swap.c])

    def _adopt_at_b(self, swap: Swapping) -> Handled:
        swap.closed_ab = True
        rewired = self._layers.rewire(swap_tables.new_at_b(self._layers.router, swap, self._part.state.side_b))
        closing: list[Effect] = [
            Send(swap.c, Close(swap.operation)),
            Send(swap.a, Close(swap.operation)),
            LinkDown(swap.a),
        ]
        return Handled([*closing, *self._part.enter(Phase.ADOPTED), *rewired], released=[swap.c])

    # Giving up -----------------------------------------------------------------------------------------------

    def _abort(self, swap: Swapping, sender: Node) -> Handled:
        if swap.role is Role.A and sender == swap.b:
            noted, resumed = self._part.enter(Phase.ABORTING), self._part.resume([swap.b])
            reason = died(swap) or f"{swap.a} was silent for {LEASE_SECONDS:g} s, and {swap.b} gave up"
            undone = self._part.undone(swap, reason, is_busy=False)
            return undone._replace(effects=[*noted, *resumed, *undone.effects])
        answer = Send(sender, Aborted(swap.operation))
        return join(Handled([answer]), self._part.undo(swap)) if swap.role is not Role.A else self._part.undo(swap)

    # Deaths --------------------------------------------------------------------------------------------------

    def bereaved(self, peer: Node) -> Handled:
        """The peer is dead for good, and nothing more comes from it."""
        swap = self._part.state.swap
        if swap is None or peer not in swap.others:
            return NOTHING
        swap.dead = sorted({*swap.dead, peer})
        handled = self._spared(swap, self._face_death(swap))
        self._part.end_if_over()
        return handled

    def reborn(self, peer: Node) -> Handled:
        """As if it had died: it says nothing more of the swap, and what it had sent and is not here yet is void.

        b, which both others have for a neighbour, always hears of it, and tells the third if that one decides.
        """
        swap = self._part.state.swap
        if swap is None or (swap.role is Role.A and swap.phase is Phase.LOCKED and peer == swap.c):
            return NOTHING  # a cannot know whether b has asked c before or after
        outlived = self.bereaved(peer)
        if swap.role is not Role.B or peer not in swap.dead or fate(swap) is not Fate.WAIT:
            return outlived
        third = swap.c if peer == swap.a else swap.a
        return join(outlived, Handled([Send(third, Forgot(swap.operation, peer))]))

    def is_open(self, peer: Node) -> bool:
        swap = self._part.state.swap
        return swap is not None and peer in swap.others and swap.is_flooding

    def between(self, peer: Node) -> Between:
        """Once the swap is completed, c is between a and b. Once it is undone, b is between a and c, as ever."""
        swap = self._part.state.swap
        if swap is None:
            return Between()
        match swap.role, peer:
            case (Role.A, swap.b) | (Role.B, swap.a):
                return Between(swap.c)
            case (Role.A, swap.c) | (Role.C, swap.a):
                return Between(swap.b, had_all=True)
        return Between()

    def _face_death(self, swap: Swapping) -> Handled:
        if not swap.dead:
            return NOTHING
        match fate(swap):
            case Fate.WAIT:
                return NOTHING
            case Fate.UNDO:
                told = Handled([Send(swap.a, Abort(swap.operation))] if swap.role is Role.C else [])
                return join(told, self._part.undo(swap))
            case Fate.GIVE_UP:
                given_up = self._part.give_up()
                is_over = swap.c in swap.dead and self._part.state.swap is not None
                return join(given_up, self._part.aborted(swap)) if is_over else given_up
            case Fate.ASK:
                return Handled([Send(swap.b, Abort(swap.operation))])
            case Fate.COMPLETE:
                return self._complete(swap)
            case Fate.END:
                return self._part.aborted(swap)

    def _complete(self, swap: Swapping) -> Handled:
        """As if the dead had closed its paths, and sent straight what came as a copy."""
        if swap.c in swap.dead:
            swap.owed.clear()
        match swap.role:
            case Role.A if swap.b in swap.dead and not swap.closed_ba:
                return self._closed_at_a(swap)
            case Role.C:
                swap.closed_ba = swap.closed_ba or swap.a in swap.dead
                swap.closed_ab = swap.closed_ab or swap.b in swap.dead
                noted = self._part.enter(Phase.ADOPTED) if swap.closed_ab else []
                return Handled([*noted, *([] if swap.closed_ab else [Send(swap.b, Close(swap.operation))])])
        return NOTHING

    def _spared(self, swap: Swapping | None, handled: Handled) -> Handled:
        """Nothing is sent to the dead. What waited for the outcome goes on once it is there."""
        if swap is None or not swap.dead:
            return handled
        effects = [each for each in handled.effects if not (isinstance(each, Send) and each.to in swap.dead)]
        if swap is self._part.state.swap and swap.is_flooding:
            return handled._replace(effects=effects)
        waiting, swap.waiting = sorted(swap.waiting), {}
        effects += self._layers.on_settled()
        return handled._replace(effects=effects, released=[*handled.released, *waiting])

    # Parts ---------------------------------------------------------------------------------------------------

    def _unexpected(self, sender: Node, message: Message) -> Handled:
        raise ProtocolError(self._layers.name, sender, message, "it does not fit the state of the swap here")


def _refused(operation: str, reason: str) -> Handled:
    return Handled([Concluded(operation, reason)])
