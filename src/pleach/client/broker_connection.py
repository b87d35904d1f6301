"""The connection to one broker: dialled, greeted, lost, and dialled again, at one address after the other.

It knows addresses and frames; their meaning is its owner's business (session_driver.py). An address where another
broker answers is passed over, since the owner ends that connection.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence

import msgspec

from pleach.core.links.frames import Data, Frame
from pleach.core.messages import Node
from pleach.net.addresses import ADDRESSES_MAX, Address, backoff, why
from pleach.net.connection import CLOSE_SECONDS_MAX, Connection, Handlers, open_connection

ATTEMPT_SECONDS_MAX = 10.0  # to reach one address and to be greeted there
ANSWERED_PAUSE_SECONDS_MAX = 0.5  # before the next round, where other brokers answer: they will know more soon
STABLE_SECONDS_MIN = 1.0  # a connection that held this long was a good one: the next may be tried soon

log = logging.getLogger(__name__)


class ConnectionOwner(msgspec.Struct, frozen=True):
    """What the owner of a connection is told; the connection is always the first argument."""

    made: Callable[[BrokerConnection], None]
    frame: Callable[[BrokerConnection, Frame], None]
    data: Callable[[BrokerConnection, list[Data]], None]
    lost: Callable[[BrokerConnection], None]


class BrokerConnection:
    """`peer`: the broker at its other end; None until whoever answers has said its name."""

    def __init__(self, client: Node, peer: Node | None, addresses: Sequence[Address], owner: ConnectionOwner) -> None:
        self.peer = peer
        self.addresses = addresses
        self.refuge: Sequence[Address] = ()  # where to ask for the peer, once it answers nowhere
        self.patience = math.inf  # seconds without any connection
        self._client = client
        self._owner = owner
        self._connection: Connection | None = None
        self._greeted: asyncio.Future[None] | None = None  # of the attempt under way
        self._lost = asyncio.Event()
        self._is_over = False
        self._is_answered = False  # in this round, by some broker that knows the network
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
        """Both sides know where they stand."""
        if self._greeted is not None and not self._greeted.done():
            self._greeted.set_result(None)

    def told(self, addresses: Sequence[Address]) -> None:
        """Another broker has said where our peer stands, or that it does not know."""
        self._is_answered = True
        self.addresses = tuple(dict.fromkeys((*addresses, *self.addresses)))[:ADDRESSES_MAX]

    def close(self, reason: str) -> None:
        """End the connection, if there is one; the next one is dialled."""
        if self._connection is not None:
            self._connection.close(reason)

    def end(self, reason: str) -> None:
        """For good: nothing is dialled any more."""
        self._is_over = True
        self.close(reason)

    async def ended(self, reason: str) -> None:
        """End it, and wait until the last bytes have left."""
        self.end(reason)
        if self.is_connected:
            self._lost.clear()
            await self._wait_for_loss()

    # Dialling ------------------------------------------------------------------------------------------------

    async def keep_connected(self) -> bool:
        """Until it is ended; False where patience ended first."""
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
        """Try one address after the other; returns why each led nowhere, or nothing once one did."""
        attempts: dict[str, str] = {}
        self._is_answered = False
        while address := next((a for a in (*self.addresses, *self.refuge) if str(a) not in attempts), None):
            reason = await self._dial(address)
            if not reason:
                return {}
            attempts[str(address)] = reason
            if self._is_over:
                break
            log.debug("%s at %s: %s", self._client, address, reason)
        return attempts

    async def _dial(self, address: Address) -> str:
        self._greeted = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS_MAX):
                connection = await open_connection(address.host, address.port, self._handlers)
                self._connection = connection
                self._lost.clear()
                self._owner.made(self)
                await self._greeted
        except TimeoutError:
            await self._drop_connection("no answer")
            return f"no answer within {ATTEMPT_SECONDS_MAX:g} s"
        except OSError as error:
            return why(error)
        return ""

    async def _drop_connection(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.abort(reason)
            await self._wait_for_loss()

    async def _wait_for_loss(self) -> None:
        try:
            async with asyncio.timeout(2 * CLOSE_SECONDS_MAX):
                await self._lost.wait()
        except TimeoutError:
            log.warning("%s: the connection does not end", self._client)

    # What the connection tells -------------------------------------------------------------------------------

    def _on_frame(self, connection: Connection, frame: Frame) -> None:
        if connection is self._connection:
            self._owner.frame(self, frame)

    def _on_data(self, connection: Connection, frames: list[Data]) -> None:
        if connection is self._connection:
            self._owner.data(self, frames)

    def _on_lost(self, connection: Connection, reason: str) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._owner.lost(self)
        if self._greeted is not None and not self._greeted.done():
            self._greeted.set_exception(ConnectionError(reason))
        self._lost.set()
