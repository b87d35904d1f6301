"""The session of a client, over connections that break and brokers that redirect it.

    addresses ── BrokerConnection ──▶ Connection ◀──▶ Endpoint (sessions, client machine) ──▶ batch ──▶ disk ──▶ frames

Rule 1: what happens in one turn of the event loop is one batch: requests, replies, confirmations. `settle` ends it: the
        batch is written to the state file, if there is one, and then sent.
Rule 2: a client that starts does not know its broker's name: it greets whatever broker answers, and learns the name
        from the Hello. Then the session belongs to that broker; an address where another one answers is skipped.
Rule 3: a broker that leaves the tree redirects the client to another one. The connection to the former broker stays
        until that has confirmed what was sent. What it delivered is confirmed at once: the state file, if any, has it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pleach.client.broker_connections import BrokerConnection, BrokerConnections, ConnectionOwner
from pleach.client.broker_places import read_told
from pleach.client.state_file import StateChange, StateFile
from pleach.core.access.tenants import TENANT
from pleach.core.client.machine import ClientMachine as Machine
from pleach.core.effects import Effect, Observe, Passed
from pleach.core.events.event import Event, Value
from pleach.core.links.endpoint import Batch, Endpoint, Progress, Saved
from pleach.core.links.frames import CLIENT, Ack, Bye, ByeReason, Data, Frame, Hello
from pleach.core.links.session import HEARTBEATS_MISSED_MAX, Session, SessionConfig, SessionPhase
from pleach.core.messages import Deliver, FallbackBrokers, Message, Node
from pleach.core.messages.runs import Run
from pleach.errors import AccessDeniedError, ClientError, ClientFencedError, ConnectError, SessionLostError, StoreError
from pleach.net.addresses import Address, backoff
from pleach.net.alarm import Alarm
from pleach.net.client_login import PLAIN, Entry
from pleach.net.enquiry import enquiry

if TYPE_CHECKING:
    from pleach.client.client import Client

ENQUIRIES_PER_PATIENCE = 6  # how often others are asked for a silent broker, before its connection is given up

log = logging.getLogger(__name__)


class ClientOptions(msgspec.Struct, frozen=True):
    addresses: tuple[Address, ...]
    name: Node
    state_dir: Path | None
    own_events: bool
    connect_timeout: float
    heartbeat: float  # seconds between our heartbeats
    patience: float  # seconds of the broker's silence that end a connection
    observer: Callable[[Observe], None] | None
    entry: Entry = PLAIN
    tenant: str = ""

    def observe(self, observed: Sequence[Observe]) -> None:
        """Tell the observer, if there is one."""
        for seen in observed if self.observer else ():
            try:
                self.observer(seen)  # type: ignore[misc]
            except Exception:
                log.exception("the observer of %s failed", self.name)


class LoopTurn:
    """One turn of the event loop: when it ends, and who waits for what happened in it to be settled."""

    def __init__(self, settle: Callable[[], None]) -> None:
        self._settle = settle
        self._due: asyncio.Handle | None = None
        self._awaited: asyncio.Future[None] | None = None

    def end_soon(self) -> None:
        """Settle at the end of this turn, with all else that happens in it."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_soon(self._settle)

    async def ended(self) -> None:
        """Wait until all that has happened so far is settled; raises the error that prevented it."""
        if self._awaited is None:
            self._awaited = asyncio.get_running_loop().create_future()
            self.end_soon()
        await asyncio.shield(self._awaited)

    def end(self) -> asyncio.Future[None] | None:
        """Begin the next turn. Returns the future of those who wait for this one, for `tell`."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        awaited, self._awaited = self._awaited, None
        return awaited


class RecordingMachine:
    """A client machine that records what the broker sent, for its driver."""

    def __init__(self, machine: Machine) -> None:
        self.inner = machine
        self.name = machine.name
        self.restore = machine.restore
        self.capture = machine.capture
        self.is_changed_by = machine.is_changed_by
        self.resume = machine.resume
        self.peer_reset = machine.peer_reset
        self.endpoint: Endpoint | None = None  # around this machine
        self.received: list[tuple[Message | list[Event], int]] = []  # with the payload's number in the session

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        effects = self.inner.handle(sender, message, now=now) if not isinstance(message, FallbackBrokers) else ()
        assert self.endpoint is not None
        self.received.append((message, self.endpoint.sessions[sender].received))
        return effects

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        """While the broker is away renewals are postponed: they would only fill the outbox."""
        assert self.endpoint is not None
        session = self.endpoint.sessions.get(self.inner.broker)
        if session is None or session.phase is not SessionPhase.UP:
            return self.inner.put_off()
        return self.inner.handle_timer(name, now=now)

    def handle_run(self, sender: Node, run: Run) -> Passed | None:
        """Where nobody observes, deliveries bypass the machine, which keeps nothing of them."""
        if self.inner.is_observed or run.kind is not Deliver or sender != self.inner.broker:
            return None
        assert self.endpoint is not None
        self.received.append((run.events(), self.endpoint.sessions[sender].received))
        return Passed([], [])


class SessionDriver:
    def __init__(self, options: ClientOptions, client: Client) -> None:
        self._options = options
        self._client = client
        self._cursor: StateFile | None = None
        self._machine: RecordingMachine | None = None
        self._endpoint: Endpoint | None = None
        self._alarm: Alarm | None = None  # of the machine's timers
        self._epoch = time.time_ns()
        self._confirmed = 0  # payloads that were confirmed to the broker
        self._skip = 0  # messages of the next payload that are consumed, as our disk has it
        owner = ConnectionOwner(self._on_made, self._on_frame, self._on_data, self._on_lost, options.entry)
        self._connections = BrokerConnections(options.name, options.addresses, owner)
        self._error: ClientError | None = None
        self._turn = LoopTurn(self.settle)

    @property
    def machine(self) -> Machine:
        assert self._machine is not None, "not started"
        return self._machine.inner

    @property
    def endpoint(self) -> Endpoint:
        assert self._endpoint is not None, "not started"
        return self._endpoint

    @property
    def session(self) -> Session:
        return self.endpoint.sessions[self.machine.broker]

    @property
    def has_session(self) -> bool:
        return self._endpoint is not None

    @property
    def is_up(self) -> bool:
        return self._endpoint is not None and self.session.phase is SessionPhase.UP

    # Calls of the client ------------------------------------------------------------------------------------

    def recall(self) -> tuple[Sequence[tuple[int, Event]], int]:
        """Restore the state of a former process; returns its kept events, and `skip` (state_file.py)."""
        if self._options.state_dir is None:
            return [], 0
        self._cursor = StateFile(self._options.state_dir, self._options.name)
        remembered = self._cursor.load()
        if remembered is None:
            return [], 0
        self._epoch = remembered.epoch
        endpoint = self._make_endpoint(remembered.broker)
        endpoint.recover(Saved(remembered.state, [], remembered.sessions), now=time.monotonic())
        self._confirmed, self._skip = self.session.received, remembered.skip
        self._connections.begin_at(remembered.broker, self._told(remembered.broker), remembered.places)
        return remembered.kept, remembered.skip

    async def start(self) -> None:
        """Connect; raises ConnectError if no broker has answered in time, TlsError if TLS is the reason."""
        deadline = time.monotonic() + self._options.connect_timeout
        for pause in backoff():
            attempts = await self._connections.current.dial_all()
            if self._error is not None:
                raise self._error
            if not attempts:
                break
            if time.monotonic() + pause > deadline:
                raise self._connections.current.refusal or ConnectError(attempts)
            await asyncio.sleep(pause)
        self._connections.keep(self._connections.current)
        self._connections.spawn(self._keep_ticking())
        self._connections.recall_formers(self.endpoint)

    async def stop(self, reason: str) -> None:
        """Take leave of the broker and end. Without this call the broker keeps the session for our return."""
        if self._error is None:
            await self._connections.await_farewells()
        await self._connections.cancel_tasks()
        self.settle()
        if self._endpoint is not None:
            self._endpoint.leave(reason)
            self.settle()
        self._silence()
        for connection in self._connections.all:
            await connection.ended(reason)
        if self._cursor is not None:
            self._cursor.close()

    def perform(self, effects: Sequence[Effect]) -> None:
        """Carry out effects of the machine, in this turn's batch."""
        self.endpoint.perform(effects, now=time.monotonic())
        self.settle_soon()

    def publish(self, attributes: Mapping[str, Value], payload: bytes) -> Event:
        """Publish, in this turn's batch. Where nobody observes, the event bypasses the machine's effects."""
        machine, endpoint = self.machine, self._endpoint
        assert endpoint is not None, "not started"
        is_free = machine.may_publish and not machine.is_observed
        if self._options.tenant:
            attributes = {**attributes, TENANT: self._options.tenant}
        event = machine.draft(attributes, payload)
        if is_free:
            endpoint.publish(machine.broker, event, now=time.monotonic())
        else:
            endpoint.perform(machine.publish_draft(event), now=time.monotonic())
        self.settle_soon()
        return event

    def settle_soon(self) -> None:
        self._turn.end_soon()

    async def settled(self) -> None:
        """Wait until all that has happened so far is in the state file, if there is one; raises if that fails."""
        if self._error is not None:
            raise self._error
        await self._turn.ended()

    # Batches -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """End the turn: write the batch to the state file, then send it."""
        awaited = self._turn.end()
        if self._endpoint is not None and self._error is None:
            self._settle(self._endpoint)
        tell(awaited, self._error)

    def _settle(self, endpoint: Endpoint) -> None:
        batch = endpoint.take_batch()
        position = max(self._confirmed, self._client.confirmable(self._confirmed))
        try:
            self._remember(batch, position)
        except StoreError as error:
            self._end(SessionLostError(str(error)))
            return
        self._options.observe(batch.observed)
        self._transmit(batch, position)
        assert self._alarm is not None
        self._alarm.set()
        for peer, reason in batch.hangups:
            log.info("%s closes the connection: %s", self._options.name, reason)
            if connection := self._connections.to(peer):
                connection.close(reason)
        for peer, reason in batch.fenced:
            if self._connections.is_current(peer):
                self._end(ClientFencedError(f"client {self._options.name!r} is fenced: {reason}"))
        for peer in batch.up:
            if connection := self._connections.to(peer):
                connection.greeted()
            if peer == self.machine.broker:
                self.perform(self.machine.reconnected())
        self._connections.let_go(batch.retired)

    def _remember(self, batch: Batch, position: int) -> None:
        kept, consumed = self._client.changes()
        if self._cursor is None:
            return
        skip = self._client.consumed_after(position)
        has_moved = (position, skip) != (self._confirmed, self._skip)
        if not (batch.changes_disk or kept or consumed or has_moved):
            return
        assert self._endpoint is not None
        session, broker = self.session, self.machine.broker
        own = Progress.of(session)._replace(received=position)
        state, progress = self._endpoint.capture(), {**batch.progress, broker: own}
        places = ",".join(map(str, self._connections.current.places.all))
        self._cursor.commit(StateChange(broker, state, progress, skip, batch.queued, kept, consumed, places))
        self._skip = skip

    def _transmit(self, batch: Batch, position: int) -> None:
        for peer, frame in batch.transmits:
            is_current = self._connections.is_current(peer)
            match frame:
                case Ack() if is_current:
                    continue  # the session confirms what arrived; the client, below, what it has consumed
                case Hello():
                    self._connections.send(peer, self._as_client(frame, peer, is_current=is_current))
                case Bye(ByeReason.BROKEN, reason) if is_current:
                    self._connections.send(peer, frame)
                    self._give_up(f"the session of {self._options.name!r} cannot go on: {reason}")
                case _:
                    self._connections.send(peer, frame)
        if self.is_up and (self._connections.current.peer in batch.up or position > self._confirmed):
            self._connections.current.send(Ack(position))
        self._confirmed = position  # without a connection, the next Hello says so

    def _as_client(self, hello: Hello, wants: Node, *, is_current: bool) -> Hello:
        received = min(self._confirmed, hello.received) if is_current else hello.received
        return msgspec.structs.replace(hello, role=CLIENT, received=received, wants=wants)

    def _give_up(self, reason: str) -> None:
        """End the session for good and delete its state; the next process starts anew."""
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
        self._silence()
        self._connections.end(str(error))
        self._client.on_end(error)

    def _silence(self) -> None:
        if self._alarm is not None:
            self._alarm.end()

    async def _keep_ticking(self) -> None:
        """Send heartbeats, and check the broker's."""
        while self._error is None:
            await asyncio.sleep(self._options.heartbeat)
            if self._endpoint is not None:
                self._endpoint.tick(now=time.monotonic())
                self.settle()
                if self.session.silence(time.monotonic()) > self._options.patience / ENQUIRIES_PER_PATIENCE:
                    self._look_elsewhere()
            self._connections.ping()

    def _look_elsewhere(self) -> None:
        """A broker that hangs, or whose machine is gone, ends no connection; another one may run elsewhere by now."""
        question = enquiry(self._options.name, self._epoch, self.machine.broker)
        self._connections.spawn(self._connections.look_elsewhere(question, self.session.peer_view))

    # Redirection ------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Go to the machine's broker, if it is another one since a redirection."""
        broker, former = self.machine.broker, self._connections.current.peer
        if former in (broker, None):
            return
        log.info("%s is redirected from %s to %s", self._options.name, former, broker)
        self._connections.go_to(broker, self._told(broker))
        self._confirmed = self.session.received
        self._client.on_new_broker(self._confirmed)

    def _told(self, broker: Node) -> str:
        """The address of a broker, as another one told it; empty if none did."""
        note = self.endpoint.upkeep.links.get(broker)
        return note.address if note is not None else ""

    # Handlers of connections ---------------------------------------------------------------------------------------

    def _on_made(self, connection: BrokerConnection) -> None:
        self.settle()  # what was meant for the former connection is not sent: the session repeats it
        if self._endpoint is None:
            connection.send(Hello(self._options.name, self._epoch, 0, 0, 1, role=CLIENT))
        elif connection.peer is not None:
            self._endpoint.connected(connection.peer, now=time.monotonic())
            self.settle()

    def _on_frame(self, connection: BrokerConnection, frame: Frame) -> None:
        if self._error is not None:
            return
        if isinstance(frame, Bye) and frame.why is ByeReason.BROKEN:
            self._broken(connection, frame.reason)
            return
        if isinstance(frame, Bye) and frame.why is ByeReason.DENIED:
            self._end(AccessDeniedError(self._options.name, frame.reason))
            return
        if isinstance(frame, Bye) and frame.why is ByeReason.ELSEWHERE:
            connection.told(read_told(frame.address))
        if isinstance(frame, Hello) and frame.fallbacks:
            connection.places.fall_back_on(frame.fallbacks)
        if self._endpoint is None and not self._meet(connection, frame):
            return
        assert self._endpoint is not None
        assert connection.peer is not None
        session = self._endpoint.sessions[connection.peer]
        epoch, known = session.peer_epoch, session.known_epoch
        self._endpoint.receive(connection.peer, frame, now=time.monotonic())
        if session.peer_epoch != epoch:
            self._on_new_epoch(connection, is_first=known in (0, session.peer_epoch))
        self._dispatch()
        self.settle_soon()

    def _on_data(self, connection: BrokerConnection, frames: list[Data]) -> None:
        if self._error is not None:
            return
        if self._endpoint is None:
            self._meet(connection, frames[0])
            return
        assert connection.peer is not None
        self._endpoint.receive_data(connection.peer, frames, now=time.monotonic())
        self._dispatch()
        self.settle_soon()

    def _on_lost(self, connection: BrokerConnection) -> None:
        if (
            self._endpoint is None
            or connection.peer is None
            or self._connections.to(connection.peer) not in (connection, None)
        ):
            return  # another connection to that broker has replaced it
        self._endpoint.disconnected(connection.peer)
        self.settle()
        if connection is not self._connections.current and not self._endpoint.sessions[connection.peer].unconfirmed:
            self._connections.let_go([connection.peer])

    # The broker ----------------------------------------------------------------------------------------------

    def _meet(self, connection: BrokerConnection, frame: Frame) -> bool:
        """The first broker has answered; True if the session begins."""
        match frame:
            case Hello(node=broker):
                connection.peer = broker
            case Bye(ByeReason.FENCED, reason):
                self._end(ClientFencedError(f"client {self._options.name!r} is fenced: {reason}"))
                return False
            case _:
                connection.close(frame.reason if isinstance(frame, Bye) else "no Hello")
                return False
        endpoint = self._make_endpoint(broker)
        endpoint.connected(broker, now=time.monotonic())
        endpoint.take_batch()  # its Hello was sent when the connection was made
        self.perform(self.machine.attach())
        return True

    def _make_endpoint(self, broker: Node) -> Endpoint:
        options = self._options
        machine = Machine(options.name, broker, own_events=options.own_events, incarnation=self._epoch)
        machine.is_observed = options.observer is not None
        self._machine = RecordingMachine(machine)
        config = SessionConfig(heartbeat=options.patience / HEARTBEATS_MISSED_MAX)
        self._endpoint = self._machine.endpoint = Endpoint(self._machine, self._epoch, config)
        self._alarm = Alarm(self._endpoint, time.monotonic, self.settle_soon)
        return self._endpoint

    def _on_new_epoch(self, connection: BrokerConnection, *, is_first: bool) -> None:
        """The broker is new to us, or has lost its memory since we met it or were redirected to it."""
        if connection is not self._connections.current:
            self._client.on_unknown_outcome("the broker that it was sent to lost its memory")
            return
        self._confirmed = self.session.received
        if is_first:
            self._client.on_new_broker(self._confirmed)
        else:
            self._client.on_broker_reset(self._confirmed)

    def _broken(self, connection: BrokerConnection, reason: str) -> None:
        """A broker has ended the session; a former one will not pass on what it has not passed on yet."""
        if connection is self._connections.current:
            self._give_up(f"the broker gave up {self._options.name!r}: {reason}")
        elif connection.peer is not None:
            self._client.on_unknown_outcome(f"{connection.peer} gave this client up: {reason}")
            self._connections.let_go([connection.peer])

    def _dispatch(self) -> None:
        assert self._machine is not None
        received, self._machine.received = self._machine.received, []
        for what, sequence in received:
            self._connections.hear(what)
            self._client.on_message(what, sequence)
        self._follow()


def tell(awaited: asyncio.Future[None] | None, error: ClientError | None) -> None:
    """Tell those who wait for a turn that it is settled, or which error prevented it."""
    if awaited is None or awaited.done():
        return
    if error is None:
        awaited.set_result(None)
    else:
        awaited.set_exception(error)
