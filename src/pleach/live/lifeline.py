"""What keeps a client's session alive over connections that come and go, and over brokers that send it elsewhere.

    addresses ── Strand ──▶ Connection ◀──▶ Endpoint (sessions, client machine) ──▶ batch ──▶ disk ──▶ frames

Everything that happens in one turn of the event loop is one batch: requests, replies, confirmations. `settle` ends it.

A client that starts does not know its broker's name: it greets whoever answers, and learns the name from the answer.
From then on the session belongs to that broker, and an address where another one answers is passed over.

A broker that leaves the tree sends the client to another one. There is a strand to that one from then on; the strand to
the former one stays until it has confirmed what was sent to it. What it delivered is ours alone, and is confirmed at
once: a client with a disk has written it down.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

import msgspec

from pleach.client import Client as Machine
from pleach.effects import Effect
from pleach.errors import AddressError, ClientError, ClientFencedError, ConnectError, SessionLostError, StoreError
from pleach.events.event import Event
from pleach.links.endpoint import Batch, Endpoint, Progress, Saved
from pleach.links.frames import Ack, Bye, Data, Farewell, Frame, Hello, Ping
from pleach.links.session import HEARTBEATS_MISSED_MAX, Phase, Session, SessionConfig
from pleach.links.upkeep import LinkPhase
from pleach.live.addresses import ADDRESSES_MAX, Address, backoff, parse_addresses
from pleach.live.cursor import Change, Cursor
from pleach.live.listener import Hearer, Listener, Options
from pleach.live.strand import Owner, Strand
from pleach.messages import Node

FORMER_SECONDS_MAX = 300.0  # that a broker which has sent us away is looked for, to tell it that we have gone
FAREWELL_SECONDS_MAX = 2.0  # for it to hear that, when the client is closed

log = logging.getLogger(__name__)


class Lifeline:
    def __init__(self, options: Options, hearer: Hearer) -> None:
        self._options = options
        self._hearer = hearer
        self._cursor: Cursor | None = None
        self._listener: Listener | None = None
        self._endpoint: Endpoint | None = None
        self._epoch = time.time_ns()
        self._confirmed = 0  # how far the broker was told that we have got
        self._owner = Owner(self._on_made, self._on_frame, self._on_data, self._on_lost)
        self._strand = Strand(options.name, None, options.addresses, self._owner)
        self._formers: dict[Node, Strand] = {}  # brokers that have sent us away
        self._error: ClientError | None = None
        self._settling: asyncio.Handle | None = None
        self._settled: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def machine(self) -> Machine:
        assert self._listener is not None, "not started"
        return self._listener.inner

    @property
    def session(self) -> Session:
        assert self._endpoint is not None, "not started"
        return self._endpoint.sessions[self.machine.broker]

    @property
    def has_session(self) -> bool:
        return self._endpoint is not None

    @property
    def is_up(self) -> bool:
        return self._endpoint is not None and self.session.phase is Phase.UP

    # What the client does ------------------------------------------------------------------------------------

    def recall(self) -> Sequence[tuple[int, Event]]:
        """Take over what a former process left; returns the events that it kept."""
        if self._options.state_dir is None:
            return []
        self._cursor = Cursor(self._options.state_dir, self._options.name)
        remembered = self._cursor.load()
        if remembered is None:
            return []
        self._epoch = remembered.epoch
        endpoint = self._make_endpoint(remembered.broker)
        endpoint.recover(Saved(remembered.state, [], remembered.sessions), now=time.monotonic())
        self._confirmed = self.session.received
        self._strand = self._strand_to(remembered.broker)
        return remembered.kept

    async def start(self) -> None:
        """Connect; raises ConnectError when no address has led anywhere in time."""
        deadline = time.monotonic() + self._options.connect_timeout
        for pause in backoff():
            attempts = await self._strand.dial_all()
            if self._error is not None:
                raise self._error
            if not attempts:
                break
            if time.monotonic() + pause > deadline:
                raise ConnectError(attempts)
            await asyncio.sleep(pause)
        self._spawn(self._strand)
        ticking = asyncio.create_task(self._keep_ticking())
        self._tasks.add(ticking)
        self._remember_formers()

    async def stop(self, reason: str) -> None:
        """Say goodbye and end. Unless this is called, the session waits for us to come back."""
        await self._say_farewells()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.settle()
        if self._endpoint is not None and self._strands:
            self._endpoint.leave(reason)
            self.settle()
        for strand in self._strands:
            await strand.ended(reason)
        if self._cursor is not None:
            self._cursor.close()

    def perform(self, effects: Sequence[Effect]) -> None:
        """Carry out what the machine wants done, with all else that happens in this turn."""
        assert self._endpoint is not None, "not started"
        self._endpoint.perform(effects, now=time.monotonic())
        self.settle_soon()

    def settle_soon(self) -> None:
        if self._settling is None:
            self._settling = asyncio.get_running_loop().call_soon(self.settle)

    async def settled(self) -> None:
        """Wait until all that has happened so far is on disk, where there is one; raises if that can no longer be."""
        if self._error is not None:
            raise self._error
        if self._settled is None:
            self._settled = asyncio.get_running_loop().create_future()
            self.settle_soon()
        await asyncio.shield(self._settled)

    # Batches -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """End the turn: what happened goes to disk, then out."""
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        settled, self._settled = self._settled, None
        if self._endpoint is not None and self._error is None:
            self._settle(self._endpoint)
        if settled is None or settled.done():
            return
        if self._error is None:
            settled.set_result(None)
        else:
            settled.set_exception(self._error)

    def _settle(self, endpoint: Endpoint) -> None:
        batch = endpoint.take_batch()
        position = max(self._confirmed, self._hearer.confirmable(self._confirmed))
        try:
            self._remember(batch, position)
        except StoreError as error:
            self._end(SessionLostError(str(error)))
            return
        self._observe(batch)
        self._transmit(batch, position)
        for peer, reason in batch.hangups:
            log.info("%s leaves the connection: %s", self._options.name, reason)
            self._to(peer).close(reason)
        for peer, reason in batch.fenced:
            if peer == self._strand.peer:
                self._end(ClientFencedError(f"client {self._options.name!r} is fenced: {reason}"))
        for peer in batch.up:
            self._to(peer).greeted()
        self._let_go(batch.retired)

    def _observe(self, batch: Batch) -> None:
        if self._options.observer is None:
            return
        for observed in batch.observed:
            try:
                self._options.observer(observed)
            except Exception:
                log.exception("the observer of %s failed", self._options.name)

    def _remember(self, batch: Batch, position: int) -> None:
        kept, consumed = self._hearer.changes()
        if self._cursor is None or not (batch.changes_disk or kept or consumed or position > self._confirmed):
            return
        assert self._endpoint is not None
        session, broker = self.session, self.machine.broker
        own = Progress(self._epoch, session.peer_epoch, position, session.first)
        state = self._endpoint.capture()
        self._cursor.commit(Change(broker, state, {**batch.progress, broker: own}, batch.queued, kept, consumed))

    def _transmit(self, batch: Batch, position: int) -> None:
        for peer, frame in batch.transmits:
            strand = self._to(peer)
            match frame:
                case Ack() if strand is self._strand:
                    continue  # the session confirms what arrived; we confirm what may be forgotten, below
                case Hello():
                    strand.send(self._as_client(frame, is_current=strand is self._strand))
                case Bye(Farewell.BROKEN, reason) if strand is self._strand:
                    strand.send(frame)
                    self._give_up(f"the session of {self._options.name!r} cannot go on: {reason}")
                case _:
                    strand.send(frame)
        if self.is_up and (self._strand.peer in batch.up or position > self._confirmed):
            self._strand.send(Ack(position))
        self._confirmed = position  # where we are not connected, the next Hello says so

    def _as_client(self, hello: Hello, *, is_current: bool) -> Hello:
        received = min(self._confirmed, hello.received) if is_current else hello.received
        return msgspec.structs.replace(hello, role="client", received=received)

    def _give_up(self, reason: str) -> None:
        """What is on disk leads nowhere any more; the next process starts anew."""
        try:
            if self._cursor is not None:
                self._cursor.forget()
        except StoreError as error:
            reason = f"{reason}; {error}"
        self._end(SessionLostError(reason))

    def _end(self, error: ClientError) -> None:
        if self._error is not None:
            return
        self._error = error
        for strand in self._strands:
            strand.end(str(error))
        self._hearer.hear_end(error)

    # Strands -------------------------------------------------------------------------------------------------

    @property
    def _strands(self) -> list[Strand]:
        return [self._strand, *self._formers.values()]

    def _to(self, peer: Node) -> Strand:
        return self._formers.get(peer, self._strand)

    def _strand_to(self, broker: Node) -> Strand:
        """Where it was said to be comes first, then where we began."""
        assert self._endpoint is not None
        note = self._endpoint.upkeep.links.get(broker)
        told = _read(note.address) if note is not None else ()
        addresses = tuple(dict.fromkeys((*told, *self._strand.addresses)))[:ADDRESSES_MAX]
        return Strand(self._options.name, broker, addresses, self._owner)

    def _spawn(self, strand: Strand) -> None:
        task = asyncio.create_task(self._keep(strand))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self, strand: Strand) -> None:
        if not await strand.keep_connected() and strand.peer is not None:
            log.warning("%s: %s is gone; whether it has all that we sent is not known", self._options.name, strand.peer)
            self._let_go([strand.peer])

    async def _keep_ticking(self) -> None:
        """Our signs of life, and the watch over the broker's."""
        while self._error is None:
            await asyncio.sleep(self._options.heartbeat)
            if self._endpoint is not None:
                self._endpoint.tick(now=time.monotonic())
                self.settle()
            if self.is_up:
                self._strand.send(Ping())

    # Being sent elsewhere ------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """The machine has said farewell to its broker, if it was told to: on to the next."""
        assert self._endpoint is not None
        broker, former = self.machine.broker, self._strand
        if former.peer == broker or former.peer is None:
            return
        log.info("%s is sent from %s to %s", self._options.name, former.peer, broker)
        back = self._formers.pop(broker, None)
        if back is not None:
            back.end("to be a client's broker again")
        self._strand = self._strand_to(broker)
        self._formers[former.peer] = former
        former.patience = FORMER_SECONDS_MAX
        self._confirmed = self.session.received
        self._hearer.hear_move(self._confirmed)
        self._spawn(self._strand)

    def _remember_formers(self) -> None:
        """Brokers that a former process had not said farewell to in full."""
        assert self._endpoint is not None
        for peer, note in self._endpoint.upkeep.links.items():
            if note.phase is LinkPhase.RETIRING and peer not in self._formers and not self._is_done(peer):
                strand = self._formers[peer] = self._strand_to(peer)
                strand.patience = FORMER_SECONDS_MAX
                self._spawn(strand)

    def _is_done(self, peer: Node) -> bool:
        assert self._endpoint is not None
        return not self._endpoint.sessions[peer].unconfirmed

    def _let_go(self, peers: Sequence[Node]) -> None:
        for peer in peers:
            strand = self._formers.pop(peer, None)
            if strand is not None:
                strand.end("all is said")

    async def _say_farewells(self) -> None:
        deadline = time.monotonic() + FAREWELL_SECONDS_MAX
        while self._formers and self._error is None and time.monotonic() < deadline:  # noqa: ASYNC110 - bounded, rare
            await asyncio.sleep(FAREWELL_SECONDS_MAX / 100)

    # What strands tell ---------------------------------------------------------------------------------------

    def _on_made(self, strand: Strand) -> None:
        self.settle()  # what was meant for the former connection goes nowhere: the session sends it again
        if self._endpoint is None:
            strand.send(Hello(self._options.name, self._epoch, 0, 0, 1, role="client"))
        elif strand.peer is not None:
            self._endpoint.connected(strand.peer, now=time.monotonic())
            self.settle()

    def _on_frame(self, strand: Strand, frame: Frame) -> None:
        if self._error is not None:
            return
        if isinstance(frame, Bye) and frame.why is Farewell.BROKEN:
            self._broken(strand, frame.reason)
            return
        if self._endpoint is None and not self._meet(strand, frame):
            return
        assert self._endpoint is not None
        assert strand.peer is not None
        session = self._endpoint.sessions[strand.peer]
        life = session.peer_epoch
        self._endpoint.receive(strand.peer, frame, now=time.monotonic())
        if session.peer_epoch != life:
            self._new_life(strand, is_first=life == 0)
        self._tell_what_was_heard()
        self.settle_soon()

    def _on_data(self, strand: Strand, frames: list[Data]) -> None:
        if self._error is not None:
            return
        if self._endpoint is None:
            self._meet(strand, frames[0])
            return
        assert strand.peer is not None
        self._endpoint.receive_data(strand.peer, frames, now=time.monotonic())
        self._tell_what_was_heard()
        self.settle_soon()

    def _on_lost(self, strand: Strand) -> None:
        if self._endpoint is None or strand.peer is None or self._to(strand.peer) is not strand:
            return
        self._endpoint.disconnected(strand.peer)
        self.settle()
        if strand is not self._strand and self._is_done(strand.peer):
            self._let_go([strand.peer])

    # The broker ----------------------------------------------------------------------------------------------

    def _meet(self, strand: Strand, frame: Frame) -> bool:
        """The first answer of the first broker: from here on there is a session."""
        match frame:
            case Hello(node=broker):
                strand.peer = broker
            case Bye(Farewell.FENCED, reason):
                self._end(ClientFencedError(f"client {self._options.name!r} is fenced: {reason}"))
                return False
            case _:
                strand.close(frame.reason if isinstance(frame, Bye) else "no Hello")
                return False
        endpoint = self._make_endpoint(broker)
        endpoint.connected(broker, now=time.monotonic())
        endpoint.take_batch()  # the Hello in it is the one that was sent when the connection was made
        self.perform(self.machine.attach())
        return True

    def _make_endpoint(self, broker: Node) -> Endpoint:
        options = self._options
        machine = Machine(options.name, broker, own_events=options.own_events, incarnation=self._epoch)
        self._listener = Listener(machine)
        config = SessionConfig(heartbeat=options.patience / HEARTBEATS_MISSED_MAX)
        self._endpoint = self._listener.endpoint = Endpoint(self._listener, self._epoch, config)
        return self._endpoint

    def _new_life(self, strand: Strand, *, is_first: bool) -> None:
        """A broker that we meet for the first time, or that has lost its memory since."""
        if strand is not self._strand:
            self._hearer.hear_doubt("the broker that it was sent to lost its memory")
            return
        self._confirmed = self.session.received
        if is_first:
            self._hearer.hear_move(self._confirmed)
        else:
            self._hearer.hear_birth(self._confirmed)

    def _broken(self, strand: Strand, reason: str) -> None:
        """A former broker has given us up: what it had not passed on, it will not."""
        if strand is self._strand:
            self._give_up(f"the broker gave up {self._options.name!r}: {reason}")
        elif strand.peer is not None:
            self._hearer.hear_doubt(f"{strand.peer} gave this client up: {reason}")
            self._let_go([strand.peer])

    def _tell_what_was_heard(self) -> None:
        assert self._listener is not None
        heard, self._listener.heard = self._listener.heard, []
        for message, sequence in heard:
            self._hearer.hear(message, sequence)
        self._follow()


def _read(text: str) -> tuple[Address, ...]:
    """What a broker says of where another one is; one that is nowhere is looked for where we began."""
    try:
        return parse_addresses(text) if text else ()
    except AddressError as error:
        log.warning("%s", error)
        return ()
