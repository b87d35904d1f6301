"""What keeps a client's session alive over connections that come and go.

    addresses ── dial ──▶ Connection ◀──▶ Endpoint (session, client machine) ──▶ batch ──▶ disk ──▶ frames

Everything that happens in one turn of the event loop is one batch: requests, replies, confirmations. `settle` ends it.

A client that starts does not know its broker's name: it greets whoever answers, and learns the name from the answer.
From then on the session belongs to that broker, and an address where another one answers is passed over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

import msgspec

from pleach.client import Client as Machine
from pleach.effects import Effect
from pleach.errors import ClientError, ClientFencedError, ConnectError, SessionLostError, StoreError
from pleach.events.event import Event, Value
from pleach.links.endpoint import Batch, Endpoint, Progress, Saved
from pleach.links.frames import Ack, Bye, Data, Farewell, Frame, Hello, Ping
from pleach.links.session import HEARTBEATS_MISSED_MAX, Phase, Session, SessionConfig
from pleach.links.upkeep import EndpointState
from pleach.live.addresses import Address, backoff, why
from pleach.live.connection import CLOSE_SECONDS_MAX, Connection, Handlers, open_connection
from pleach.live.cursor import Change, Cursor
from pleach.live.listener import Hearer, Listener, Options
from pleach.messages import Node, pack

ATTEMPT_SECONDS_MAX = 10.0  # to reach one address and to be greeted there
STABLE_SECONDS_MIN = 1.0  # a connection that held this long was a good one: the next may be tried soon

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
        self._skip = 0  # messages of the next payload that are consumed, as our disk has it
        self._connection: Connection | None = None
        self._greeted: asyncio.Future[None] | None = None  # of the attempt under way
        self._lost = asyncio.Event()
        self._error: ClientError | None = None
        self._settling: asyncio.Handle | None = None
        self._settled: asyncio.Future[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._handlers = Handlers(self._on_frame, self._on_lost, on_data=self._on_data)

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

    def recall(self) -> tuple[Sequence[tuple[int, Event]], int]:
        """Take over what a former process left; returns the events that it kept, and what to skip (cursor.py)."""
        if self._options.state_dir is None:
            return [], 0
        self._cursor = Cursor(self._options.state_dir, self._options.name)
        remembered = self._cursor.load()
        if remembered is None:
            return [], 0
        self._epoch = remembered.session.epoch
        endpoint = self._make_endpoint(remembered.broker)
        state = pack(EndpointState(remembered.machine, {}))
        endpoint.recover(Saved(state, [], {remembered.broker: remembered.session}), now=time.monotonic())
        self._confirmed, self._skip = remembered.session.received, remembered.skip
        return remembered.kept, remembered.skip

    async def start(self) -> None:
        """Connect; raises ConnectError when no address has led anywhere in time."""
        deadline = time.monotonic() + self._options.connect_timeout
        for pause in backoff():
            attempts = await self._dial_all()
            if self._error is not None:
                raise self._error
            if not attempts:
                break
            if time.monotonic() + pause > deadline:
                raise ConnectError(attempts)
            await asyncio.sleep(pause)
        self._tasks = [asyncio.create_task(self._keep_connected()), asyncio.create_task(self._keep_ticking())]

    async def stop(self, reason: str) -> None:
        """Say goodbye and end. Unless this is called, the session waits for us to come back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.settle()
        if self._connection is not None and self._endpoint is not None:
            self._endpoint.leave(reason)
            self.settle()
        if self._connection is not None:
            self._lost.clear()
            self._connection.close(reason)
            await self._wait_for_loss()
        if self._cursor is not None:
            self._cursor.close()

    def perform(self, effects: Sequence[Effect]) -> None:
        """Carry out what the machine wants done, with all else that happens in this turn."""
        assert self._endpoint is not None, "not started"
        self._endpoint.perform(effects, now=time.monotonic())
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
        for _, reason in batch.hangups:
            log.info("%s leaves the connection: %s", self._options.name, reason)
            if self._connection is not None:
                self._connection.close(reason)
        for _, reason in batch.fenced:
            self._end(ClientFencedError(f"client {self._options.name!r} is fenced: {reason}"))
        if batch.up and self._greeted is not None and not self._greeted.done():
            self._greeted.set_result(None)

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
        if self._cursor is None:
            return
        skip = self._hearer.consumed_after(position)
        has_moved = (position, skip) != (self._confirmed, self._skip)
        if not (batch.changes_disk or kept or consumed or has_moved):
            return
        machine, session = self.machine, self.session
        progress = Progress(self._epoch, session.peer_epoch, position, session.first)
        self._cursor.commit(Change(machine.broker, machine.capture(), progress, skip, batch.queued, kept, consumed))
        self._skip = skip

    def _transmit(self, batch: Batch, position: int) -> None:
        for _, frame in batch.transmits:
            match frame:
                case Data():
                    self._send(frame)
                case Ack():
                    continue  # the session confirms what arrived; we confirm what may be forgotten, below
                case Hello():
                    self._send(self._as_client(frame))
                case Bye(Farewell.BROKEN, reason):
                    self._send(frame)
                    self._give_up(f"the session of {self._options.name!r} cannot go on: {reason}")
                case _:
                    self._send(frame)
        if self.is_up and (batch.up or position > self._confirmed):
            self._send(Ack(position))
        self._confirmed = position  # where we are not connected, the next Hello says so

    def _as_client(self, hello: Hello) -> Hello:
        return msgspec.structs.replace(hello, role="client", received=min(self._confirmed, hello.received))

    def _send(self, frame: Frame) -> None:
        if self._connection is not None:
            self._connection.send(frame)

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
        if self._connection is not None:
            self._connection.close(str(error))
        self._hearer.hear_end(error)

    # Connections ---------------------------------------------------------------------------------------------

    async def _keep_connected(self) -> None:
        pauses = backoff()
        while self._error is None:
            since = time.monotonic()
            await self._lost.wait()
            if time.monotonic() - since > STABLE_SECONDS_MIN:
                pauses = backoff()
            await asyncio.sleep(next(pauses))
            if self._error is None:
                await self._dial_all()

    async def _keep_ticking(self) -> None:
        """Our signs of life, and the watch over the broker's."""
        while self._error is None:
            await asyncio.sleep(self._options.heartbeat)
            if self._endpoint is not None:
                self._endpoint.tick(now=time.monotonic())
                self.settle()
            if self.is_up:
                self._send(Ping())

    async def _dial_all(self) -> dict[str, str]:
        """Try one address after the other; returns why each led nowhere, or nothing once one did."""
        attempts: dict[str, str] = {}
        for address in self._options.addresses:
            reason = await self._dial(address)
            if not reason:
                return {}
            if self._error is not None:
                break
            log.debug("%s at %s: %s", self._options.name, address, reason)
            attempts[str(address)] = reason
        return attempts

    async def _dial(self, address: Address) -> str:
        self._greeted = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS_MAX):
                self._adopt(await open_connection(address.host, address.port, self._handlers))
                await self._greeted
        except TimeoutError:
            await self._drop_connection("no answer")
            return f"no answer within {ATTEMPT_SECONDS_MAX:g} s"
        except OSError as error:
            return why(error)
        return ""

    def _adopt(self, connection: Connection) -> None:
        self.settle()  # what was meant for the former connection goes nowhere: the session sends it again
        self._connection = connection
        self._lost.clear()
        if self._endpoint is None:
            connection.send(Hello(self._options.name, self._epoch, 0, 0, 1, role="client"))
        else:
            self._endpoint.connected(self.machine.broker, now=time.monotonic())
            self.settle()

    async def _drop_connection(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.abort(reason)
            await self._wait_for_loss()

    async def _wait_for_loss(self) -> None:
        try:
            async with asyncio.timeout(2 * CLOSE_SECONDS_MAX):
                await self._lost.wait()
        except TimeoutError:
            log.warning("%s: the connection does not end", self._options.name)

    def _on_frame(self, connection: Connection, frame: Frame) -> None:
        if connection is not self._connection or self._error is not None:
            return
        if isinstance(frame, Bye) and frame.why is Farewell.BROKEN:
            self._give_up(f"the broker gave up {self._options.name!r}: {frame.reason}")
            return
        if self._endpoint is None and not self._meet(connection, frame):
            return
        assert self._endpoint is not None
        life = self.session.peer_epoch
        self._endpoint.receive(self.machine.broker, frame, now=time.monotonic())
        if self.session.peer_epoch != life:
            self._confirmed = self.session.received
            self._hearer.hear_birth(self._confirmed)
        self._tell_what_was_heard()
        self.settle_soon()

    def _on_data(self, connection: Connection, frames: list[Data]) -> None:
        if connection is not self._connection or self._error is not None:
            return
        if self._endpoint is None:
            self._meet(connection, frames[0])
            return
        self._endpoint.receive_data(self.machine.broker, frames, now=time.monotonic())
        self._tell_what_was_heard()
        self.settle_soon()

    def _on_lost(self, connection: Connection, reason: str) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        if self._endpoint is not None:
            self._endpoint.disconnected(self.machine.broker)
            self.settle()
        if self._greeted is not None and not self._greeted.done():
            self._greeted.set_exception(ConnectionError(reason))
        self._lost.set()

    # The broker ----------------------------------------------------------------------------------------------

    def _meet(self, connection: Connection, frame: Frame) -> bool:
        """The first answer of the first broker: from here on there is a session."""
        match frame:
            case Hello(node=broker):
                pass
            case Bye(Farewell.FENCED, reason):
                self._end(ClientFencedError(f"client {self._options.name!r} is fenced: {reason}"))
                return False
            case _:
                connection.close(frame.reason if isinstance(frame, Bye) else "no Hello")
                return False
        endpoint = self._make_endpoint(broker)
        endpoint.connected(broker, now=time.monotonic())
        endpoint.take_batch()  # the Hello in it is the one that was sent when the connection was made
        self.perform(self.machine.attach())
        return True

    def _make_endpoint(self, broker: Node) -> Endpoint:
        options = self._options
        machine = Machine(options.name, broker, own_events=options.own_events, incarnation=self._epoch)
        machine.is_observed = options.observer is not None
        self._listener = Listener(machine)
        config = SessionConfig(heartbeat=options.patience / HEARTBEATS_MISSED_MAX)
        self._endpoint = self._listener.endpoint = Endpoint(self._listener, self._epoch, config)
        return self._endpoint

    def _tell_what_was_heard(self) -> None:
        assert self._listener is not None
        heard, self._listener.heard = self._listener.heard, []
        for what, sequence in heard:
            self._hearer.hear(what, sequence)
