"""A broker node without its sockets: the machine, its links, its disk, and what it bears of slow and hostile peers.

    connection ──▶ accept / receive ──▶ Endpoint(Gate(Broker)) ──▶ seal ──▶ commit ──▶ transmit ──▶ connection

Rule 1: at the end of each turn of the loop what happened is sealed into a part (committer.py). Without a disk it is
        transmitted at once; with one, after its commit, and what happens during a commit makes up the next one.
Rule 2: parts are also sealed before a link changes, so that no frame goes to a connection it was not made for.
Rule 3: a newer life of a peer displaces an older one, which is told; a ghost is told so and displaces nobody.
Rule 4: what waits for slow peers is bounded (pressure.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pleach.core.broker import Broker
from pleach.core.effects import Observed
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import Bye, ByeReason, Data, Frame, Hello
from pleach.core.links.session import SessionConfig, SessionPhase
from pleach.core.messages import HostingRequest, Node, OperatorRequest, Presence
from pleach.core.stabilise.leases import Leases
from pleach.core.stabilise.paced import PacedRebuild
from pleach.net.alarm import Alarm
from pleach.server.absence import Absence
from pleach.server.admission import Admission, Port
from pleach.server.bugs import watched
from pleach.server.committer import (
    JOURNAL_ENTRIES_MAX,
    Committed,
    Durable,
    SealedBatch,
    Wire,
    carry_out,
    shortage,
    write,
)
from pleach.server.gate import Gate
from pleach.server.healing.guardian import Guardian
from pleach.server.healing.neighbour_info import NeighbourReports
from pleach.server.healing.stand_in_host import StandInHost
from pleach.server.healing.witness import DeathWitness
from pleach.server.lease_metrics import LeaseMetrics
from pleach.server.leaving import Departure
from pleach.server.link import Link
from pleach.server.metrics import Counters
from pleach.server.operations import Operations
from pleach.server.peer_directory import PeerDirectory, first_broker
from pleach.server.presence import PeerPresence
from pleach.server.pressure import Pressure
from pleach.server.rebuild_metrics import RebuildMetrics
from pleach.server.settings import BrokerSettings
from pleach.server.store import Store

if TYPE_CHECKING:
    from pleach.server.council import Council
    from pleach.server.ring.member import RingMember

__all__ = ["BrokerNode", "Port"]

PART_BYTES_MAX = 262_144  # taken in: what is little fits sooner where space is short
FULL_RETRY_SECONDS = 0.25
EXIT_DISK, EXIT_FENCED = 70, 71

log = logging.getLogger(__name__)


class BrokerNode:
    def __init__(
        self,
        settings: BrokerSettings,
        store: Store | None,
        epoch: int,
        *,
        clock: Callable[[], float],
        on_fatal: Callable[[int, str], None],
    ) -> None:
        self.settings = settings
        self.counters = Counters()
        broker = first_broker(settings)
        self.gate = Gate(broker, self.counters)
        self.endpoint = Endpoint(self.gate, epoch, SessionConfig(heartbeat=settings.heartbeat))
        self.directory = PeerDirectory(broker, self.endpoint, lambda: self.settings)
        self.directory.is_open = lambda: self.ring is not None and self.ring.is_open
        self.on_directory_change: Callable[[], None] | None = None  # called when whom to dial may have changed
        self.ring: RingMember | None = None  # for a broker that is in one
        self.council: Council | None = None  # likewise
        self.links: dict[Node, Link] = {}
        self.pressure = Pressure(self)
        self.complaint = ""  # of what makes this broker unfit, besides links and disk
        self._wires: dict[Node, Wire] = {}  # never changed in place: parts keep it
        self._parts: list[SealedBatch] = []
        self._taken_bytes = 0  # since the last part was sealed
        self._store = store
        self._worker = ThreadPoolExecutor(1, "disk") if store else None
        self._commit: asyncio.Task[None] | None = None
        self._is_flush_due = False
        self._is_snapshot_due = False  # the journal does not tell how the state came about
        self._clock = clock
        self._on_fatal = on_fatal
        self._admission = Admission(self)
        self.operations = Operations(self._ask, lambda: (broker.seam.held_total, broker.seam.flooded_total))
        self._alarm = Alarm(self.endpoint, clock, self._touch)
        if store is not None:
            self._recover(store)
        else:
            self.endpoint.perform(self.gate.resume(now=clock()), now=clock())
            self.directory.take_place(clock())
        self.neighbour_reports = NeighbourReports(self)
        self.guardian = Guardian(self, StandInHost(lambda: self.settings))
        if settings.heal is not None:
            self.gate.witness = DeathWitness(self.endpoint, self.counters, store.sightings() if store else ())
        self.rebuild = broker.machine(PacedRebuild)
        if self.rebuild is not None:
            self.gate.healing = RebuildMetrics(broker, self.rebuild, self.counters)
        if (leases := broker.machine(Leases)) is not None:
            self.gate.healing = LeaseMetrics(broker, leases, self.counters)
        self.presence = PeerPresence(broker, self.endpoint)
        self.presence.look(clock())
        self.durable = Durable(self.endpoint)
        self.gate.names_max = settings.limits.subscriptions
        self.absence = Absence(self.endpoint, self.gate, self.directory, self.counters, now=clock())
        self.leaving = Departure(self.endpoint, self.gate, self.absence)

    @property
    def name(self) -> Node:
        return self.settings.name

    @property
    def broker(self) -> Broker:
        return self.gate.broker

    @property
    def now(self) -> float:
        return self._clock()

    @property
    def is_durable(self) -> bool:
        return self._store is not None

    def is_up(self, peer: Node) -> bool:
        """Connected; components are, as long as the broker runs."""
        session = self.endpoint.sessions.get(peer)
        return peer in self.broker.hosting.here or (session is not None and session.phase is SessionPhase.UP)

    def _recover(self, store: Store) -> None:
        """Take over what is on disk; a store that is empty gets what the settings say."""
        saved = store.load()
        self.endpoint.recover(saved, now=self._clock())
        if saved.state is not None:
            self.directory.report_settings_that_lose()
        else:
            self.directory.take_place(self._clock())
        batch = self.endpoint.take_batch()
        self.operations.recall(saved.journal, batch.concluded)
        self.directory.forget_clients()
        store.commit(batch, self.endpoint.capture())
        self.pressure.weigh(self.endpoint.sessions)

    # Connections ---------------------------------------------------------------------------------------------

    def accept(self, wire: Wire, hello: Hello, door: Port) -> str:
        """Take over a connection on which a peer said Hello; returns why not (the peer is told), or nothing."""
        peer = hello.node
        why, reason = self._admission.why_not(hello, door)
        if reason:
            wire.send(Bye(why, reason, address=self.neighbour_reports.address_of(hello.wants)))
            wire.close(reason)
            return reason
        session = self.endpoint.sessions.get(peer)
        if session is not None and hello.epoch > session.peer_epoch and peer in self.links:
            self.links[peer].wire.send(Bye(ByeReason.FENCED, f"a newer {peer} has come to {self.name}"))
        self.directory.came(hello, as_client=door is Port.CLIENTS)
        self.gate.note_door(peer, is_client=door is Port.CLIENTS)
        self._take_over(peer, wire, is_dialled=False)
        self.receive(peer, wire, hello)
        return ""

    def dialled(self, peer: Node, wire: Wire) -> None:
        """We have a connection to a neighbour."""
        if self.is_up(peer):  # it was quicker
            wire.close("connected the other way round")
            return
        self.directory.introduce(peer)
        self._take_over(peer, wire, is_dialled=True)

    def _take_over(self, peer: Node, wire: Wire, *, is_dialled: bool) -> None:
        old = self.links.get(peer)
        self._seal()
        self.links[peer] = Link(wire, is_dialled)
        self._wires = {**self._wires, peer: wire}
        self.absence.came(peer)
        if old is not None:
            self.endpoint.disconnected(peer)
            old.wire.close("a newer connection has taken its place")
        self.endpoint.connected(peer, now=self._clock())
        self._touch()

    def receive(self, peer: Node, wire: Wire, frame: Frame) -> None:
        if isinstance(frame, Data):
            self.receive_data(peer, wire, [frame])
        elif self._wires.get(peer) is wire:  # else: the rest of a connection that was replaced
            if isinstance(frame, Hello) and self.links[peer].is_dialled:
                self.directory.met(frame)
            if isinstance(frame, Bye):
                self.guardian.heard(peer, frame)
            self.endpoint.receive(peer, frame, now=self._clock())
            self._touch()

    def receive_data(self, peer: Node, wire: Wire, frames: Sequence[Data]) -> None:
        if self._wires.get(peer) is not wire:
            return
        self.endpoint.receive_data(peer, frames, now=self._clock())
        self._taken_bytes += sum(len(frame.payload) for frame in frames)
        if self._taken_bytes > PART_BYTES_MAX:
            self._seal()
        self._touch()

    def lost(self, peer: Node, wire: Wire) -> None:
        if self._wires.get(peer) is not wire:
            return
        self._seal()
        del self.links[peer]
        self._wires = {name: kept for name, kept in self._wires.items() if name != peer}
        self.endpoint.disconnected(peer)
        self.absence.left(peer, self._clock())
        self.directory.went(peer)
        self._touch()

    def tick(self) -> None:
        now = self._clock()
        self.pressure.tick(now)
        self.endpoint.tick(now=now)
        self.pressure.send_idle_away(now)
        self.presence.look(now)
        self.guardian.look(now)
        self.leaving.tick(self.settings.limits.leave_seconds, now)
        if self.absence.expire(self.settings.limits, now):
            self._seal()
        self._touch()

    def apply(self, settings: BrokerSettings) -> None:
        """Take over settings that have changed while the broker runs."""
        self.settings = settings
        self.gate.names_max = settings.limits.subscriptions
        self.endpoint.configure(SessionConfig(heartbeat=settings.heartbeat))
        self.pressure.relieve(self._clock())

    # Batches -------------------------------------------------------------------------------------------------

    def _touch(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._commit is not None:
            return  # it flushes again when it is done
        self._seal()
        while self._parts and not (self.is_durable and self._parts[0].batch.changes_disk):
            self._carry_out(self._parts.pop(0))
        if self._parts:
            self._start_commit()

    def _seal(self) -> None:
        """Nothing is left unsealed: a client that what happened was too much for is sent away, and that is sealed too.

        Whatever is captured now goes with the last part.
        """
        while self.pressure.evict(self._seal_part()):
            pass  # ends: nothing waits for who is sent away
        self.pressure.relieve(self._clock())
        self._alarm.set()

    def _seal_part(self) -> list[Node]:
        """Returns for whom there is more than before."""
        self._taken_bytes = 0
        batch = self.endpoint.take_batch()
        if self.gate.witness is not None:
            batch = batch._replace(sightings=self.gate.witness.news())
        self._parts.append(SealedBatch(batch, self._wires))
        for peer, reason in batch.fenced:
            self._fenced(peer, reason)
        grown = {queued.peer for queued in batch.queued}
        self.pressure.weigh(sorted(grown | batch.progress.keys() | {*batch.forgotten}))
        return sorted(grown)

    def _carry_out(self, part: SealedBatch) -> None:
        carry_out(part)
        batch = part.batch
        self.absence.sent_here((peer for peer, _ in batch.dial), self._clock())
        if batch.dial or batch.retired:
            self.directory.forget_clients()
        if (batch.dial or batch.retired) and self.on_directory_change is not None:
            self.on_directory_change()
        for seen in batch.observed:
            if not seen.client:
                self.operations.observe(seen)
            elif seen.kind is Observed.STATE:
                log.warning("%s", seen.detail)
            self.neighbour_reports.observe(seen)
        for end in batch.concluded:
            self.operations.conclude(end)

    def _fenced(self, peer: Node, reason: str) -> None:
        """Neighbours know which of two brokers is the ghost; from a client it is a joke in bad taste."""
        if self.directory.is_broker(peer):
            self._on_fatal(EXIT_FENCED, f"another {self.name} is at work: {reason}")
        else:
            self.endpoint.sessions[peer].phase = SessionPhase.DOWN

    def _start_commit(self) -> None:
        assert self._store is not None
        parts, relief = tuple(self._parts), self.durable.relief() if self.gate.closed else None
        entries = self._store.journal_length + sum(len(part.batch.journal) for part in parts)
        is_due = self._is_snapshot_due or entries > JOURNAL_ENTRIES_MAX
        state, self._is_snapshot_due = self.endpoint.capture() if is_due else None, False
        work = asyncio.get_running_loop().run_in_executor(self._worker, write, self._store, relief, parts, state)
        self._commit = watched(self._await_commit(work, snapshot=state is not None))

    async def _await_commit(self, work: asyncio.Future[Committed], *, snapshot: bool) -> None:
        try:
            done = await work
        except Exception as error:  # noqa: BLE001 - StoreBrokenError or worse: nothing is safe from here on
            self._on_fatal(EXIT_DISK, f"the data directory has failed: {error}")
            return
        self.counters.commits += 1
        self.counters.commit_seconds += done.seconds
        self.counters.snapshots += snapshot and not done.full
        for part in self._parts[: done.parts]:
            self.durable.note(part.batch)
            self._carry_out(part)
        del self._parts[: done.parts]
        self._note_space(shortage(done, self.settings.limits.data_bytes, is_short=bool(self.gate.closed)))
        if done.full:
            self._is_snapshot_due |= snapshot
            self._seal()
            self._parts = self.durable.release(self._parts)
            await asyncio.sleep(FULL_RETRY_SECONDS)
        self._commit = None
        self._flush()

    def _note_space(self, short: str) -> None:
        if short and not self.gate.closed:
            log.error("publishes are refused from here on: %s", short)
        if self.gate.closed and not short:
            log.warning("there is space again: publishes are taken")
        self.gate.closed = f"{self.name} is short of space: {short}" if short else ""

    # Operations and timers -----------------------------------------------------------------------------------

    def _ask(self, request: OperatorRequest | HostingRequest) -> None:
        self.endpoint.request(request, now=self._clock())
        self._touch()

    def strike(self, state: bytes, *, with_clocks: bool) -> None:
        """Go on with this state, as after a fault. `with_clocks`: timers are due when it says."""
        self._seal()
        self.gate.restore(state)
        self.endpoint.request(Presence([], []), now=self._clock())  # says nothing, but is committed, and the state too
        if with_clocks:
            self.endpoint.perform(self.gate.resume(now=self._clock()), now=self._clock())
        self._is_snapshot_due = True
        self._touch()

    def expel(self, peer: Node, reason: str) -> None:
        """End what there is with a peer that cannot be waited for; if it comes back it is told."""
        self.endpoint.expel(peer, reason, now=self._clock())
        if peer not in self.links:
            self.absence.left(peer, self._clock())
        self._touch()

    def confirm(self, peer: Node, upto: int) -> None:
        """A reader of a peer's session has taken all up to a number."""
        self.endpoint.confirm(peer, upto)
        self._touch()

    # The end -------------------------------------------------------------------------------------------------

    async def leave(self, reason: str) -> None:
        """Say goodbye on all links, once everything before is on disk. Bound the time with `asyncio.timeout`."""
        self._alarm.end()
        self.endpoint.leave(reason)
        self._flush()
        while self._commit is not None and not self._commit.done():
            await asyncio.wait([self._commit])

    def close(self) -> None:
        if self._worker is not None:
            self._worker.shutdown(wait=True)
        if self._store is not None:
            self._store.close()
