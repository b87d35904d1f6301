"""Leases (S1 §3.3): what was not renewed goes, so that whatever a fault has left behind goes too.

    tick     every π    entries without their flag are taken away, and the other flags cleared: a second chance
    renewal  every ρ    the neighbours are told again what they should have, whatever they have

Rule 1: clients renew what they have at their own broker, every ρ. Nobody else is asked whether it is still wanted.
Rule 2: an entry that runs out is withdrawn like any other, installs first: what it hid comes back, and behind this
        broker nobody has to wait for another lease to run out.
Rule 3: clocks count modulo their period: a damaged one is late by one period at most.
Rule 4: nothing else is trusted that was restored: numbers out of range are put right, and who waits for such asks
        again.
Rule 5: nothing runs out for want of time alone, but of those of whom a whole round of renewals has come meanwhile
        (core/routing/renewal_rounds.py). Who is away, or slow, is waited for.
Rule 6: where links can be down (live/), a driver says whom it cannot reach (`Presence`): renewals that nobody can hear
        would only pile up. Who is back is told at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from pleach.core.effects import Effect, Observe, Observed, Send, SetTimer
from pleach.core.messages import OPERATOR, Attached, Message, Node, Presence, pack, unpack
from pleach.core.overlay.context import BrokerContext
from pleach.core.overlay.seam import Reaction, Reconfiguration
from pleach.core.stabilise.lease_settings import Lease
from pleach.core.timing import phase_of, within
from pleach.errors import ProtocolError

TICK: Final = "leases:tick"
RENEWAL: Final = "leases:renewal"


class LeasesState(msgspec.Struct, array_like=True):
    """When the timers are due, in seconds after they were set; and who is away."""

    tick_after: float
    renewal_after: float
    away: dict[Node, None] = {}  # sorted


class Leases:
    name = "leases"
    accepts: frozenset[type[Message]] = frozenset((Presence,))
    operation = ""  # it locks nobody

    def __init__(self, context: BrokerContext, lease: Lease, salt: str = "") -> None:
        """`salt`: what sets the clocks of one network apart from those of another with the same names."""
        self._context = context
        self._lease = lease
        self.lapsed = 0  # entries, so far
        place = f"{salt}/{context.name}"
        needs_one_clock = lease.needs_one_clock(context.router.config.policy)
        tick_after = lease.period if needs_one_clock else phase_of(f"{place}/tick", lease.period)
        self._state = LeasesState(tick_after, phase_of(f"{place}/renewal", lease.refresh))

    @property
    def under_way(self) -> Reconfiguration | None:
        return None

    @property
    def away(self) -> Collection[Node]:
        return self._state.away

    def handle(self, sender: Node, message: Message, *, now: float) -> Reaction:  # noqa: ARG002
        if sender != OPERATOR or not isinstance(message, Presence):
            raise ProtocolError(self._context.name, sender, message, "only its own driver tells a broker who is there")
        router, back = self._context.router, frozenset(message.back)
        away = ({*self._state.away} | {*message.away}) - back
        self._state.away = dict.fromkeys(sorted(away))
        clients = [client for client in self._context.sessions.clients if client in back]
        greetings = [Send(client, Attached(self._lease.refresh)) for client in clients]  # it may have changed
        return Reaction([*greetings, *self._context.answered(router.renew({*router.neighbours} - back))])

    def handle_timer(self, name: str, *, now: float) -> Reaction:  # noqa: ARG002
        return Reaction(self._tick() if name == TICK else self._renew())

    def _tick(self) -> list[Effect]:
        outcome, lapsed = self._context.router.lapse()
        self.lapsed += lapsed
        self._context.sessions.lapse()
        self._state.tick_after = self._lease.period
        seen = [Observe(Observed.STATE, detail=f"leases: {lapsed} ran out")] if lapsed else []
        return [*self._context.answered(outcome), *seen, self._tick_timer()]

    def _renew(self) -> list[Effect]:
        self._mend()
        self._state.renewal_after = self._lease.refresh
        return [*self._context.answered(self._context.router.renew(self._state.away)), self._renewal_timer()]

    def _mend(self) -> None:
        self._context.router.mend((*self._context.sessions.clients, *self._context.awaited))

    def _tick_timer(self) -> SetTimer:
        return SetTimer(TICK, within(self._state.tick_after, self._lease.period), is_upkeep=True)

    def _renewal_timer(self) -> SetTimer:
        return SetTimer(RENEWAL, within(self._state.renewal_after, self._lease.refresh), is_upkeep=True)

    # State ---------------------------------------------------------------------------------------------------

    def resume(self) -> Sequence[Effect]:
        return [self._tick_timer(), self._renewal_timer()]

    def capture(self) -> bytes:
        return pack(self._state)

    def restore(self, state: bytes) -> None:
        self._state = unpack(state, LeasesState)
        self._mend()
