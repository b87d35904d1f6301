"""Connections between processes that hold copies of brokers, or run them, over the ports for peers.

    send(broker, machine, address, …) ──▶ the connection of this broker and machine ──┐
                                      └─▶ a connection to the machine's host process ──┼──▶ parts of up to 1 MiB
                                      └─▶ dialled, at most every quarter of a second ──┘

Rule 1: a connection carries the messages of all brokers. Each side's first frame is a Hello of role `standby`: the name
        of its process, for which its certificate is checked, and its machine.
Rule 2: messages to a broker's member on a machine stay on one connection while it lasts: they arrive in order, or not
        at all. If another process of that machine speaks for the broker (it was promoted there), they go to that one.
Rule 3: whatever cannot be sent is dropped: members say again what matters. Whoever has sent something over a connection
        that ends, or that is left for another one, is told (`lost`).
Rule 4: a process that is called like its machine speaks for all brokers; any other one runs the broker of its name
        there, and speaks for that one only.
Rule 5: memory is bounded: of what waits to be sent on a connection, of what waits for a connection, and of all messages
        whose last part has not come yet.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from pleach.core.links.frames import (
    PROTOCOL_VERSION,
    STANDBY,
    Bye,
    ByeReason,
    Data,
    Frame,
    Hello,
    Ping,
    StandbyPart,
)
from pleach.core.messages import Node
from pleach.core.standby.views import Machine
from pleach.errors import SettingsError, StandbyMessageError, TlsError
from pleach.net.addresses import parse_address
from pleach.net.connection import Connection, Handlers, open_connection
from pleach.net.tls_layer import TlsSide
from pleach.server.bugs import watched
from pleach.server.crash_hook import CrashHook
from pleach.server.standby.messages import BetweenMachines, HostIsHere, decode_between, encode_between
from pleach.server.standby.registers import display
from pleach.server.ticking import TICKS_PER_HEARTBEAT, keep_ticking

PART_BYTES = 1_048_576
MESSAGE_BYTES_MAX = 1_073_741_824
UNSENT_BYTES_MAX = 268_435_456  # of a connection: more is not kept for a machine that does not read
WAITING_BYTES_MAX = 1_048_576  # for a connection that is being made
CONNECTIONS_MAX = 1_024
DIAL_SECONDS_MIN, DIAL_SECONDS_MAX = 0.25, 0.5  # between attempts
ATTEMPT_SECONDS_MAX = 2.0
HEARTBEATS_MISSED_MAX = 3
IDLE_SECONDS_MAX = 60.0  # without a message: nobody needs the connection any more

log = logging.getLogger(__name__)


class Receiver(Protocol):
    """A broker's member in this process."""

    def received(self, machine: Machine, message: BetweenMachines) -> None: ...

    def lost(self, machine: Machine) -> None:
        """What was sent to this machine may not arrive."""


class ProcessId(NamedTuple):
    """A process that speaks for brokers; `life` is drawn when it starts."""

    name: Node
    machine: Machine
    life: int

    def may_speak_for(self, broker: Node) -> bool:
        """Rule 4."""
        return self.name in (display(self.machine), broker)

    def hello(self) -> Hello:
        return Hello(self.name, self.life, 0, 0, 1, role=STANDBY, machine=self.machine)


@dataclass(eq=False)
class MemberConnection:
    """A connection with another process."""

    connection: Connection
    peer: ProcessId
    heard_at: float
    spoke_at: float
    used_at: float  # when a message was sent or received
    parts: list[bytes] = field(default_factory=list)  # of a message that is not complete
    parts_bytes: int = 0
    paused_by: set[Node] = field(default_factory=set)  # brokers: nothing is read, so that silence means nothing


@dataclass
class Attempt:
    """An address that is dialled, or was not long ago, and what waits for a connection there."""

    machine: Machine
    waiting: list[tuple[Node, bytes]] = field(default_factory=list)
    waiting_bytes: int = 0
    task: asyncio.Task[None] | None = None
    pause: float = DIAL_SECONDS_MIN
    next_at: float = 0.0


ANY_MACHINE = ""
Place: TypeAlias = tuple[Machine, str]  # and its address
Destination: TypeAlias = tuple[Node, Machine]


def _nobody(_broker: Node, _machine: Machine, _message: BetweenMachines) -> Receiver | None:
    return None


class MemberLinks:
    def __init__(
        self,
        own: ProcessId,
        *,
        heartbeat: float,
        tls: Callable[[Node], TlsSide | None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tls`: how a process of this name is dialled."""
        self.own = own
        self.on_unknown: Callable[[Node, Machine, BetweenMachines], Receiver | None] = _nobody
        self.on_here: Callable[[HostIsHere], None] = lambda _: None
        self._heartbeat = heartbeat
        self._tls = tls
        self._clock = clock
        self._receivers: dict[Node, Receiver] = {}
        self._connections: dict[Connection, MemberConnection] = {}
        self._routes: dict[Destination, MemberConnection] = {}
        self._attempts: dict[Place, Attempt] = {}
        self._machines: dict[str, Machine] = {}  # who has answered at an address that was given without a machine
        self._parts_bytes = 0  # of all connections
        self._crash_hook = CrashHook.of(own.name)
        self._is_stopped = False
        self._ticking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to keep connections alive."""
        self._ticking = watched(keep_ticking(self.tick, lambda: self._heartbeat / TICKS_PER_HEARTBEAT))

    def attach(self, broker: Node, receiver: Receiver) -> None:
        self._receivers[broker] = receiver

    def detach(self, broker: Node) -> None:
        """The routes stay: another receiver of this process may follow."""
        self._receivers.pop(broker, None)

    @property
    def connected(self) -> list[ProcessId]:
        return sorted(each.peer for each in self._connections.values())

    # Sending -------------------------------------------------------------------------------------------------

    def send(self, broker: Node, machine: Machine, address: str, message: BetweenMachines) -> None:
        """`address`: of the machine's host process, which is dialled where there is no connection; it may be empty."""
        if self._is_stopped:
            return
        data = encode_between(message)
        route = self._routes.get((broker, machine)) or self._to_host(machine)
        if route is not None:
            self._routes[broker, machine] = route
            self._send_parts(route, data)
        elif address:
            self._dial_with(broker, machine, address, data)

    def send_here(self, message: BetweenMachines) -> None:
        """To the other processes of this machine that are connected."""
        data = encode_between(message)
        for member in self._of(self.own.machine):
            self._send_parts(member, data)

    def machine_at(self, address: str) -> Machine:
        """Which machine answers there, as far as is known; empty: not known yet. It is dialled while nobody does.

        Who answers need not be the host: a broker that was promoted there has an address of its own.
        """
        machine = self._machines.get(address, "")
        if not self._is_stopped and (not machine or not any(self._of(machine))):
            self._attempt(ANY_MACHINE, address)
        return machine

    def unsent_bytes(self, machine: Machine) -> int:
        """What waits for a machine to read it."""
        return sum(each.connection.unsent_bytes for each in self._of(machine))

    def _of(self, machine: Machine) -> Iterator[MemberConnection]:
        return (each for each in self._connections.values() if each.peer.machine == machine)

    def _to_host(self, machine: Machine) -> MemberConnection | None:
        """The connection with a machine's host process."""
        found = [each for each in self._of(machine) if each.peer.name == display(machine)]
        return found[-1] if found else None

    def _send_parts(self, route: MemberConnection, data: bytes) -> None:
        connection = route.connection
        route.spoke_at = route.used_at = self._clock()
        if len(data) > MESSAGE_BYTES_MAX or connection.unsent_bytes > UNSENT_BYTES_MAX:
            reason = f"{len(data):,} bytes for {route.peer.name}, and {connection.unsent_bytes:,} are not taken yet"
            log.warning("connection with the machine %s ended: %s", route.peer.machine, reason)
            connection.abort(reason)
            return
        for begin in range(0, len(data), PART_BYTES):
            end = begin + PART_BYTES
            connection.send(StandbyPart(data[begin:end], has_more=end < len(data)))

    # Receiving -----------------------------------------------------------------------------------------------

    def accept(self, connection: Connection, hello: Hello) -> str:
        """A connection that came in by the port for peers, with its first frame: why it is refused, or ""."""
        reason = self._why_refused(hello)
        if reason:
            connection.send(Bye(ByeReason.REFUSED, reason))
            connection.close(reason)
            return reason
        connection.send(self.own.hello())
        self._add(connection, hello)
        return ""

    def _why_refused(self, hello: Hello) -> str:
        if self._is_stopped:
            return f"{self.own.name} is stopping"
        if hello.version != PROTOCOL_VERSION:
            return f"{self.own.name} speaks version {PROTOCOL_VERSION}, not {hello.version}"
        if hello.role != STANDBY or not hello.node or not hello.machine:
            return "malformed Hello: a standby names its process and its machine"
        if not (hello.node.isprintable() and hello.machine.isprintable()):
            return "malformed Hello: names must be printable"
        if hello.machine == self.own.machine and hello.node == self.own.name:
            return f"{hello.node} is this process itself"
        if len(self._connections) >= CONNECTIONS_MAX:
            return f"there are {CONNECTIONS_MAX:,} connections with machines already"
        return ""

    def _add(self, connection: Connection, hello: Hello) -> MemberConnection:
        now = self._clock()
        member = MemberConnection(connection, ProcessId(hello.node, hello.machine, hello.epoch), now, now, now)
        for old in [each for each in self._of(hello.machine) if each.peer.name == hello.node]:
            if old.peer.life < hello.epoch:
                old.connection.abort(f"{hello.node} has started again")
        self._connections[connection] = member
        connection.hand_over(self._frame, self._data)
        log.debug("machine %s is connected by %s", hello.machine, hello.node)
        return member

    def _data(self, connection: Connection, _frames: list[Data]) -> None:
        connection.abort("Data from a standby")

    def _frame(self, connection: Connection, frame: Frame) -> None:
        member = self._connections.get(connection)
        if member is None:
            return
        member.heard_at = self._clock()
        match frame:
            case StandbyPart():
                try:
                    self._take_part(member, frame)
                except StandbyMessageError as error:
                    log.warning("connection with the machine %s ended: %s", member.peer.machine, error)
                    connection.abort(str(error))
            case Ping():
                pass
            case Bye(reason=reason):
                connection.close(reason)
            case _:
                connection.abort(f"{type(frame).__name__} from a standby")

    def _take_part(self, member: MemberConnection, part: StandbyPart) -> None:
        member.parts.append(part.payload)
        member.parts_bytes += len(part.payload)
        self._parts_bytes += len(part.payload)
        if self._parts_bytes > MESSAGE_BYTES_MAX:
            raise StandbyMessageError(f"messages that are not complete have more than {MESSAGE_BYTES_MAX:,} bytes")
        if part.has_more:
            return
        data = b"".join(member.parts) if len(member.parts) > 1 else part.payload
        self._forget_parts(member)
        self._take(member, decode_between(data))

    def _forget_parts(self, member: MemberConnection) -> None:
        self._parts_bytes -= member.parts_bytes
        member.parts_bytes = 0
        member.parts.clear()

    def _take(self, member: MemberConnection, message: BetweenMachines) -> None:
        broker, peer = message.broker, member.peer
        if not peer.may_speak_for(broker):
            raise StandbyMessageError(f"{peer.name} does not speak for {broker} on {peer.machine}")
        member.used_at = member.heard_at
        if isinstance(message, HostIsHere):
            self.on_here(message)
            return
        receiver = self._receivers.get(broker) or self.on_unknown(broker, peer.machine, message)
        if receiver is not None:
            self._follow(broker, member, receiver)
            with self._crash_hook.around([f"standby.{type(message).__name__}"]) if self._crash_hook else nullcontext():
                receiver.received(peer.machine, message)

    def _follow(self, broker: Node, member: MemberConnection, receiver: Receiver) -> None:
        """Rule 2."""
        destination = broker, member.peer.machine
        route = self._routes.get(destination)
        if route is None:
            self._routes[destination] = member
        elif route.peer.name != member.peer.name:
            self._routes[destination] = member
            receiver.lost(member.peer.machine)

    # Reading no faster than the disk writes ------------------------------------------------------------------

    def pause_reading(self, machine: Machine, broker: Node) -> None:
        """For the sake of this broker's copy."""
        for member in self._of(machine):
            member.paused_by.add(broker)
            member.connection.pause_reading()

    def is_paused(self, machine: Machine) -> bool:
        return any(member.paused_by for member in self._of(machine))

    def resume_reading(self, machine: Machine, broker: Node) -> None:
        for member in self._of(machine):
            member.paused_by.discard(broker)
            if not member.paused_by:
                member.heard_at = self._clock()
                member.connection.resume_reading()

    # Connections that end ------------------------------------------------------------------------------------

    def lost(self, connection: Connection, reason: str) -> None:
        """A connection that was accepted or dialled has ended."""
        member = self._connections.pop(connection, None)
        if member is None:
            return
        self._forget_parts(member)
        log.debug("connection with the machine %s ended: %s", member.peer.machine, reason)
        for broker, machine in [each for each, route in self._routes.items() if route is member]:
            del self._routes[broker, machine]
            if broker in self._receivers:
                self._receivers[broker].lost(machine)

    async def stop(self) -> None:
        self._is_stopped = True
        tasks = [attempt.task for attempt in self._attempts.values() if attempt.task is not None]
        for task in [*tasks, *([self._ticking] if self._ticking else [])]:
            task.cancel()
        for connection in list(self._connections):
            connection.close(f"{self.own.name} is stopping")
        await asyncio.sleep(0)  # what was sent is on its way

    # Dialling ------------------------------------------------------------------------------------------------

    def _dial_with(self, broker: Node, machine: Machine, address: str, data: bytes) -> None:
        """Send it as soon as there is a connection; drop it where none is to be had."""
        attempt = self._attempt(machine, address)
        if attempt.task is not None and attempt.waiting_bytes + len(data) <= WAITING_BYTES_MAX:
            attempt.waiting.append((broker, data))
            attempt.waiting_bytes += len(data)

    def _attempt(self, machine: Machine, address: str) -> Attempt:
        """Dial, if it is time to."""
        attempt = self._attempts.setdefault((machine, address), Attempt(machine))
        if attempt.task is None and self._clock() >= attempt.next_at:
            attempt.task = watched(self._dial(address, attempt))
        return attempt

    async def _dial(self, address: str, attempt: Attempt) -> None:
        began = self._clock()
        is_connected = False
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS_MAX):
                is_connected = await self._connect(address, attempt)
        except TlsError as error:
            log.warning("machine %s at %s: %s", attempt.machine, address, error)
        except (OSError, TimeoutError, SettingsError) as error:
            log.debug("machine %s at %s does not answer: %s", attempt.machine, address, error)
        attempt.pause = DIAL_SECONDS_MIN if is_connected else min(2 * attempt.pause, DIAL_SECONDS_MAX)
        attempt.task, attempt.next_at = None, began + attempt.pause
        attempt.waiting.clear()
        attempt.waiting_bytes = 0

    async def _connect(self, address: str, attempt: Attempt) -> bool:
        """One attempt; what waits is sent once the other side has said which machine it is."""
        place = parse_address(address, key="standby")
        answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def greeted(connection: Connection, frame: Frame) -> None:
            is_right = isinstance(frame, Hello) and self._greeted(connection, frame, attempt)
            if is_right and isinstance(frame, Hello) and attempt.machine == ANY_MACHINE:
                self._machines[address] = frame.machine
            if not is_right:
                reason = frame.reason if isinstance(frame, Bye) else "another machine answers there"
                log.debug("machine %s at %s: %s", attempt.machine, address, reason)
                connection.close(reason)
            if not answered.done():
                answered.set_result(is_right)

        def ended(connection: Connection, reason: str) -> None:
            self.lost(connection, reason)
            if not answered.done():
                answered.set_result(False)

        handlers = Handlers(greeted, ended, on_data=self._data)
        connection = await open_connection(place.host, place.port, handlers, self._tls(display(attempt.machine)))
        try:
            connection.send(self.own.hello())
            return await answered
        except BaseException:
            connection.abort("no Hello in time")
            raise

    def _greeted(self, connection: Connection, hello: Hello, attempt: Attempt) -> bool:
        if self._why_refused(hello) or attempt.machine not in (ANY_MACHINE, hello.machine):
            return False
        member = self._add(connection, hello)
        for broker, data in attempt.waiting:
            self._routes.setdefault((broker, attempt.machine), member)
            self._send_parts(member, data)
        return True

    # Time ----------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Ping where nothing was said, and end connections that are silent or of no use."""
        now = self._clock()
        for member in list(self._connections.values()):
            connection = member.connection
            silence = 0.0 if member.paused_by else now - member.heard_at
            if silence > HEARTBEATS_MISSED_MAX * self._heartbeat:
                connection.abort(f"nothing heard for {silence:.1f} s")
            elif now - member.used_at > IDLE_SECONDS_MAX:
                connection.close("nothing to say")
            elif now - member.spoke_at >= self._heartbeat:
                member.spoke_at = now
                connection.send(Ping())
        gone = [
            place
            for place, each in self._attempts.items()
            if each.task is None and now > each.next_at + IDLE_SECONDS_MAX
        ]
        for place in gone:
            del self._attempts[place]
