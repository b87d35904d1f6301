"""Leases, or tables that are rebuilt in turn (core/stabilise/), in a broker process: who is away, and what is counted.

    connected   renews its entries every ρ; an entry expires after a full renewal round without it
    away        a client between two connections, a neighbour that restarts: no round comes, and nothing of it expires
    forgotten   a client that was away for too long (absence.py): its session ends, and with it all of its entries

Rule 1: links alone decide who is away. The machine keeps what it was told; where the two differ it is told again, so
        that a fault in its state is corrected with the next tick.
Rule 2: what the machine is told is in the journal, so that a replay does the same.

Without faults, nothing expires but what peers have stopped renewing without saying so, and no renewal restores
anything. A broker whose state was damaged restores what it had lost within ρ, and drops what it should not have within
2π: both counters rise, and stop when the state is right again. Where tables are rebuilt, rounds rise by one every π and
find nothing wrong. Where rounds stop and musters rise, somebody is waited for (`away` in /status); or two brokers take
themselves for the root (`two_roots` in /status, and in the log of a broker between them).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

from pleach.core.broker import Broker
from pleach.core.effects import Effect, Send
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import Frame, Hello
from pleach.core.links.session import SessionPhase
from pleach.core.messages import Advertise, Install, Layer, Message, Muster, Node, Presence, Subscribe, Switch
from pleach.core.routing.clients import owner
from pleach.core.routing.entries import Entry
from pleach.core.routing.renewal_relay import UNANSWERED
from pleach.core.stabilise.leases import Leases
from pleach.core.stabilise.paced import PacedRebuild, Rivals
from pleach.server.feature import Feature
from pleach.server.metrics import Counters, MetricSample
from pleach.server.stabilise_settings import LeaseSettings, mends_within

LEADS_TO_RENEWALS: frozenset[type] = frozenset((Presence, Switch, Muster))
COUNTED = ("rounds", "missing", "extra", "vouched", "musters")  # of PacedRebuild, and with `rebuild_` of the counters

log = logging.getLogger(__name__)


class Stabilising(Feature):
    frames: ClassVar[tuple[type[Frame], ...]] = (Hello,)

    def __init__(
        self,
        broker: Broker,
        endpoint: Endpoint,
        machine: Leases | PacedRebuild,
        settings: LeaseSettings,
        counters: Counters,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._broker = broker
        self._endpoint = endpoint
        self._machine = machine
        self._settings = settings
        self._leases = counters.leases
        self._rebuilds = counters.rebuilds
        self._lapsed_before = machine.lapsed
        rebuilt = machine.counters if isinstance(machine, PacedRebuild) else None
        self._before = {key: getattr(rebuilt, key) for key in COUNTED} if rebuilt else {}  # done by the replay
        self._rivals: Rivals | None = None
        self._clock = clock
        self._without: dict[Node, None] = {}  # neighbours

    @property
    def away(self) -> Collection[Node]:
        """As the machine knows it."""
        return self._machine.away

    def tick(self, now: float) -> None:
        known, away = {*self._machine.away}, self._away()
        if known != away:
            self._endpoint.request(Presence(sorted(away - known), sorted(known - away)), now=now)

    def _away(self) -> set[Node]:
        sessions = self._endpoint.sessions
        known = (*self._broker.router.neighbours, *self._broker.sessions.clients)
        linked = (peer for peer in known if peer not in self._broker.hosting.here)
        return {peer for peer in linked if peer not in sessions or sessions[peer].phase is not SessionPhase.UP}

    # What is counted -----------------------------------------------------------------------------------------

    def message_received(self, sender: Node, message: Message) -> None:
        renewed = renewal(sender, message)
        if renewed is not None:
            self._leases.renewals_received += 1
            self._leases.lease_restored += not self._broker.router.has(renewed[0], sender, renewed[1])

    def message_handled(self, sender: Node, message: Message, effects: Sequence[Effect], now: float) -> None:
        if message.__class__ in LEADS_TO_RENEWALS:
            self.timer_handled(effects, now)

    def timer_handled(self, effects: Sequence[Effect], now: float) -> None:
        self._leases.renewals_sent += sum(
            isinstance(effect, Send) and _is_renewal(effect.message) for effect in effects
        )
        self._leases.lease_expired = self._machine.lapsed - self._lapsed_before
        if isinstance(self._machine, PacedRebuild):
            for key, before in self._before.items():
                setattr(self._rebuilds, f"rebuild_{key}", getattr(self._machine.counters, key) - before)
            self._warn(self._machine.rivals)

    def _warn(self, rivals: Rivals | None) -> None:
        """Once for each pair of roots."""
        if rivals is not None and rivals != self._rivals:
            log.warning("%s", rivals)
        self._rivals = rivals

    def frame_received(self, peer: Node, frame: Frame, now: float) -> None:
        """A Hello of a neighbour says whether it has the same (door/agreement.py)."""
        assert isinstance(frame, Hello)
        kind = dict(frame.terms.settings).get("stabilise", self._settings.kind)
        if kind == self._settings.kind:
            self._without.pop(peer, None)
        elif peer not in self._without:
            log.warning("%s has no %s: what is damaged between it and here does not mend", peer, self._settings.kind)
            self._without[peer] = None

    # What operators see --------------------------------------------------------------------------------------

    def status(self) -> dict[str, object]:
        settings, rivals = self._settings, getattr(self._machine, "rivals", None)
        return {
            "leases": {
                "kind": settings.kind,
                "refresh": settings.refresh,
                "period": settings.period,
                "mends_within": mends_within(settings, self._broker.router.config),
                "away": sorted(self.away),
                "without": sorted({*self._without} & {*self._broker.router.neighbours}),
                "last_round_seconds_ago": self._seconds_since_round(),
                "two_roots": "" if rivals is None else str(rivals),
            }
        }

    def gauges(self) -> dict[str, Sequence[MetricSample]]:
        ago = self._seconds_since_round()
        return {
            "pleach_lease_away": [MetricSample(len(self.away))],
            "pleach_rebuild_last_round_seconds": [] if ago is None else [MetricSample(ago)],
        }

    def _seconds_since_round(self) -> float | None:
        """None where there has been no round, or nothing is rebuilt."""
        if not isinstance(self._machine, PacedRebuild) or self._machine.counters.last_round_at is None:
            return None
        return max(self._clock() - self._machine.counters.last_round_at, 0.0)


def _is_renewal(message: Message) -> bool:
    return isinstance(message, Install) and message.number == UNANSWERED


def renewal(sender: Node, message: Message) -> tuple[Layer, Entry] | None:
    """The entry that a message renews, if it does."""
    match message:
        case Install(layer, number, told_owner, wanted) if number == UNANSWERED:
            return layer, Entry(told_owner, wanted)
        case Subscribe(name, wanted, renews=True):
            return Layer.SUBSCRIPTIONS, Entry(owner(sender, name), wanted)
        case Advertise(name, wanted, renews=True):
            return Layer.ADVERTISEMENTS, Entry(owner(sender, name), wanted)
    return None
