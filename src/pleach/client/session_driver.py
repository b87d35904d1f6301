"""What keeps a client's session alive over connections that come and go, and over brokers that send it elsewhere.

    addresses ── Strand ──▶ Connection ◀──▶ Endpoint (sessions, client machine) ──▶ batch ──▶ disk ──▶ frames

Everything that happens in one turn of the event loop is one batch: requests, replies, confirmations. `settle` ends it.

A client that starts does not know its broker's name: it greets whoever answers, and learns the name from the answer.
From then on the session belongs to that broker, and an address where another one answers is passed over.

A broker that leaves the tree sends the client to another one, to which there is a connection from then on; the one to
the former broker stays until that has confirmed what was sent. What it delivered is ours alone, and is confirmed at
once: a client with a disk has written it down.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

import msgspec

from pleach.client.broker_connection import BrokerConnection, ConnectionOwner
from pleach.client.broker_connections import BrokerConnections, read_told
from pleach.client.listener import ClientOptions, Hearer, Listener, made_machine
from pleach.client.state_file import StateChange, StateFile
from pleach.core.client.machine import ClientMachine as Machine
from pleach.core.client.returning import is_of_returning
from pleach.core.effects import Effect
from pleach.core.events.event import Event, Value
from pleach.core.links.endpoint import Batch, Endpoint, Progress, Saved
from pleach.core.links.frames import CLIENT, GUARDED, STAND_IN, Ack, Bye, ByeReason, Data, Frame, Hello
from pleach.core.links.session import HEARTBEATS_MISSED_MAX, Session, SessionConfig, SessionPhase
from pleach.core.links.upkeep import EndpointState
from pleach.core.messages import Node, unpack
from pleach.errors import ClientError, ClientFencedError, ConnectError, SessionLostError, StoreError
from pleach.net.addresses import backoff
from pleach.net.alarm import Alarm
from pleach.net.turn import LoopTurn, tell

log = logging.getLogger(__name__)


class SessionDriver:
    def __init__(self, options: ClientOptions, hearer: Hearer) -> None:
        self._options = options
        self._hearer = hearer
        self._cursor: StateFile | None = None
        self._listener: Listener | None = None
        self._endpoint: Endpoint | None = None
        self._alarm: Alarm | None = None  # of the machine's timers
        self._epoch = time.time_ns()
        self._confirmed = 0  # how far the broker was told that we have got
        self._skip = 0  # messages of the next payload that are consumed, as our disk has it
        owner = ConnectionOwner(self._on_made, self._on_frame, self._on_data, self._on_lost)
        self._connections = BrokerConnections(options.name, options.addresses, owner)
        self._error: ClientError | None = None
        self._turn = LoopTurn(self.settle)

    @property
    def machine(self) -> Machine:
        assert self._listener is not None, "not started"
        return self._listener.inner

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
    def returns(self) -> bool:
        """Whether this client could come back to a stand-in of its broker."""
        return self._listener is not None and self._listener.returns

    @property
    def is_up(self) -> bool:
        return self._endpoint is not None and self.session.phase is SessionPhase.UP

    # What the client does ------------------------------------------------------------------------------------

    def recall(self) -> tuple[Sequence[tuple[int, Event]], int]:
        """Take over what a former process left; returns the events that it kept, and what to skip (state_file.py)."""
        if self._options.state_dir is None:
            return [], 0
        self._cursor = StateFile(self._options.state_dir, self._options.name)
        remembered = self._cursor.load()
        if remembered is None:
            return [], 0
        self._epoch = remembered.epoch
        returns = is_of_returning(unpack(remembered.state, EndpointState).machine)
        endpoint = self._make_endpoint(remembered.broker, returns=returns)
        endpoint.recover(Saved(remembered.state, [], remembered.sessions), now=time.monotonic())
        self._confirmed, self._skip = self.session.received, remembered.skip
        self._connections.begin_at(remembered.broker, self._told(remembered.broker))
        return remembered.kept, remembered.skip

    async def start(self) -> None:
        """Connect; raises ConnectError when no address has led anywhere in time."""
        deadline = time.monotonic() + self._options.connect_timeout
        for pause in backoff():
            attempts = await self._connections.current.dial_all()
            if self._error is not None:
                raise self._error
            if not attempts:
                break
            if time.monotonic() + pause > deadline:
                raise ConnectError(attempts)
            await asyncio.sleep(pause)
        self._connections.keep(self._connections.current)
        self._connections.spawn(self._keep_ticking())
        self._connections.recall_formers(self.endpoint)

    async def stop(self, reason: str) -> None:
        """Say goodbye and end. Unless this is called, the session waits for us to come back."""
        if self._error is None:
            await self._connections.say_farewells()
        await self._connections.rest()
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
        """Carry out what the machine wants done, with all else that happens in this turn."""
        self.endpoint.perform(effects, now=time.monotonic())
        self.settle_soon()

    def publish(self, attributes: Mapping[str, Value], payload: bytes) -> Event:
        """Publish, with all else that happens in this turn. Where nobody observes, that takes a shorter way."""
        machine, endpoint = self.machine, self._endpoint
        assert endpoint is not None, "not started"
        is_free = machine.may_publish and not machine.is_observed
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
        """Wait until all that has happened so far is on disk, where there is one; raises if that can no longer be."""
        if self._error is not None:
            raise self._error
        await self._turn.ended()

    # Batches -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """End the turn: what happened goes to disk, then out."""
        awaited = self._turn.end()
        if self._endpoint is not None and self._error is None:
            self._settle(self._endpoint)
        tell(awaited, self._error)

    def _settle(self, endpoint: Endpoint) -> None:
        batch = endpoint.take_batch()
        position = max(self._confirmed, self._hearer.confirmable(self._confirmed))
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
            log.info("%s leaves the connection: %s", self._options.name, reason)
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
        kept, consumed = self._hearer.changes()
        if self._cursor is None:
            return
        skip = self._hearer.consumed_after(position)
        has_moved = (position, skip) != (self._confirmed, self._skip)
        if not (batch.changes_disk or kept or consumed or has_moved):
            return
        assert self._endpoint is not None
        session, broker = self.session, self.machine.broker
        own = Progress(self._epoch, session.peer_epoch, position, session.first)
        state, progress = self._endpoint.capture(), {**batch.progress, broker: own}
        self._cursor.commit(StateChange(broker, state, progress, skip, batch.queued, kept, consumed))
        self._skip = skip

    def _transmit(self, batch: Batch, position: int) -> None:
        for peer, frame in batch.transmits:
            is_current = self._connections.is_current(peer)
            match frame:
                case Ack() if is_current:
                    continue  # the session confirms what arrived; we confirm what may be forgotten, below
                case Hello():
                    self._connections.send(peer, self._as_client(frame, peer, is_current=is_current))
                case Bye(ByeReason.BROKEN, reason) if is_current:
                    self._connections.send(peer, frame)
                    self._give_up(f"the session of {self._options.name!r} cannot go on: {reason}")
                case _:
                    self._connections.send(peer, frame)
        if self.is_up and (self._connections.current.peer in batch.up or position > self._confirmed):
            self._connections.current.send(Ack(position))
        self._confirmed = position  # where we are not connected, the next Hello says so

    def _as_client(self, hello: Hello, wants: Node, *, is_current: bool) -> Hello:
        received = min(self._confirmed, hello.received) if is_current else hello.received
        return msgspec.structs.replace(hello, role=CLIENT, received=received, wants=wants)

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
        self._silence()
        self._connections.end(str(error))
        self._hearer.hear_end(error)

    def _silence(self) -> None:
        if self._alarm is not None:
            self._alarm.end()

    async def _keep_ticking(self) -> None:
        """Our signs of life, and the watch over the broker's."""
        while self._error is None:
            await asyncio.sleep(self._options.heartbeat)
            if self._endpoint is not None:
                self._endpoint.tick(now=time.monotonic())
                self.settle()
            self._connections.ping()

    # Being sent elsewhere ------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """The machine has said farewell to its broker, if it was told to: on to the next."""
        broker, former = self.machine.broker, self._connections.current.peer
        if former in (broker, None):
            return
        log.info("%s is sent from %s to %s", self._options.name, former, broker)
        self._connections.go_to(broker, self._told(broker))
        self._confirmed = self.session.received
        self._hearer.hear_move(self._confirmed)

    def _told(self, broker: Node) -> str:
        """Where a broker was said to be; empty if that was not said."""
        note = self.endpoint.upkeep.links.get(broker)
        return note.address if note is not None else ""

    # What connections tell ---------------------------------------------------------------------------------------

    def _on_made(self, connection: BrokerConnection) -> None:
        self.settle()  # what was meant for the former connection goes nowhere: the session sends it again
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
        if isinstance(frame, Bye) and frame.why is ByeReason.ELSEWHERE:
            connection.told(read_told(frame.address))
        if self._endpoint is None and not self._meet(connection, frame):
            return
        assert self._endpoint is not None
        assert connection.peer is not None
        session = self._endpoint.sessions[connection.peer]
        life, known = session.peer_epoch, session.known_epoch
        if isinstance(frame, Hello) and self._listener is not None:
            self._listener.is_stand_in = frame.role == STAND_IN
        self._endpoint.receive(connection.peer, frame, now=time.monotonic())
        if session.peer_epoch != life:
            self._new_life(connection, is_first=known in (0, session.peer_epoch))
        self._tell_what_was_heard()
        self.settle_soon()

    def _on_data(self, connection: BrokerConnection, frames: list[Data]) -> None:
        if self._error is not None:
            return
        if self._endpoint is None:
            self._meet(connection, frames[0])
            return
        assert connection.peer is not None
        self._endpoint.receive_data(connection.peer, frames, now=time.monotonic())
        self._tell_what_was_heard()
        self.settle_soon()

    def _on_lost(self, connection: BrokerConnection) -> None:
        if (
            self._endpoint is None
            or connection.peer is None
            or self._connections.to(connection.peer) not in (connection, None)
        ):
            return  # there is another one to that broker by now
        self._endpoint.disconnected(connection.peer)
        self.settle()
        if connection is not self._connections.current and not self._endpoint.sessions[connection.peer].unconfirmed:
            self._connections.let_go([connection.peer])

    # The broker ----------------------------------------------------------------------------------------------

    def _meet(self, connection: BrokerConnection, frame: Frame) -> bool:
        """The first answer of the first broker: from here on there is a session."""
        match frame:
            case Hello(node=broker, role=role):
                connection.peer = broker
            case Bye(ByeReason.FENCED, reason):
                self._end(ClientFencedError(f"client {self._options.name!r} is fenced: {reason}"))
                return False
            case _:
                connection.close(frame.reason if isinstance(frame, Bye) else "no Hello")
                return False
        endpoint = self._make_endpoint(broker, returns=role in (GUARDED, STAND_IN))
        endpoint.connected(broker, now=time.monotonic())
        endpoint.take_batch()  # the Hello in it is the one that was sent when the connection was made
        self.perform(self.machine.attach())
        return True

    def _make_endpoint(self, broker: Node, *, returns: bool) -> Endpoint:
        self._listener = Listener(made_machine(self._options, broker, self._epoch, returns=returns))
        config = SessionConfig(heartbeat=self._options.patience / HEARTBEATS_MISSED_MAX)
        self._endpoint = self._listener.endpoint = Endpoint(self._listener, self._epoch, config)
        self._alarm = Alarm(self._endpoint, time.monotonic, self.settle_soon)
        return self._endpoint

    def _new_life(self, connection: BrokerConnection, *, is_first: bool) -> None:
        """A broker that we meet for the first time, or that has lost its memory since we met it, or were sent to it."""
        if connection is not self._connections.current:
            self._hearer.hear_doubt("the broker that it was sent to lost its memory")
            return
        self._confirmed = self.session.received
        assert self._listener is not None
        if is_first:
            self._hearer.hear_move(self._confirmed)
        elif self._listener.returns and self._listener.is_stand_in:
            self._hearer.hear_return(self._confirmed)
        else:
            self._hearer.on_broker_reset(self._confirmed)

    def _broken(self, connection: BrokerConnection, reason: str) -> None:
        """A former broker has given us up: what it had not passed on, it will not."""
        if connection is self._connections.current:
            self._give_up(f"the broker gave up {self._options.name!r}: {reason}")
        elif connection.peer is not None:
            self._hearer.hear_doubt(f"{connection.peer} gave this client up: {reason}")
            self._connections.let_go([connection.peer])

    def _tell_what_was_heard(self) -> None:
        assert self._listener is not None
        heard, self._listener.heard = self._listener.heard, []
        for what, sequence in heard:
            self._connections.hear(what)
            self._hearer.hear(what, sequence)
        self._follow()
