"""A broker node without its sockets: the machine, its links, its disk, and the features around them.

    connection ──▶ accept, receive ──▶ Endpoint(Gate(Broker)) ──▶ Committer ──▶ connection

Rule 1: what happens in one turn of the loop is one batch, which is committed before it is transmitted (storage/).
Rule 2: a connection of a newer epoch of a client, or of a newer view of a broker, replaces an older one, which is told;
        that of a newer epoch of a broker does so only once the older one is gone (door/admission.py). A connection of
        an older epoch or view is told that it is fenced.
Rule 3: to be fenced ends this process only where it is proven: a neighbour says so that this broker has dialled, and
        to which the newer one is connected. Whoever comes in by the port for peers may only claim to be a neighbour.
        That its own memory is an old copy is proven by a Hello that knows its epoch, as only those do that it has met.
Rule 4: a broker that has standbys is not ended by a newer view: the members of its views know whether there is one.
Rule 5: a broker in memory takes its epoch from the clock. Where a neighbour that it has not met yet knows a later one,
        the clock was put back: it takes an epoch above that. What it has met goes on in the epoch that it had.
Rule 6: nor is a broker that has standbys outdated before its copies have confirmed that it leads: what a neighbour
        knows more may come from another machine, which was promoted meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from pleach.core.links.batch import Batch
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import Aside, Bye, ByeReason, Data, Frame, Hello, Memory, Probe
from pleach.core.links.session import Session, SessionConfig
from pleach.core.messages import Node
from pleach.core.standby.views import ViewNumber
from pleach.errors import EXIT_OUTDATED, OutdatedStoreError
from pleach.server.assemble import features_of, first_broker
from pleach.server.dialling import Dial, Dials, DialThrough
from pleach.server.door.admission import Admission
from pleach.server.door.broker_names import BrokerNames
from pleach.server.door.gate import Gate
from pleach.server.door.reader_tokens import ReaderTokens
from pleach.server.door.refused_links import RefusedLinks
from pleach.server.feature import Feature
from pleach.server.links import LinkTable, PeerLink, Port, Wire
from pleach.server.metrics import Counters
from pleach.server.operations import Operations, Request
from pleach.server.parts import NodeParts
from pleach.server.peer_directory import PeerDirectory
from pleach.server.settings import BrokerSettings
from pleach.server.stabilising import Stabilising
from pleach.server.standby.primary_seat import PrimarySeat
from pleach.server.standby.replication import Replication
from pleach.server.storage.committer import CommitHooks, Committer
from pleach.server.storage.recovery import recover
from pleach.server.storage.store import Store

EXIT_DISK, EXIT_FENCED, EXIT_DEPOSED = 70, 71, 73
PUT_BACK_SECONDS_MAX = 366 * 86_400.0  # of a clock, as neighbours say; more is not believed
BESIDE_SESSIONS = (Probe, Aside)  # frames for features only

log = logging.getLogger(__name__)


class BrokerNode:
    def __init__(
        self,
        settings: BrokerSettings,
        store: Store | None,
        epoch: int,
        *,
        clock: Callable[[], float],
        on_end: Callable[[int, str], None],
        dial: Dial | None = None,
        dial_through: DialThrough | None = None,
        seat: PrimarySeat | None = None,
    ) -> None:
        """`on_end`: called with an exit code and the reason when the process must end. `dial`: connects to a peer;
        `dial_through`: with another broker between.

        `seat`: of a broker that has copies on other machines.
        """
        self.settings = settings
        self.counters = Counters()
        self.broker = broker = first_broker(settings)
        self.gate = Gate(broker, self.counters)
        self.endpoint = Endpoint(self.gate, epoch, SessionConfig(heartbeat=settings.heartbeat))
        self.links = LinkTable(broker, self.endpoint)
        self.directory = PeerDirectory(broker, self.endpoint, self.links, ReaderTokens(store), lambda: self.settings)
        self.directory.memory = _memory(store, settings)
        self.operations = Operations(self._ask, lambda: (broker.seam.held_total, broker.seam.flooded_total))
        self.clock = clock
        self.on_overtaken: Callable[[ViewNumber], None] | None = None  # a neighbour says that it knows this newer view
        self._on_end, self._store = on_end, store
        self._recover(store)
        self.committer = self._make_committer(store)
        parts = NodeParts(
            broker,
            self.gate,
            self.endpoint,
            self.links,
            self.directory,
            self.operations,
            self.committer,
            self.counters,
            lambda: self.settings,
            clock,
        )
        self.features = features_of(parts, Dials(dial, dial_through), lambda reason: on_end(0, reason), seat)
        if (replication := self.features.get(Replication)) is not None:
            self.on_overtaken = replication.overtaken
        self._admission = Admission(broker, self.endpoint, self.directory, self.links, self.features)
        self.gate.install(self.features, self.links.is_client)
        if (stabilising := self.features.get(Stabilising)) is not None:
            stabilising.tick(clock())  # nobody is connected yet

    def _recover(self, store: Store | None) -> None:
        """Take over what is on disk; an empty store, or none, gets what the settings say."""
        now = self.clock()
        if store is None:
            self.endpoint.perform(self.gate.resume(now=now), now=now)
            return
        journal = recover(self.endpoint, store, now=now)
        if store.state_bytes:
            self.directory.report_ignored_settings()
        batch = self.endpoint.take_batch()
        self.operations.recall(journal, batch.concluded)
        self.directory.forget_clients()
        store.commit(batch, self.endpoint.capture())

    def _make_committer(self, store: Store | None) -> Committer:
        failed = lambda reason: self._on_end(EXIT_DISK, reason)  # noqa: E731
        hooks = CommitHooks(self._sealed, self._committed, failed)
        counters, settings = self.counters.disk, lambda: self.settings
        return Committer(self.endpoint, self.links, store, counters, settings=settings, clock=self.clock, hooks=hooks)

    # Connections ---------------------------------------------------------------------------------------------

    def accept(self, wire: Wire, hello: Hello, port: Port) -> str:
        """Take over a connection on which a peer said Hello; returns why not (the peer is told), or nothing."""
        peer = hello.node
        refusal = self._admission.refusal(hello, port)
        if refusal is not None:
            self.features[RefusedLinks].refused(peer, refusal)
            found = self.directory.whereabouts(hello.wants, port) if refusal.why is ByeReason.ELSEWHERE else None
            wire.send(found.bye(hello.wants) if found is not None else refusal.bye())
            wire.close(refusal.reason)
            return refusal.reason
        if port is Port.PEERS:
            self.features[BrokerNames].claim(peer)
        session = self.endpoint.sessions.get(peer)
        if session is not None and _is_newer(hello, session) and peer in self.links:
            reason = f"a newer {peer} has come to {self.broker.name}"
            self.links[peer].wire.send(Bye(ByeReason.FENCED, reason, is_at_work=True, view=hello.view))
        self.directory.accepted(hello, port)
        self._take_over(peer, PeerLink(wire, port, is_dialled=False, relay=hello.relay))
        self.receive(peer, wire, hello)
        return ""

    def dialled(self, peer: Node, wire: Wire, relay: Node = "") -> None:
        """There is a connection to a neighbour. `relay`: through this broker. A direct one replaces one through a
        relay."""
        if self.links.is_up(peer) and (relay or not self.links.relay_of(peer)):  # it was quicker
            wire.close("connected the other way round")
            return
        self.directory.introduce(peer, relay)
        self._take_over(peer, PeerLink(wire, Port.PEERS, is_dialled=True, relay=relay))

    def _take_over(self, peer: Node, link: PeerLink) -> None:
        self.committer.seal()
        old = self.links.put(peer, link)
        if old is not None:
            self.endpoint.disconnected(peer)
            old.wire.close("replaced by a newer connection")
        self.endpoint.connected(peer, now=self.clock())
        for connected in self.features.connected:
            connected(peer)
        self.committer.touch()

    def receive(self, peer: Node, wire: Wire, frame: Frame) -> None:
        if isinstance(frame, Data):
            self.receive_data(peer, wire, [frame])
            return
        if self.links.wires.get(peer) is not wire:
            return  # the rest of a connection that was replaced
        now, link = self.clock(), self.links[peer]
        if isinstance(frame, Hello) and not self._is_sound(peer, frame, link):
            return
        for feature in self.features.of_frames.get(frame.__class__, ()):
            feature.frame_received(peer, frame, now)
        if isinstance(frame, Bye) and frame.why is ByeReason.FENCED and not self._is_fenced(peer, link, frame):
            frame = Bye(ByeReason.LEAVING, frame.reason)
        if not isinstance(frame, BESIDE_SESSIONS):
            self.endpoint.receive(peer, frame, now=now)
            self.committer.touch()

    def _is_fenced(self, peer: Node, link: PeerLink, bye: Bye) -> bool:
        """Whether this process must end (rules 3 and 4)."""
        if self._begins_later(peer, bye):
            return False
        if bye.view > self.directory.view_number and self.on_overtaken is not None:
            log.warning("%s knows view %d of %s: %s", peer, bye.view, self.broker.name, bye.reason)
            self.on_overtaken(bye.view)
            return False
        if link.is_dialled and bye.is_at_work:
            return True
        log.warning("%s says that a newer %s is known, which is not proven: %s", peer, self.broker.name, bye.reason)
        return False

    def _begins_later(self, peer: Node, bye: Bye) -> bool:
        """Rule 5: whether this broker takes a higher epoch towards a neighbour."""
        session, later = self.endpoint.sessions[peer], bye.epoch + 1
        if self._store is not None or session.is_met or not session.introduction.epoch < later:
            return False
        ahead = later / 1e9 - time.time()
        if ahead > PUT_BACK_SECONDS_MAX:
            log.error("%s knows a %s that began %.0f s from now: set the clocks", peer, self.broker.name, ahead)
            return False
        log.warning("%s knows a later %s: the clock was put back, and it takes an epoch above", peer, self.broker.name)
        session.begin_later(later)
        return True

    def _is_sound(self, peer: Node, hello: Hello, link: PeerLink) -> bool:
        """Check a Hello also where it is the answer on a connection that was dialled, or the second one."""
        refusal = self._admission.flaw_of_answer(hello, link.port)
        if refusal is not None:
            self.features[RefusedLinks].refused(hello.node, refusal)
            link.wire.send(refusal.bye())
            link.wire.close(refusal.reason)
            return False
        if link.is_dialled and hello.node == peer:  # who answers by another name is refused by the session
            self.directory.hello_received(hello)
        return True

    def receive_data(self, peer: Node, wire: Wire, frames: Sequence[Data]) -> None:
        if self.links.wires.get(peer) is wire:
            self.endpoint.receive_data(peer, frames, now=self.clock())
            self.committer.received(sum(len(frame.payload) for frame in frames))

    def lost(self, peer: Node, wire: Wire) -> None:
        """A connection has ended."""
        if self.links.wires.get(peer) is not wire:
            return
        self.committer.seal()
        self.endpoint.disconnected(peer)
        for disconnected in self.features.disconnected:
            disconnected(peer, self.clock())
        self.links.drop(peer)
        self.committer.touch()

    # Time and settings ---------------------------------------------------------------------------------------

    def tick(self) -> None:
        now = self.clock()
        for before_tick in self.features.before_tick:
            before_tick(now)
        self.endpoint.tick(now=now)
        for tick in self.features.tick:
            tick(now)
        self.committer.touch()

    def apply(self, settings: BrokerSettings) -> None:
        """Take over settings that have changed while the broker runs."""
        self.settings = settings
        self.endpoint.configure(SessionConfig(heartbeat=settings.heartbeat))
        for applied in self.features.hooks(Feature.settings_applied):
            applied()

    def _ask(self, request: Request) -> None:
        self.endpoint.request(request, now=self.clock())
        self.committer.touch()

    # Batches -------------------------------------------------------------------------------------------------

    def _sealed(self, batch: Batch) -> bool:
        for _, reason in batch.fenced:
            self._on_end(EXIT_FENCED, f"another {self.broker.name} is at work: {reason}")
        for peer, reason in batch.outdated:
            self._outdated(peer, reason)
        return sum(sealed(batch) for sealed in self.features.sealed) > 0

    def _outdated(self, peer: Node, reason: str) -> None:
        """End where a neighbour proves that this memory is an old copy (rules 3 and 6)."""
        replication = self.features.get(Replication)
        if self._store is None:
            log.warning("%s says what cannot be, as this broker began its epoch in this process: %s", peer, reason)
            return
        if replication is not None and not replication.is_whole:
            log.warning("no link to %s before the copies have answered: %s", peer, reason)
            return
        try:
            self._store.mark_outdated(reason)
        except OSError as error:
            log.critical("%s is not marked as an old copy: %s", self._store.path.parent, error)
        self.committer.halt()
        self._on_end(EXIT_OUTDATED, str(OutdatedStoreError(self._store.path.parent, reason)))

    def _committed(self, batch: Batch) -> None:
        if not (batch.dial or batch.retired or batch.observed or batch.concluded):
            return  # traffic alone: no feature needs to know
        if batch.dial or batch.retired:
            self.directory.forget_clients()
        now = self.clock()
        for committed in self.features.committed:
            committed(batch, now)

    # The end -------------------------------------------------------------------------------------------------

    async def leave(self, reason: str) -> None:
        """Say goodbye on all links, once everything before is on disk. Bound the time with `asyncio.timeout`."""
        self.endpoint.leave(reason)
        await self.committer.finish()


def _memory(store: Store | None, settings: BrokerSettings) -> Memory:
    if settings.replace:
        return Memory.REPLACEMENT
    return Memory.PROCESS if store is None else Memory.DIRECTORY


def _is_newer(hello: Hello, session: Session) -> bool:
    return hello.epoch > session.peer_epoch or hello.view > session.peer_view
