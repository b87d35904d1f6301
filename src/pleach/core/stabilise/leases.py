"""Leases (S1 §3.3): an entry expires unless it is renewed, so that entries left behind by a fault expire too.

    tick     every π    entries without a flag are removed, and the flags of the others cleared: a second chance
    renewal  every ρ    the neighbours are sent again all entries that they should have

Rule 1: clients renew their subscriptions and advertisements at their own broker, every ρ.
Rule 2: an entry that expires is withdrawn like any other, installs first: entries that it covered are installed, and
        brokers behind this one need not wait for a lease of their own.
Rule 3: timers count modulo their period: a damaged one is late by one period at most.
Rule 4: restored state is not trusted: numbers out of range are corrected, and tickets that wait for them are dropped.
Rule 5: an entry expires only after its source completed a renewal round without it (core/routing/renewal_rounds.py).
        Entries of a source that is absent or slow stay.
Rule 6: a driver reports peers that it cannot reach (`Presence`): no renewals are queued for them. A peer that is back
        gets them at once.
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
    """Delays of the timers in seconds, and peers that cannot be reached."""

    tick_after: float
    renewal_after: float
    away: dict[Node, None] = {}  # sorted


class Leases:
    name = "leases"
    accepts: frozenset[type[Message]] = frozenset((Presence,))
    operation = ""  # no locks

    def __init__(self, context: BrokerContext, lease: Lease, salt: str = "") -> None:
        """`salt`: distinguishes the timer phases of networks whose brokers have the same names."""
        self._context = context
        self._lease = lease
        self.lapsed = 0  # entries expired so far
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
            raise ProtocolError(self._context.name, sender, message, "only the broker's own driver reports presence")
        router, back = self._context.router, frozenset(message.back)
        away = ({*self._state.away} | {*message.away}) - back
        self._state.away = dict.fromkeys(sorted(away))
        clients = [client for client in self._context.sessions.clients if client in back]
        greetings = [Send(client, Attached(self._lease.refresh)) for client in clients]  # the period may have changed
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
