"""The machine of exchanges of one link for another: what all protocols share (S1 Algorithm 2).

    u ── lock ──▶ … x ──▶ y … ──▶ v         each broker of the cycle, unless it is locked already, takes part
    └◀──────────── lock ──────────┘         over the new link: all are locked, u begins

A broker that cannot take part refuses, which unwinds to u; busy ones are asked again later. What a broker does between
lock and end is its *part* (contract.py); `lock` says of which protocol. The lock protects the tree: exchanges that were
planned apart, and whose cycles overlap, would leave no tree (S1 §4.2). It orders no subscription and no event.

Rule 1: a message of an exchange that this broker does not know is dropped: the exchange has ended here, or this broker
        has lost its memory of it. failures.py says how such an exchange ends.
Rule 2: a message of the exchange under way is refused with ProtocolError where its sender is not adjacent on the cycle,
        and where the table of the protocol, or the phase below, does not have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, get_args

import msgspec

from pleach.core.effects import Concluded, Effect, LinkDown, LinkUp, Send
from pleach.core.messages import (
    CycleAbandoned,
    CycleEnded,
    CycleForgotten,
    CycleRefused,
    ExchangeMessage,
    Flush,
    LockCycle,
    Message,
    Node,
    RequestExchange,
    pack,
    unpack,
)
from pleach.core.overlay.abandonment import ABANDONED, OpenOperation
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.exchange.contract import NOTHING, PART, ExchangePart, PartMaker, note
from pleach.core.overlay.exchange.cycle import Cycle
from pleach.core.overlay.exchange.failures import KEPT_MAX, ExchangeFate, Kept, OldLink, PeerResets, fate
from pleach.core.overlay.retries import PutOff, Retries
from pleach.core.overlay.seam import Reaction, Reconfiguration, join
from pleach.errors import ProtocolError

RETRY: Final = "exchange:retry:"


class ExchangePhase(StrEnum):
    """The phase of a broker that takes part."""

    LOCKED = "locked"  # other brokers may still refuse; at u no message of the protocol is legal
    BEGUN = "begun"  # all are locked: the protocol is under way, and no lock or refusal is legal


class ExchangeState(msgspec.Struct):
    cycle: Cycle | None = None
    phase: ExchangePhase = ExchangePhase.LOCKED
    part: bytes = b""
    attempts: int = 0
    is_patient: bool = True  # at u: as the request is
    asked_at: float = 0.0
    flushed: dict[str, None] = {}  # flushes of other exchanges that passed while this one is under way
    address: str = ""  # u's
    reset_broker: Node = ""  # at an end of r: the broker that has lost its memory, so that others ask how this ends
    kept: dict[str, Kept] = {}  # exchanges that this broker takes no part in, by operation
    retries: Retries = msgspec.field(default_factory=lambda: Retries(RETRY))


class ExchangeMachine:
    name = "exchange"
    accepts = frozenset(get_args(ExchangeMessage))

    def __init__(self, context: BrokerContext, *, ordering: str, parts: Mapping[str, PartMaker]) -> None:
        self._context = context
        self._ordering = ordering
        self._parts = dict(parts)
        self._resets = PeerResets(context)
        self._state = ExchangeState()
        self._part: ExchangePart | None = None
        context.on_peer_reset(self.peer_reset)
        context.abandonable += [self, PutOff(lambda: self._state.retries)]

    @property
    def under_way(self) -> Reconfiguration | None:
        return None if self._part is None else self._part.seam

    @property
    def operation(self) -> str:
        return "" if self._part is None else self._part.cycle.operation

    @property
    def open_operations(self) -> list[OpenOperation]:
        return [] if self._part is None else [self._opened(self._part.cycle)]

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:
        match message:
            case RequestExchange():
                return self._requested(message, attempts=0, now=now)
            case LockCycle() if not Cycle.of(message).is_next(sender, self._context.name):
                raise ProtocolError(self._context.name, sender, message, "it does not come along a cycle of brokers")
            case LockCycle(path=path) if path[0] != self._context.name:
                return self._lock(sender, message)
            case Flush(operation) if operation != self.operation:
                return self._pass_flush(sender, message)
            case CycleForgotten() | CycleEnded():
                return self._after_a_reset(sender, message)
        part = self._part
        if part is None or message.operation != part.cycle.operation:  # type: ignore[attr-defined]
            return NOTHING
        self._check_place(part.cycle, sender, message)
        if isinstance(message, LockCycle):  # it came back over a: all are locked
            return self._begin(now)
        if isinstance(message, CycleRefused):
            return self._refused(part.cycle, message)
        if isinstance(message, CycleAbandoned):
            return self._abandoned(part.cycle)
        handled = part.handle(sender, message)
        self._state.phase = ExchangePhase.BEGUN
        return self._ended_if_over(part, handled)

    def _check_place(self, cycle: Cycle, sender: Node, message: Message) -> None:
        """Rule 2, but for the table of the protocol."""
        name = self._context.name
        if not cycle.are_beside(name, sender):
            raise ProtocolError(name, sender, message, "the sender is not beside this broker on the cycle")
        if isinstance(message, CycleAbandoned) and not (cycle.is_next(sender, name) and name != cycle.u):
            raise ProtocolError(name, sender, message, "only the broker that asked for the lock gives it up")
        if not isinstance(message, LockCycle | CycleRefused | CycleAbandoned):
            if name == cycle.u and self._state.phase is ExchangePhase.LOCKED:
                raise ProtocolError(name, sender, message, "the exchange has not begun: not all are locked")
            return
        if self._state.phase is ExchangePhase.BEGUN:
            raise ProtocolError(name, sender, message, "the exchange has begun: all are locked")
        if isinstance(message, CycleRefused) and not cycle.is_next(name, sender):
            raise ProtocolError(name, sender, message, "only a broker that was asked for a lock refuses it")

    def handle_timer(self, name: str, *, now: float) -> Reaction:
        if name == PART:
            return NOTHING if self._part is None else self._ended_if_over(self._part, self._part.due())
        waiting = self._state.retries.take(name)
        if waiting is None or not isinstance(waiting.request, RequestExchange):
            return NOTHING
        return self._requested(waiting.request, attempts=waiting.attempts, now=now)

    def resume(self) -> Sequence[Effect]:
        timers = self._state.retries.timers()
        return timers if self._part is None else [*timers, *self._part.resume()]

    def capture(self) -> bytes:
        self._state.part = b"" if self._part is None else self._part.capture()
        return pack(self._state)

    def restore(self, state: bytes) -> None:
        self._state = unpack(state, ExchangeState)
        self._part = None
        if self._state.cycle is not None:
            self._part = self._make_part(self._state.cycle)
            self._part.restore(self._state.part)

    # Lock ----------------------------------------------------------------------------------------------------

    def _requested(self, request: RequestExchange, *, attempts: int, now: float) -> Reaction:
        """At u. Requests that were made elsewhere come by way of remote_requests.py."""
        cycle = Cycle.of(request)
        if reason := cycle.why_not() or self._why_not_here(cycle):
            return Reaction([Concluded(request.operation, reason)])
        if busy := self._context.locked_for():
            reason = f"{cycle.u} is locked for operation {busy}"
            return Reaction(self._state.retries.put_off(request, attempts, reason))
        self._state.attempts, self._state.asked_at, self._state.is_patient = attempts, now, request.is_patient
        lock = LockCycle(request.operation, request.path, request.cut, request.protocol, self._context.address)
        return Reaction([*self._take_part(cycle, lock.address), LinkUp(cycle.v), Send(request.path[1], lock)])

    def _why_not_here(self, cycle: Cycle) -> str:
        """At u: why the exchange is not possible; empty where it is."""
        router = self._context.router
        if reason := self._why_no_part(cycle):
            return reason
        if router.config.hierarchical:
            return "the protocols of S1 §4.4 are not made for hierarchical routing: use swaplink"
        if cycle.path[1] not in router.neighbours:
            return f"{cycle.u} and {cycle.path[1]} are not linked"
        if cycle.v in router.neighbours:
            return f"{cycle.u} and {cycle.v} are linked already"
        return ""

    def _why_no_part(self, cycle: Cycle) -> str:
        known = ", ".join(self._parts)
        return "" if cycle.protocol in self._parts else f"{self._context.name} knows no {cycle.protocol!r}, but {known}"

    def _why_not_linked(self, cycle: Cycle, sender: Node) -> str:
        """Behind u: why this broker cannot be on the cycle; empty where it can."""
        name, neighbours = self._context.name, self._context.router.neighbours
        if cycle.v == name and cycle.u in neighbours:
            return f"{cycle.u} and {name} are linked already"
        beside = [sender, *cycle.path[cycle.path.index(name) + 1 :][:1]]
        missing = next((each for each in beside if each not in neighbours), None)
        return "" if missing is None else f"{name} and {missing} are not linked"

    def _lock(self, sender: Node, lock: LockCycle) -> Reaction:
        cycle = Cycle.of(lock)
        if lock.operation == self.operation:
            raise ProtocolError(self._context.name, sender, lock, "this broker is locked for it already")
        if reason := self._why_no_part(cycle) or self._why_not_linked(cycle, sender):
            return Reaction([Send(sender, CycleRefused(lock.operation, reason))])
        if busy := self._context.locked_for():
            reason = f"{self._context.name} is locked for operation {busy}"
            return Reaction([Send(sender, CycleRefused(lock.operation, reason, is_busy=True))])
        if cycle.v == self._context.name:
            self._context.addresses[cycle.u] = lock.address
            taken = self._take_part(cycle, lock.address)
            return Reaction([*taken, LinkUp(cycle.u, lock.address), Send(cycle.u, lock)])
        following = lock.path[lock.path.index(self._context.name) + 1]
        return Reaction([*self._take_part(cycle, lock.address), Send(following, lock)])

    def _begin(self, now: float) -> Reaction:
        assert self._part is not None
        self._state.phase = ExchangePhase.BEGUN
        lock_seconds = max(0.0, now - self._state.asked_at)  # clocks begin anew when a broker does
        return self._ended_if_over(self._part, self._part.begin(lock_seconds))

    def _take_part(self, cycle: Cycle, address: str) -> list[Effect]:
        self._state.cycle, self._state.address = cycle, address
        self._part = self._make_part(cycle)
        return [note(cycle, "locked")]

    def _make_part(self, cycle: Cycle) -> ExchangePart:
        return self._parts[cycle.protocol](self._context, cycle, self._ordering)

    def _refused(self, cycle: Cycle, message: CycleRefused) -> Reaction:
        if self._context.name != cycle.u:
            self._end()
            before = cycle.path[cycle.path.index(self._context.name) - 1]
            return Reaction([Send(before, message)])
        patient = self._state.is_patient
        request = RequestExchange(cycle.operation, cycle.path, cycle.cut, cycle.protocol, patient)
        outcome: list[Effect] = [Concluded(cycle.operation, message.reason)]
        if message.is_busy:
            outcome = self._state.retries.put_off(request, self._state.attempts, message.reason)
        return self._undone_at_u(cycle, outcome)

    def _undone_at_u(self, cycle: Cycle, outcome: Sequence[Effect]) -> Reaction:
        self._end()
        if cycle.v in self._context.router.neighbours:  # it has joined here meanwhile
            return Reaction(outcome, released=[cycle.v])
        return Reaction([LinkDown(cycle.v), *outcome], discarded=[cycle.v])

    # Abandoned by an operator (abandonment.py) ---------------------------------------------------------------

    def _opened(self, cycle: Cycle) -> OpenOperation:
        name, is_locking = self._context.name, self._state.phase is ExchangePhase.LOCKED
        beside = {*cycle.along(name), cycle.across_new(name)} - {None}
        waits_for = (cycle.after(name),) if is_locking else tuple(sorted(each for each in beside if each))
        why_not = "" if name == cycle.u else f"that is for {cycle.u} to decide, where it began: abandon it there"
        if not is_locking:
            why_not = f"all of its brokers are locked, and it only goes forward: it waits for {', '.join(waits_for)}"
        return OpenOperation(cycle.operation, f"exchange {self._state.phase}", waits_for, why_not)

    def abandon(self, operation: str) -> Reaction:
        """At u, before it has heard that all are locked. What v then sends to say so finds nothing under way."""
        assert self._part is not None, "it is listed"
        cycle = self._part.cycle
        following = Send(cycle.path[1], CycleAbandoned(operation))
        undone = self._undone_at_u(cycle, [Concluded(operation, ABANDONED)])
        return undone._replace(effects=[following, *undone.effects])

    def _abandoned(self, cycle: Cycle) -> Reaction:
        """Behind u: whoever has been locked for it is free, up to v, which has opened the new link."""
        self._end()
        if self._context.name != cycle.v:
            return Reaction([Send(cycle.after(self._context.name), CycleAbandoned(cycle.operation))])
        if cycle.u in self._context.router.neighbours:  # it has joined here meanwhile
            return Reaction(released=[cycle.u])
        return Reaction([LinkDown(cycle.u)], discarded=[cycle.u])

    # The end -------------------------------------------------------------------------------------------------

    def _ended_if_over(self, part: ExchangePart, handled: Reaction) -> Reaction:
        if self._state.reset_broker and part.old_link is OldLink.GONE:
            return join(
                handled, self._concluded(self._context.name, self._end_of(part.cycle, self._state.reset_broker))
            )
        if not part.is_over:
            return handled
        self._keep(part.cycle.operation, Kept(self._end_of(part.cycle)))
        self._end()
        end: list[Effect] = [note(part.cycle, "done", is_done=True)]
        if self._context.name == part.cycle.u:
            end.append(Concluded(part.cycle.operation))
        return Reaction([*handled.effects, *end], handled.released, handled.discarded)

    def _end(self) -> None:
        self._state.cycle, self._state.phase = None, ExchangePhase.LOCKED
        self._state.flushed = {}
        self._state.reset_broker = ""
        self._part = None

    def _pass_flush(self, sender: Node, message: Flush) -> Reaction:
        """Pass on the flush of an exchange elsewhere. While a cycle is closed here, it passes once."""
        key = f"{message.operation}/{message.origin}"
        if key in self._state.flushed:
            return NOTHING
        if self._part is not None:
            self._state.flushed[key] = None
        return Reaction([Send(to, message) for to in self._context.router.neighbours if to != sender])

    # Brokers that lose their memory (failures.py) ------------------------------------------------------------

    def peer_reset(self, peer: Node) -> Reaction:
        name, part, kept = self._context.name, self._part, self._state.kept.values()
        if part is not None and part.cycle.are_beside(name, peer):
            cycle = part.cycle
            lost = CycleForgotten(cycle.operation, cycle.path, cycle.cut, cycle.protocol, self._state.address, peer)
            return self._asked(name, lost, cycle)
        asked = [(each.asked, Cycle.of(each.asked)) for each in kept if each.asked is not None]
        again = [self._asked(name, *each) for each in asked if each[1].are_beside(name, peer)]
        return join(Reaction(self._resets.remind(peer, [each.end for each in kept if each.end is not None])), *again)

    def _after_a_reset(self, sender: Node, message: CycleForgotten | CycleEnded) -> Reaction:
        cycle = Cycle.of(message)
        if cycle.why_not() or not cycle.are_beside(self._context.name, sender):
            raise ProtocolError(self._context.name, sender, message, "it does not come along a cycle of brokers")
        if isinstance(message, CycleForgotten):
            return self._asked(sender, message, cycle)
        if self.operation == cycle.operation:
            return self._concluded(sender, message)
        kept = self._state.kept.get(cycle.operation, Kept())
        if not (message.is_done and kept.is_undone):
            self._keep(cycle.operation, Kept(message, is_confirming=self._resets.must_confirm(sender, message)))
        return self._resets.hear(sender, message, kept)

    def _asked(self, sender: Node, message: CycleForgotten, cycle: Cycle) -> Reaction:
        name, old = self._context.name, self._old_link(cycle)
        far, following = cycle.across_old(name), cycle.towards_old(name)
        if far is None:
            return self._pass_question(following or "", message)
        is_in, is_far_blank = self.operation == cycle.operation, message.is_blank or message.broker == far
        decision = fate(old, is_over_old=sender == far, is_far_blank=is_far_blank)
        if decision is ExchangeFate.ASK and not is_in and far not in self._context.router.neighbours:
            decision = ExchangeFate.UNDONE
        if decision in (ExchangeFate.DONE, ExchangeFate.UNDONE):
            return self._decided(sender, message, is_done=decision is ExchangeFate.DONE)
        self._state.reset_broker = message.broker if is_in else ""
        if decision is ExchangeFate.WAIT:
            return NOTHING
        return self._pass_question(far, msgspec.structs.replace(message, is_blank=not is_in))

    def _pass_question(self, following: Node, message: CycleForgotten) -> Reaction:
        """A broker that takes part is told when the next one loses its memory; others keep the question."""
        if self.operation != message.operation:
            known = self._state.kept.get(message.operation, Kept())
            self._keep(message.operation, msgspec.structs.replace(known, asked=message))
            if following not in self._context.router.neighbours:
                return NOTHING
        return Reaction([Send(following, message)])

    def _old_link(self, cycle: Cycle) -> OldLink:
        if self._part is not None and self.operation == cycle.operation:
            return self._part.old_link
        end = self._state.kept.get(cycle.operation, Kept()).end
        if end is None:
            return OldLink.UNKNOWN
        return OldLink.GONE if end.is_done else OldLink.THERE

    def _decided(self, asker: Node, asked: CycleForgotten, *, is_done: bool) -> Reaction:
        """At an end of r."""
        cycle = Cycle.of(asked)
        end = CycleEnded(
            cycle.operation, cycle.path, cycle.cut, cycle.protocol, asked.address, asked.broker, is_done=is_done
        )
        if self.operation == cycle.operation:
            return self._concluded(self._context.name, end)
        known = self._state.kept.get(cycle.operation, Kept())
        self._keep(cycle.operation, msgspec.structs.replace(known, end=end))
        return self._resets.answer(asker, end)

    def _concluded(self, sender: Node, message: CycleEnded) -> Reaction:
        is_new_open = self._context.name == message.path[-1] or self._state.phase is ExchangePhase.BEGUN
        handled = self._resets.conclude(sender, message, is_new_open=is_new_open)
        self._keep(message.operation, Kept(message))
        self._end()
        cycle = Cycle.of(message)
        refusal = "" if message.is_done else f"{message.broker} has lost its memory meanwhile; ask again"
        end: list[Effect] = [note(cycle, refusal or "done", is_done=not refusal)]
        if self._context.name == cycle.u:
            end.append(Concluded(cycle.operation, refusal))
        return handled._replace(effects=[*handled.effects, *end])

    def _end_of(self, cycle: Cycle, reset_broker: Node = "") -> CycleEnded:
        """The message that the exchange under way here is done."""
        address = self._state.address
        return CycleEnded(cycle.operation, cycle.path, cycle.cut, cycle.protocol, address, reset_broker, is_done=True)

    def _keep(self, operation: str, what: Kept) -> None:
        kept = self._state.kept
        kept[operation] = what
        if len(kept) > KEPT_MAX:
            del kept[next(iter(kept))]
