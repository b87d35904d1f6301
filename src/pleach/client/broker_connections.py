"""A client's connections: to its broker, and to former brokers that have not confirmed all that it sent to them.

A connection is dialled, greeted, lost, and dialled again, at one address after the other. It knows addresses and
frames; what frames mean is its owner's business (session_driver.py), which also ends a connection to a wrong broker.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from typing import Any

import msgspec

from pleach.client.broker_places import BrokerPlaces, read_told
from pleach.core.events.event import Event
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import Bye, ByeReason, Challenge, Data, Frame, Hello, Ping
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import FallbackBrokers, Message, Node
from pleach.errors import CertificateError, TlsError
from pleach.net.addresses import ADDRESSES_MAX, Address, backoff, why
from pleach.net.client_login import PLAIN, Entry
from pleach.net.connection import CLOSE_SECONDS_MAX, Connection, Handlers, open_connection
from pleach.net.enquiry import Whereabouts, enquire, search
from pleach.net.own_tls import dialling_side

SOON_ATTEMPTS, SOON_SECONDS = 5, 0.2  # at a broker that is there, and lets nobody in yet
ANSWERED_PAUSE_SECONDS_MAX = 0.5  # before the next round, where other brokers answer: they will know more soon
STABLE_SECONDS_MIN = 1.0  # after a connection that held this long, the back-off starts anew
FORMER_SECONDS_MAX = 300.0  # for which a broker that redirected us is dialled, to tell it that we have gone
FAREWELL_SECONDS_MAX = 2.0  # for the farewell, when the client is closed

log = logging.getLogger(__name__)


class ConnectionOwner(msgspec.Struct, frozen=True):
    """Handlers of a connection's owner; the connection is always the first argument."""

    made: Callable[[BrokerConnection], None]
    frame: Callable[[BrokerConnection, Frame], None]
    data: Callable[[BrokerConnection, list[Data]], None]
    lost: Callable[[BrokerConnection], None]
    entry: Entry = PLAIN


class BrokerConnection:
    """`peer`: the broker at its other end; None until its Hello is read."""

    def __init__(
        self,
        client: Node,
        peer: Node | None,
        addresses: Sequence[Address],
        owner: ConnectionOwner,
    ) -> None:
        self.peer = peer
        self.places = BrokerPlaces(addresses)
        self.patience = math.inf  # seconds without any connection
        self._client = client
        self._owner = owner
        self._login = owner.entry.login
        self._connection: Connection | None = None
        self._greeted: asyncio.Future[None] | None = None  # of the attempt under way
        self._lost = asyncio.Event()
        self._is_over = False
        self.refusal: TlsError | None = None  # why TLS was refused, at the last attempt
        self._is_answered = False  # in this round, by another broker of the network
        self._is_soon = False  # the broker has answered, and lets clients in later
        self._handlers = Handlers(self._on_frame, self._on_lost, on_data=self._on_data)

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def is_greeted(self) -> bool:
        greeted = self._greeted
        return self.is_connected and greeted is not None and greeted.done() and not greeted.exception()

    def send(self, frame: Frame) -> None:
        if self._connection is not None:
            self._connection.send(frame)

    def greeted(self) -> None:
        """The session is up: the attempt has succeeded."""
        self.places.answered()
        if self._greeted is not None and not self._greeted.done():
            self._greeted.set_result(None)

    def told(self, addresses: Sequence[Address]) -> None:
        """Another broker has said where our peer listens, or that it does not know."""
        self._is_answered = True
        self.places.told(addresses)

    def close(self, reason: str) -> None:
        """End the connection, if there is one; the next one is dialled."""
        if self._connection is not None:
            self._connection.close(reason)

    def end(self, reason: str) -> None:
        """End the connection and dial no more."""
        self._is_over = True
        self.close(reason)

    async def ended(self, reason: str) -> None:
        """End it, and wait until the last bytes are sent."""
        self.end(reason)
        if self.is_connected:
            self._lost.clear()
            await self._wait_for_loss()

    # Dialling ------------------------------------------------------------------------------------------------

    async def keep_connected(self) -> bool:
        """Dial until it is ended; False if `patience` ended first."""
        pauses = backoff()
        heard_at = time.monotonic()
        while not self._is_over:
            if self.is_connected:
                since = time.monotonic()
                await self._lost.wait()
                heard_at = time.monotonic()
                pauses = backoff() if heard_at - since > STABLE_SECONDS_MIN else pauses
            elif not await self.dial_all():
                continue
            elif time.monotonic() - heard_at > self.patience:
                return False
            pause = next(pauses)
            await asyncio.sleep(min(pause, ANSWERED_PAUSE_SECONDS_MAX) if self._is_answered else pause)
        return True

    async def dial_all(self) -> dict[str, str]:
        """Try one address after the other; returns why each failed, or nothing if one succeeded."""
        attempts: dict[str, str] = {}
        self._is_answered = False
        while address := next((each for each in self.places.all if str(each) not in attempts), None):
            reason = await self._dial_patiently(address)
            if not reason:
                return {}
            attempts[str(address)] = reason
            if self._is_over:
                break
            log.debug("%s at %s: %s", self._client, address, reason)
        return attempts

    async def _dial_patiently(self, address: Address) -> str:
        """A broker that was just promoted lets clients in once it has a copy elsewhere: it is asked again first."""
        for _ in range(SOON_ATTEMPTS):
            self._is_soon = False
            reason = await self._dial(address)
            if not self._is_soon or self._is_over:
                break
            await asyncio.sleep(SOON_SECONDS)
        return reason

    async def _dial(self, address: Address) -> str:
        self._greeted = asyncio.get_running_loop().create_future()
        self.refusal = None
        seconds = self.places.seconds_for(address)
        try:
            async with asyncio.timeout(seconds):
                side = dialling_side(self._owner.entry.tls) if self._owner.entry.tls is not None else None
                connection = await open_connection(address.host, address.port, self._handlers, side)
                self._connection = connection
                self._lost.clear()
                self._log_in(connection)
                await self._greeted
        except TimeoutError:
            self.places.timed_out(address)
            await self._drop_connection("no answer")
            return f"no answer within {seconds:g} s"
        except TlsError as error:
            self.refusal = error
            return str(error)
        except CertificateError as error:  # while new files are written, for example
            return str(error)
        except OSError as error:
            return why(error)
        return ""

    def _log_in(self, connection: Connection) -> None:
        if (opening := self._login.opening(self._client)) is not None:
            connection.send(opening)
        if not self._login.awaits_challenge:
            self._owner.made(self)

    async def _drop_connection(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.abort(reason)
            await self._wait_for_loss()

    async def _wait_for_loss(self) -> None:
        try:
            async with asyncio.timeout(2 * CLOSE_SECONDS_MAX):
                await self._lost.wait()
        except TimeoutError:
            log.warning("%s: the connection was not closed in time", self._client)

    # Handlers of the connection -------------------------------------------------------------------------------

    def _on_frame(self, connection: Connection, frame: Frame) -> None:
        if connection is not self._connection:
            return
        if isinstance(frame, Bye) and frame.why is ByeReason.LEAVING:
            self._is_soon = not self.is_greeted
        if isinstance(frame, Challenge):
            self._answer(connection, frame)
        else:
            self._owner.frame(self, frame)

    def _answer(self, connection: Connection, challenge: Challenge) -> None:
        if not self._login.awaits_challenge:
            connection.abort("a challenge that nobody asked for")
            return
        connection.send(self._login.answer(challenge, connection.peer_certificate, self._client))
        self._owner.made(self)

    def _on_data(self, connection: Connection, frames: list[Data]) -> None:
        if connection is self._connection:
            self._owner.data(self, frames)

    def _on_lost(self, connection: Connection, reason: str) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._owner.lost(self)
        if self._greeted is not None and not self._greeted.done():
            failure = connection.tls.failure if connection.tls is not None else None
            self._greeted.set_exception(failure or ConnectionError(reason))
        self._lost.set()


class BrokerConnections:
    def __init__(self, client: Node, addresses: Sequence[Address], owner: ConnectionOwner) -> None:
        self._client = client
        self._addresses = tuple(addresses)  # to try beside those that brokers tell
        self._owner = owner
        self.current = BrokerConnection(client, None, self._addresses, owner)
        self.formers: dict[Node, BrokerConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._context = copy_context()  # how to dial (net/dial.py) depends on who made the client, not on who uses it

    @property
    def all(self) -> list[BrokerConnection]:
        return [self.current, *self.formers.values()]

    def to(self, peer: Node) -> BrokerConnection | None:
        return self.current if self.is_current(peer) else self.formers.get(peer)

    def is_current(self, peer: Node) -> bool:
        return self.current.peer == peer

    def send(self, peer: Node, frame: Frame) -> None:
        if connection := self.to(peer):
            connection.send(frame)

    def hear(self, what: Message | list[Event]) -> None:
        """Note the fallback brokers that our broker names, in case it dies."""
        if isinstance(what, FallbackBrokers):
            self.current.places.fall_back_on(what.addresses)

    # Which brokers ----------------------------------------------------------------------------------

    def begin_at(self, broker: Node, told: str, known: str) -> None:
        """Begin with the broker of a former process. `told`: its address as a broker told it, or empty. `known`: all
        addresses that were known then."""
        self.current = self._made(broker, told)
        self.current.places.fall_back_on([known])

    def go_to(self, broker: Node, told: str) -> None:
        """Our broker has redirected us to another one."""
        former = self.current
        assert former.peer is not None
        self.let_go([broker])  # if it was one of the former
        self.formers[former.peer] = former
        former.patience = FORMER_SECONDS_MAX
        self.current = self._made(broker, told)
        self.current.places.fall_back_on(map(str, former.places.all))  # until it has told its own
        self.keep(self.current)

    async def look_elsewhere(self, question: Hello, view: int) -> None:
        """Our broker is silent: leave the connection if others know that it was promoted elsewhere, in a later view."""
        connection, entry = self.current, self._owner.entry

        async def ask(text: str) -> Whereabouts | None:
            try:
                side = dialling_side(entry.tls) if entry.tls is not None else None
            except CertificateError:  # while new files are written, for example
                return None
            told = read_told(text)
            return await enquire(told[0], question, side, entry.login) if told else None

        found = await search(ask, map(str, connection.places.all), lambda each: each.view > view)
        if found is not None and connection is self.current:
            log.info("%s: %s is in view %d by now, at %s", self._client, connection.peer, found.view, found.address)
            connection.told(read_told(found.address))
            connection.close(f"its broker is at {found.address}")

    def recall_formers(self, endpoint: Endpoint) -> None:
        """Connect to brokers that have not confirmed all that a former process sent to them."""
        for peer, note in endpoint.upkeep.links.items():
            is_retiring = note.phase is LinkPhase.RETIRING and peer not in self.formers
            if is_retiring and endpoint.sessions[peer].unconfirmed:
                self._remember(peer, note.address)

    def _remember(self, former: Node, told: str) -> None:
        connection = self.formers[former] = self._made(former, told)
        connection.patience = FORMER_SECONDS_MAX
        self.keep(connection)

    def let_go(self, formers: Sequence[Node]) -> None:
        for peer in formers:
            connection = self.formers.pop(peer, None)
            if connection is not None:
                connection.end("done")

    def _made(self, broker: Node, told: str) -> BrokerConnection:
        """The told address is tried first, also for later brokers."""
        self._addresses = tuple(dict.fromkeys((*read_told(told), *self._addresses)))[:ADDRESSES_MAX]
        return BrokerConnection(self._client, broker, self._addresses, self._owner)

    # Tasks --------------------------------------------------------------------------------------------

    def keep(self, connection: BrokerConnection) -> None:
        self.spawn(self._keep(connection))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, context=self._context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keep(self, connection: BrokerConnection) -> None:
        if not await connection.keep_connected() and connection.peer is not None:
            log.warning(
                "%s: %s does not answer; whether it received all that was sent is unknown",
                self._client,
                connection.peer,
            )
            self.let_go([connection.peer])

    def ping(self) -> None:
        for connection in self.all:
            if connection.is_greeted:
                connection.send(Ping())

    def end(self, reason: str) -> None:
        for connection in self.all:
            connection.end(reason)

    async def await_farewells(self) -> None:
        deadline = time.monotonic() + FAREWELL_SECONDS_MAX
        while self.formers and time.monotonic() < deadline:  # noqa: ASYNC110 - bounded, and rarely more than once
            await asyncio.sleep(FAREWELL_SECONDS_MAX / 100)

    async def cancel_tasks(self) -> None:
        """Cancel all tasks."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
