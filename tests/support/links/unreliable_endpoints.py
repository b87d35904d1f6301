"""A little world for endpoints: connections that break, disks that lose what was not committed, nodes that crash.

    host ── Batch ──▶ disk ── then ──▶ lane ⇢ ⇢ ⇢ lane ──▶ host         virtual time, one seeded stream of choices

The world is an honest driver (endpoint.py: commit, then transmit) on dishonest ground. What each link owes to whom is
written down outside of the code under test, from the batches that were committed (`link_ledger.py`).

A connection is dialled by one side; the other learns of it by the Hello that comes first. A cut loses a suffix of what
is in flight in each direction. Each side then reads the rest and the end, or, where the connection is half open, never
notices; then heartbeats must. Nothing is reordered within a connection.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from pleach.core.effects import Effect
from pleach.core.links.endpoint import Batch, Endpoint, Journalled, LinkedMachine, Saved
from pleach.core.links.frames import Bye, ByeReason, Data, Frame, Hello
from pleach.core.links.session import SessionConfig, SessionPhase, SessionState
from pleach.core.messages import Node

CONFIG = SessionConfig(heartbeat=1.0, window=4)
STEP_SECONDS = 0.02
HEAL_ROUNDS_MAX = 400
JOURNAL_MAX = 12  # entries, before the state is written anew


class Disk:
    """What survives a crash: exactly the batches that were written."""

    def __init__(self) -> None:
        self.state: bytes | None = None
        self.journal: list[Journalled] = []
        self.sessions: dict[Node, SessionState] = {}
        self.outboxes: dict[Node, dict[int, bytes]] = {}

    def write(self, batch: Batch) -> None:
        self.journal += batch.journal
        for peer, sequence, payload in batch.queued:
            self.outboxes.setdefault(peer, {})[sequence] = payload
        for peer, progress in batch.progress.items():
            self.sessions[peer] = SessionState(*progress)
            outbox = self.outboxes.get(peer, {})
            self.outboxes[peer] = {n: payload for n, payload in outbox.items() if n >= progress.first}

    def checkpoint(self, state: bytes) -> None:
        self.state, self.journal = state, []

    def read(self) -> Saved:
        sessions = {}
        for peer, state in self.sessions.items():
            outbox = self.outboxes.get(peer, {})
            assert sorted(outbox) == list(range(state.first, state.first + len(outbox))), (peer, state.first, outbox)
            payloads = [outbox[n] for n in sorted(outbox)]
            sessions[peer] = SessionState(state.epoch, state.peer_epoch, state.received, state.first, payloads)
        return Saved(self.state, list(self.journal), sessions)


@dataclass
class Connection:
    dialler: Node
    acceptor: Node
    lanes: dict[Node, deque[Frame | None]]  # by receiver; None: the end of the connection, as the receiver sees it
    is_cut: bool = False  # what is written from now on goes nowhere
    is_accepted: bool = False

    @classmethod
    def between(cls, dialler: Node, acceptor: Node) -> Connection:
        return cls(dialler, acceptor, {dialler: deque(), acceptor: deque()})

    def other(self, node: Node) -> Node:
        return self.acceptor if node == self.dialler else self.dialler


@dataclass
class Host:
    """One node: its endpoint while it lives, its disk if it has one, its connections by peer."""

    name: Node
    make: Callable[[], LinkedMachine]
    disk: Disk | None
    epoch: int = 1
    endpoint: Endpoint | None = None
    connections: dict[Node, Connection] = field(default_factory=dict)

    @property
    def live(self) -> Endpoint:
        assert self.endpoint is not None, f"{self.name} is down"
        return self.endpoint


@dataclass(frozen=True)
class Weather:
    """How often, per step, what goes wrong."""

    cut: float = 0.02
    half_open: float = 0.3  # of the cuts: the share in which a side does not notice
    crash: float = 0.01
    torn: float = 0.5  # of the crashes: the share that hits between commit and the end of transmitting
    lose: float = 0.0  # a frame out of the middle, which TCP does not do
    double: float = 0.0
    lazy: float = 0.3  # not committing after an input: several inputs make one batch


class World:
    """Subclasses hear of commits, crashes and starts: `committed`, `crashed`, `started`."""

    def __init__(self, links: Sequence[tuple[Node, Node]], stream: Random, weather: Weather | None = None) -> None:
        self.links = links  # (dialler, acceptor)
        self.stream = stream
        self.weather = weather or Weather()
        self.config = CONFIG
        self.now = 0.0
        self.hosts: dict[Node, Host] = {}
        self.connections: list[Connection] = []
        self.hangups: list[tuple[Node, Node, str]] = []
        self.fenced: list[tuple[Node, Node, str]] = []
        self._ticked_at = 0.0

    # Nodes -------------------------------------------------------------------------------------------------------

    def add(self, name: Node, make: Callable[[], LinkedMachine], *, durable: bool) -> None:
        self.hosts[name] = Host(name, make, Disk() if durable else None)
        self.start(name)

    def start(self, name: Node) -> None:
        """With a disk: as it was at the last commit. Without one: a new life."""
        host = self.hosts[name]
        if host.disk is None:
            host.epoch += 1
        host.endpoint = Endpoint(host.make(), host.epoch, self.config)
        if host.disk is not None:
            host.endpoint.recover(host.disk.read())
        self.started(host)

    def crash(self, name: Node, *, transmitted: int | None = None) -> None:
        """Lose what was not committed; or (`transmitted`) commit, carry out that many transmits, and die then."""
        host = self.hosts[name]
        if transmitted is not None:
            batch = self._write(host)
            self._transmit(host, batch.transmits[:transmitted])
        host.endpoint = None
        for connection in list(host.connections.values()):
            self.cut(connection, half_open=self._chance(self.weather.half_open))
        host.connections.clear()
        self.crashed(host)

    def commit(self, name: Node) -> None:
        """The driver's duty: write, then transmit, then hang up."""
        host = self.hosts[name]
        batch = self._write(host)
        self._transmit(host, batch.transmits)
        for peer, reason in batch.hangups:
            self.hangups.append((name, peer, reason))
            if peer in host.connections:
                self.close(host.connections[peer], name)

    def perform(self, name: Node, effects: Sequence[Effect]) -> None:
        self.hosts[name].live.perform(effects, now=self.now)

    def _write(self, host: Host) -> Batch:
        batch = host.live.take_batch()
        if host.disk is not None:
            host.disk.write(batch)
            if len(host.disk.journal) > JOURNAL_MAX:
                host.disk.checkpoint(host.live.capture())
        self.fenced += [(host.name, peer, reason) for peer, reason in batch.fenced]
        self.committed(host, batch)
        return batch

    def _transmit(self, host: Host, transmits: Sequence[tuple[Node, Frame]]) -> None:
        for peer, frame in transmits:
            connection = host.connections.get(peer)
            if connection is not None and not connection.is_cut:
                connection.lanes[peer].append(frame)

    def committed(self, host: Host, batch: Batch) -> None:
        """What the world wants to know of a batch that will not be undone."""

    def crashed(self, host: Host) -> None:
        """What the world wants to know of a crash."""

    def started(self, host: Host) -> None:
        """What the world wants to know of a start."""

    # Connections ---------------------------------------------------------------------------------------------

    def dial(self, dialler: Node, acceptor: Node) -> Connection:
        host = self.hosts[dialler]
        if acceptor in host.connections:
            self.close(host.connections[acceptor], dialler)
        connection = host.connections[acceptor] = Connection.between(dialler, acceptor)
        self.connections.append(connection)
        host.live.connected(acceptor, now=self.now)
        return connection

    def close(self, connection: Connection, by: Node) -> None:
        """One side ends the connection; the other one reads what is in flight, and then the end."""
        host, peer = self.hosts[by], connection.other(by)
        del host.connections[peer]
        host.live.disconnected(peer)
        connection.lanes[by].clear()
        if not connection.is_cut:
            connection.lanes[peer].append(None)
            connection.is_cut = True

    def cut(self, connection: Connection, *, half_open: bool = False) -> None:
        """Lose a suffix of each lane. Half open: one side, or none, gets to read an end."""
        unaware = self.stream.choice(((0,), (1,), (0, 1))) if half_open else ()
        for index, lane in enumerate(connection.lanes.values()):
            self.shorten(lane, self.stream.randint(0, len(lane)))
            if index not in unaware:
                lane.append(None)
        connection.is_cut = True

    @staticmethod
    def shorten(lane: deque[Frame | None], length: int) -> None:
        while len(lane) > length:
            lane.pop()

    def deliver(self, connection: Connection, to: Node) -> None:
        """Hand the next frame in flight to the host that it is for."""
        frame = connection.lanes[to].popleft()
        host, peer = self.hosts[to], connection.other(to)
        if host.endpoint is None:
            return
        if to == connection.acceptor and not connection.is_accepted:
            self._accept(connection, frame)
        elif host.connections.get(peer) is not connection:
            return
        elif frame is None:
            del host.connections[peer]
            host.live.disconnected(peer)
        elif isinstance(frame, Data) and self._chance(0.5):
            run = [frame, *self._run_of_data(connection.lanes[to])]
            host.live.receive_data(peer, run, now=self.now)
        else:
            host.live.receive(peer, frame, now=self.now)

    def _run_of_data(self, lane: deque[Frame | None]) -> list[Data]:
        """Take some more of what is next in the lane, as long as it is data."""
        taken: list[Data] = []
        while lane and isinstance(lane[0], Data) and self._chance(0.7):
            taken.append(lane[0])
            lane.popleft()
        return taken

    def _accept(self, connection: Connection, frame: Frame | None) -> None:
        """The first frame of a connection says who dials; a life that is over does not push aside the one that is."""
        host, peer = self.hosts[connection.acceptor], connection.dialler
        connection.is_accepted = True
        if not isinstance(frame, Hello):
            return
        if peer in host.connections and frame.epoch < host.live.admit(peer).peer_epoch:
            if not connection.is_cut:
                connection.lanes[peer] += (Bye(ByeReason.FENCED, f"a newer {peer} is known"), None)
            return
        if peer in host.connections:
            self.close(host.connections[peer], host.name)
        host.connections[peer] = connection
        host.live.connected(peer, now=self.now)
        host.live.receive(peer, frame, now=self.now)

    # Fate ----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One thing happens: a frame arrives, somebody dials, time passes, or something breaks."""
        self.now += STEP_SECONDS * self.stream.random()
        self._spoil()
        self._redial(probability=0.3)
        moving = [(c, to) for c in self.connections for to, lane in c.lanes.items() if lane]
        if moving:
            connection, to = self.stream.choice(moving)
            self.deliver(connection, to)
        if self.now - self._ticked_at > CONFIG.heartbeat / 2:
            self.tick()
        for name, host in self.hosts.items():
            if host.endpoint is not None and not self._chance(self.weather.lazy):
                self.commit(name)
        self.connections = [c for c in self.connections if not c.is_cut or any(c.lanes.values())]

    def tick(self) -> None:
        self._ticked_at = self.now
        for host in self.hosts.values():
            if host.endpoint is not None:
                host.endpoint.tick(now=self.now)

    def _spoil(self) -> None:
        weather, stream = self.weather, self.stream
        if self.connections and self._chance(weather.cut):
            self.cut(stream.choice(self.connections), half_open=self._chance(weather.half_open))
        if self._chance(weather.lose + weather.double):
            self._spoil_a_frame(lost=self._chance(weather.lose / (weather.lose + weather.double)))
        if self._chance(weather.crash):
            name = stream.choice(sorted(self.hosts))
            if self.hosts[name].endpoint is None:
                self.start(name)
            elif self.may_crash(name):
                self.crash(name, transmitted=stream.randint(0, 3) if self._chance(weather.torn) else None)
                if self._chance(0.5):
                    self.start(name)

    def may_crash(self, name: Node) -> bool:
        del name
        return True

    def _spoil_a_frame(self, *, lost: bool) -> None:
        lanes = [lane for c in self.connections for lane in c.lanes.values() if lane and lane[0] is not None]
        if not lanes:
            return
        lane = self.stream.choice(lanes)
        at = self.stream.randrange(len([frame for frame in lane if frame is not None]))
        if lost:
            del lane[at]
        else:
            lane.insert(at, lane[at])

    def _redial(self, probability: float) -> None:
        for dialler, acceptor in self.links:
            here, there = self.hosts[dialler], self.hosts[acceptor]
            if here.endpoint is None or there.endpoint is None or acceptor in here.connections:
                continue
            if here.endpoint.admit(acceptor).phase is not SessionPhase.FENCED and self._chance(probability):
                self.dial(dialler, acceptor)

    def _chance(self, probability: float) -> bool:
        return probability > 0 and self.stream.random() < probability

    # Peace ---------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """No more faults: everyone is up, connections last. Returns when all is quiet, and fails if that never is."""
        if self.weather.lose:  # nothing but a new connection makes up for a last frame that was lost
            for connection in self.connections:
                self.cut(connection)
        for name, host in self.hosts.items():
            if host.endpoint is None:
                self.start(name)
            self.commit(name)  # what is still open counts, too
        for _ in range(HEAL_ROUNDS_MAX):
            if self._is_quiet():
                return
            self._calm_round()
        raise AssertionError(f"not quiet after {HEAL_ROUNDS_MAX} rounds: {self.hangups[-4:]}")

    def _calm_round(self) -> None:
        self._redial(probability=1.0)
        for name in self.hosts:
            self.commit(name)
        for connection in list(self.connections):
            for to, lane in connection.lanes.items():
                for _ in range(len(lane)):
                    self.deliver(connection, to)
                    self.commit(to)
                    if not lane:
                        break
        self.now += CONFIG.heartbeat / 2
        self.tick()
        for name in self.hosts:
            self.commit(name)
        self.connections = [c for c in self.connections if not c.is_cut or any(c.lanes.values())]

    def _is_quiet(self) -> bool:
        """All links are up at both ends, and nothing waits for confirmation."""
        ends = [(a, b) for link in self.links for a, b in (link, link[::-1])]
        sessions = [self.hosts[a].live.sessions.get(b) for a, b in ends]
        return all(s is not None and s.phase is SessionPhase.UP and not s.unconfirmed for s in sessions)
