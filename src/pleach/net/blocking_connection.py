"""A connection with blocking calls, for processes that ask a broker for something and end: no loop, no threads.

    greeted = retried(addresses, seconds, lambda address: greet(address, hello, seconds))

A Bye of the broker becomes the exception that it stands for; where no broker answers, other addresses are tried, and
the same ones again, until the time is up.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self, TypeVar

from pleach.core.links.frames import Bye, ByeReason, Frame, FrameReader, Hello, Ping, encode_frame
from pleach.errors import ClientFencedError, ConnectError, FrameError, SessionLostError
from pleach.net.addresses import Address, backoff, unreachable_if_no_host, why

RECEIVE_BYTES = 262_144
DIAL_SECONDS_MAX = 5.0
PING_SECONDS = 0.25  # between pings while waiting: a broker ends connections that are silent for long

Answer = TypeVar("Answer")


class PlainWire:
    def __init__(self, address: Address, seconds: float) -> None:
        """Raises OSError where nobody answers."""
        with unreachable_if_no_host(address.host):
            self._socket = socket.create_connection((address.host, address.port), min(seconds, DIAL_SECONDS_MAX))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(PING_SECONDS)
        self._reader = FrameReader()
        self._frames: deque[Frame] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, *frames: Frame) -> None:
        """Returns once the system has taken them; raises OSError."""
        self._socket.settimeout(DIAL_SECONDS_MAX)
        self._socket.sendall(b"".join(map(encode_frame, frames)))
        self._socket.settimeout(PING_SECONDS)

    def receive(self, seconds: float) -> Frame:
        """The next frame; raises TimeoutError, ConnectionError, FrameError, or what a Bye stands for."""
        deadline = time.monotonic() + seconds
        while not self._frames:
            self._frames.extend(self._reader.feed(self._bytes(deadline)))
        frame = self._frames.popleft()
        if isinstance(frame, Bye):
            raise _meaning(frame)
        return frame

    def _bytes(self, deadline: float) -> bytes:
        while True:
            try:
                data = self._socket.recv(RECEIVE_BYTES)
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise TimeoutError("no answer in time") from None
                self.send(Ping())
                continue
            if not data:
                raise ConnectionError("the other side closed the connection")
            return data

    def close(self) -> None:
        self._socket.close()


class Greeted(NamedTuple):
    """A connection on which both have said Hello, and what the broker said."""

    wire: PlainWire
    hello: Hello


def greet(address: Address, hello: Hello, seconds: float, *, broker: str = "") -> Greeted:
    """Dial, and be greeted; by this broker and no other, if one is named.

    A Hello for a former epoch of this side is skipped: another one follows (session.py, rule 6).
    """
    deadline = time.monotonic() + seconds
    wire = PlainWire(address, seconds)
    try:
        wire.send(hello)
        answer = wire.receive(seconds)
        while not (isinstance(answer, Hello) and answer.peer_epoch in (0, hello.epoch)):
            answer = wire.receive(deadline - time.monotonic())
    except BaseException:
        wire.close()
        raise
    if broker and answer.node != broker:
        wire.close()
        raise ConnectionError(f"{answer.node} answers there, not {broker}")
    return Greeted(wire, answer)


def retried(addresses: Sequence[Address], seconds: float, attempt: Callable[[Address], Answer]) -> Answer:
    """Try one address after the other, with growing pauses between the rounds; raises ConnectError in the end."""
    deadline = time.monotonic() + seconds
    for pause in backoff():
        attempts: dict[str, str] = {}
        for address in addresses:
            try:
                return attempt(address)
            except FrameError as error:
                attempts[str(address)] = f"no broker: {error}"
            except OSError as error:
                attempts[str(address)] = why(error)
        if time.monotonic() + pause > deadline:
            raise ConnectError(attempts)
        time.sleep(pause)
    raise AssertionError("pauses do not end")


def _meaning(bye: Bye) -> Exception:
    match bye.why:
        case ByeReason.FENCED:
            return ClientFencedError(f"another of this name has come since: {bye.reason}")
        case ByeReason.BROKEN:
            return SessionLostError(f"the session cannot go on: {bye.reason}")
        case _:
            return ConnectionError(bye.reason)
