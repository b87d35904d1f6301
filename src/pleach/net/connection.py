"""One TCP connection that carries frames, for the broker process and for the client library.

    bytes ──▶ FrameReader ──▶ on_frame, on_data          send(frame) ──▶ joined ──▶ one write per turn of the loop

Rule 1: the first frame of the other side is a Hello (or a Bye), after a log-in at most (`Login`, `Challenge`); it comes
        within `greeting_seconds_max`, and before it no more than `UNGREETED_BYTES_MAX` are taken.
Rule 2: bytes that are no frame end the connection, with the reason logged and given to `on_lost`.
Rule 3: `on_lost(reason)` is called exactly once, whichever side ended the connection; no `on_frame` comes after it.
Rule 4: `send` never blocks and never fails. Owners that send a lot heed `is_congested`, `on_congested`, `on_writable`.
        Confirmations do not pile up for a peer that does not read: only the last one is kept.
Rule 5: frames are handled for `TURN_SECONDS_MAX` at a time; then other connections have their turn. In a turn of
        the loop one of those that have more to handle goes on, however many they are: all else is soon heard.
Rule 6: with TLS (tls_layer.py) the time and the bytes of rule 1 include the handshake; the other side's certificate is
        checked when the handshake is complete, and again with the name in its Hello.
Rule 7: a connection that carries another one (`carry`) passes on bytes as they are, and knows no frames any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, cast

import msgspec

from pleach.core.links.frames import (
    Ack,
    Aside,
    Bye,
    Challenge,
    Data,
    Frame,
    FrameReader,
    Hello,
    Login,
    Probe,
    encode_frame,
)
from pleach.errors import FrameError, TlsError
from pleach.net.addresses import spelled
from pleach.net.dial import dial
from pleach.net.tls_layer import NO_FALLBACK, TLS_FIRST_BYTES, TlsLayer, TlsSide

GREETING_SECONDS_MAX = 5.0
UNGREETED_BYTES_MAX = 65_536
WRITE_BUFFER_HIGH_BYTES = 1_048_576  # above: congested
WRITE_BUFFER_LOW_BYTES = 262_144  # below: writable again
CARRIED_BUFFER_HIGH_BYTES, CARRIED_BUFFER_LOW_BYTES = 262_144, 65_536  # the same, of connections that carry others
JOINED_BYTES_MAX = 262_144  # more than this is written at once, not at the end of the turn
TURN_SECONDS_MAX = 0.005
RUN_FRAMES_MAX = 64  # Data frames that are handed over together
ROUND_TRIP_WEIGHT = 0.2  # of the latest sample in the smoothed one
CLOSE_SECONDS_MAX = 2.0  # for the last bytes to leave, when the other side does not read them

log = logging.getLogger(__name__)

FrameHandler: TypeAlias = "Callable[[Connection, Frame], None]"
DataHandler: TypeAlias = "Callable[[Connection, list[Data]], None]"


class Statistics(msgspec.Struct):
    """Counters since the connection was made."""

    bytes_sent: int = 0
    bytes_received: int = 0
    frames_sent: int = 0
    frames_received: int = 0


def _nothing(_connection: Connection) -> None:
    pass


class Turns:
    """Connections that have more to handle, in a row: one of them for each turn of the loop (rule 5)."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    def wait(self, take_turn: Callable[[], None]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        self._waiting.append(take_turn)

    def _next(self) -> None:
        """The first stays in the row meanwhile, so that whoever waits anew does not call for a turn of its own."""
        try:
            self._waiting[0]()
        finally:
            self._waiting.popleft()
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._next)


class Handlers(msgspec.Struct, frozen=True):
    """Callbacks to the owner of a connection, and limits; the connection itself is always the first argument.

    With `on_data`, Data frames that came together are handed over together, and not to `on_frame`.
    """

    on_frame: FrameHandler
    on_lost: Callable[[Connection, str], None]
    on_made: Callable[[Connection], None] = _nothing
    on_congested: Callable[[Connection], None] = _nothing
    on_writable: Callable[[Connection], None] = _nothing
    on_data: DataHandler | None = None
    turns: Turns = msgspec.field(default_factory=Turns)  # shared by the connections of a port
    greeting_seconds_max: float = GREETING_SECONDS_MAX


class Carried(msgspec.Struct, frozen=True):
    """What takes the bytes of a connection that carries another one (rule 7), and hears whether it may write."""

    on_bytes: Callable[[bytes], None]
    on_congested: Callable[[], None]
    on_writable: Callable[[], None]


class Reading(msgspec.Struct):
    """What has arrived at a connection and is not handled yet, and why no more is read."""

    runs: Iterator[list[Frame]]
    run_frames: int = RUN_FRAMES_MAX
    is_resting: bool = False  # until its next turn
    is_paused: bool = False  # by its owner
    is_greeted: bool = False  # a Hello or a Bye has come
    carried: Carried | None = None  # takes bytes instead of frames


class Connection(asyncio.Protocol):
    def __init__(self, handlers: Handlers, tls: TlsLayer | None = None) -> None:
        self.tls = tls
        self.is_congested = False
        self.peername = "nowhere"
        self.statistics = Statistics()
        self.round_trip: float | None = None  # seconds from Data to its confirmation, smoothed; None: not known yet
        self._timed: tuple[int, float] | None = None  # a sequence whose confirmation is awaited, and since when
        self._handlers = handlers
        self._reader = FrameReader()
        self._reading = Reading(iter(()))
        self._transport: asyncio.Transport | None = None
        self._joined: list[bytes] = []
        self._joined_bytes = 0
        self._last_ack: Ack | None = None  # held back while congested
        self._reason = ""  # why it ends; empty: it has not ended
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def is_closing(self) -> bool:
        return bool(self._reason) or self._transport is None

    @property
    def peer_certificate(self) -> bytes:
        """Of the other side, DER; empty where it has shown none."""
        return (self.tls.certificate if self.tls is not None else None) or b""

    @property
    def unsent_bytes(self) -> int:
        """What waits for the other side to read."""
        return 0 if self._transport is None else self._joined_bytes + self._transport.get_write_buffer_size()

    # What the owner does -------------------------------------------------------------------------------------

    def send(self, frame: Frame) -> None:
        """Queue a frame; what is sent in one turn of the loop travels together."""
        if self._reason or self._transport is None:
            return
        if not self.statistics.frames_sent and isinstance(frame, Probe | Aside):
            return  # the Hello still waits for the disk, and goes first; probes and asides are sent again
        if self.is_congested and isinstance(frame, Ack):
            self._last_ack = frame
            return
        if self._timed is None and isinstance(frame, Data):
            self._timed = (frame.sequence, asyncio.get_running_loop().time())
        data = encode_frame(frame)
        if not self._joined:
            asyncio.get_running_loop().call_soon(self._flush)
        self._joined.append(data)
        self._joined_bytes += len(data)
        self.statistics.frames_sent += 1
        if self._joined_bytes > JOINED_BYTES_MAX:
            self._flush()

    def close(self, reason: str = "closed here") -> None:
        """Write out what was sent, then end. `on_lost` follows."""
        if self.is_closing:
            return
        self._flush()
        self._reason = reason
        assert self._transport is not None
        if self.tls is not None:
            self._transport.write(self.tls.end())
        self._transport.close()
        self._set_deadline(CLOSE_SECONDS_MAX, self._transport.abort)

    def abort(self, reason: str = "aborted here") -> None:
        """End at once; what was not yet written is dropped. `on_lost` follows."""
        self._reason = self._reason or reason
        self._joined.clear()
        self._joined_bytes = 0
        if self._transport is not None:
            self._transport.abort()

    def hand_over(self, on_frame: FrameHandler, on_data: DataHandler) -> None:
        """Give the frames from here on to another receiver; the other callbacks stay."""
        self._handlers = msgspec.structs.replace(self._handlers, on_frame=on_frame, on_data=on_data)

    def carry(self, carried: Carried) -> None:
        """From here on pass on bytes, both ways (`write_bytes`). What has arrived before was all of frames."""
        assert self._transport is not None
        self._reading.carried = carried
        self._transport.set_write_buffer_limits(CARRIED_BUFFER_HIGH_BYTES, CARRIED_BUFFER_LOW_BYTES)
        if self.is_congested:
            carried.on_congested()

    def write_bytes(self, data: bytes) -> None:
        self._flush()
        if self._transport is not None and not self.is_closing and data:
            data = self.tls.encrypt(data) if self.tls is not None else data
            self.statistics.bytes_sent += len(data)
            self._transport.write(data)

    def pause_reading(self) -> None:
        self._reading.is_paused = True
        self._read_or_not()

    def resume_reading(self) -> None:
        self._reading.is_paused = False
        self._read_or_not()

    # What asyncio does ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_HIGH_BYTES, WRITE_BUFFER_LOW_BYTES)
        self.peername = spelled(transport.get_extra_info("peername"))
        self._set_deadline(self._handlers.greeting_seconds_max, self._refuse_silence)
        if self.tls is not None:
            self._decrypted(b"")  # who dials begins
        self._handlers.on_made(self)

    def data_received(self, data: bytes) -> None:
        self.statistics.bytes_received += len(data)
        if self.tls is not None:
            data = self._decrypted(data)
        elif self.statistics.bytes_received == len(data) and data[:2] in TLS_FIRST_BYTES:
            self._refuse(f"the other side speaks TLS, and this side does not: {NO_FALLBACK}")
        if self._reading.carried is not None:
            self._reading.carried.on_bytes(data)
        elif not self.is_closing:
            self._reading.runs = self._in_runs(self._reader.feed(data))
            self._take_turn()

    def pause_writing(self) -> None:
        self.is_congested = True
        if self._reading.carried is not None:
            self._reading.carried.on_congested()
        else:
            self._handlers.on_congested(self)

    def resume_writing(self) -> None:
        self.is_congested = False
        if self._last_ack is not None:
            self.send(self._last_ack)
            self._last_ack = None
        if self._reading.carried is not None:
            self._reading.carried.on_writable()
        else:
            self._handlers.on_writable(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._cancel_deadline()
        self._reason = self._reason or (str(error) if error else "the other side closed the connection")
        self._transport = None
        self._joined.clear()
        self._reading.runs = iter(())  # frames that nobody handles any more hold the connection
        if self.tls is not None:
            self.tls.lost(self._reason)
        self._handlers.on_lost(self, self._reason)

    # Inside --------------------------------------------------------------------------------------------------

    def _decrypted(self, data: bytes) -> bytes:
        """Decrypt what has arrived, and send what TLS has to answer."""
        assert self.tls is not None
        assert self._transport is not None
        plain = b""
        try:
            plain = self.tls.receive(data)
        except TlsError as error:
            log.warning("connection with %s refused: %s", self.peername, error)
            self._transport.write(self.tls.take())  # an alert
            self._reason = str(error)
            self._transport.close()
            self._set_deadline(CLOSE_SECONDS_MAX, self._transport.abort)
        else:
            if answer := self.tls.take():
                self._transport.write(answer)
        if self.tls.is_ended and not self._reason:
            self._transport.close()
        return plain

    def _take_turn(self) -> None:
        self._reading.is_resting = False
        try:
            self._handle_frames()
        except (FrameError, TlsError) as error:
            self._refuse(str(error))
        self._read_or_not()

    def _handle_frames(self) -> None:
        """Handle what has arrived, or as much of it as fits into a turn."""
        loop = asyncio.get_running_loop()
        end = loop.time() + TURN_SECONDS_MAX
        for run in self._reading.runs:
            if self.is_closing:
                return
            if not self._reading.is_greeted:
                self._greet(run[0])
            self.statistics.frames_received += len(run)
            started = loop.time()
            self._hand_over(run)
            self._adapt_runs(loop.time() - started)
            if loop.time() > end:
                self._reading.is_resting = True
                self._handlers.turns.wait(self._take_turn)
                return
        if not self._reading.is_greeted and self.statistics.bytes_received > UNGREETED_BYTES_MAX:
            raise FrameError(f"{UNGREETED_BYTES_MAX:,} bytes and no Hello")

    def _adapt_runs(self, seconds: float) -> None:
        """Shorter runs where frames take long, so that a run fits into a turn."""
        reading = self._reading
        longer = min(RUN_FRAMES_MAX, 2 * reading.run_frames)
        reading.run_frames = longer if seconds < TURN_SECONDS_MAX else max(1, reading.run_frames // 4)

    def _read_or_not(self) -> None:
        if self.is_closing or self._transport is None:
            return
        is_wanted = not (self._reading.is_resting or self._reading.is_paused)
        if is_wanted != self._transport.is_reading():
            (self._transport.resume_reading if is_wanted else self._transport.pause_reading)()

    def _in_runs(self, frames: Iterator[Frame]) -> Iterator[list[Frame]]:
        """Data frames that follow each other together, up to a limit; every other frame alone."""
        run: list[Frame] = []
        reading = self._reading
        try:
            for frame in frames:
                is_data = isinstance(frame, Data)
                if run and (not is_data or len(run) >= reading.run_frames):
                    yield run
                    run = []
                if is_data:
                    run.append(frame)
                else:
                    yield [frame]
        except FrameError:
            if run:
                yield run  # frames before a malformed one are handled
            raise
        if run:
            yield run

    def _hand_over(self, run: list[Frame]) -> None:
        if self._handlers.on_data is not None and isinstance(run[0], Data):
            self._handlers.on_data(self, cast("list[Data]", run))
            return
        for frame in run:
            if self._timed is not None and isinstance(frame, Ack):
                self._note_round_trip(frame.upto, *self._timed)
            if not self.is_closing:
                self._handlers.on_frame(self, frame)

    def _note_round_trip(self, upto: int, sequence: int, since: float) -> None:
        """One Data at a time is timed, which costs next to nothing."""
        if upto >= sequence:
            sample, self._timed = asyncio.get_running_loop().time() - since, None
            known = sample if self.round_trip is None else self.round_trip
            self.round_trip = known + ROUND_TRIP_WEIGHT * (sample - known)

    def _greet(self, frame: Frame) -> None:
        match frame:
            case Login() | Challenge():
                return  # a Hello must follow in time
            case Hello() if self.tls is not None:
                self.tls.check(frame.node)
            case Hello() | Bye():
                pass
            case _:
                raise FrameError(f"{type(frame).__name__} before Hello")
        self._reading.is_greeted = True
        self._cancel_deadline()

    def _refuse_silence(self) -> None:
        self._refuse(f"no Hello within {self._handlers.greeting_seconds_max:g} s")

    def _refuse(self, reason: str) -> None:
        log.warning("connection with %s ended: %s", self.peername, reason)
        self.abort(reason)

    def _flush(self) -> None:
        if not self._joined or self.is_closing:
            return
        assert self._transport is not None
        data = b"".join(self._joined)
        self._joined.clear()
        self._joined_bytes = 0
        if self.tls is not None:
            if not self.tls.is_secured:
                return  # nothing is ever sent in the clear
            data = self.tls.encrypt(data)
        self.statistics.bytes_sent += len(data)
        self._transport.write(data)

    def _set_deadline(self, seconds: float, action: Callable[[], None]) -> None:
        self._cancel_deadline()
        self._deadline = asyncio.get_running_loop().call_later(seconds, action)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


async def open_connection(host: str, port: int, handlers: Handlers, tls: TlsSide | None = None) -> Connection:
    """Dial; raises OSError where nobody answers, TlsError among them. Bound the time with `asyncio.timeout`."""
    loop = asyncio.get_running_loop()
    layer = TlsLayer(tls) if tls is not None else None
    if layer is not None:
        layer.secured = loop.create_future()
    connection = await dial(host, port, lambda: Connection(handlers, layer))
    await until_secured(connection)
    return connection


async def until_secured(connection: Connection) -> None:
    """Until the handshake of a connection that was dialled is complete, if it has one. Raises OSError, TlsError."""
    if connection.tls is None or connection.tls.secured is None:
        return
    try:
        await connection.tls.secured
    except BaseException:
        connection.abort("no TLS")
        raise


async def listen(
    host: str, port: int, handlers: Handlers, tls: Callable[[], TlsSide | None] = lambda: None
) -> asyncio.Server:
    """Accept connections; port 0 takes any (`server.sockets[0].getsockname()` says which).

    `tls`: asked for each connection, since certificates are renewed while the process runs.
    """

    def made() -> Connection:
        side = tls()
        return Connection(handlers, TlsLayer(side) if side is not None else None)

    return await asyncio.get_running_loop().create_server(made, host, port)


async def end_listening(servers: Iterable[asyncio.Server]) -> None:
    """Stop accepting. Connections that the system has accepted are made first, and the handlers may end them: a server
    that is closed in between forgets such a connection, and never closes its socket.
    """
    chosen, loop = list(servers), asyncio.get_running_loop()
    for socket in [each for server in chosen for each in server.sockets]:
        loop.remove_reader(socket.fileno())
    await asyncio.sleep(0)
    for server in chosen:
        server.close()
