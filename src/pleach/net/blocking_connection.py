"""A connection with blocking calls, for processes that ask a broker for something and end: no loop, no threads.

    greeted = retried(addresses, seconds, lambda address: greet(address, hello, seconds))

A Bye of the broker becomes the exception that it stands for; where no broker answers, other addresses are tried, and
the same ones again, until the time is up. Where another broker answers, it says where the wanted one is, if it knows.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self, TypeVar

import msgspec

from pleach.core.links.frames import Bye, ByeReason, Challenge, Frame, FrameReader, Hello, Ping, encode_frame
from pleach.core.messages import Node
from pleach.errors import (
    AccessDeniedError,
    AddressError,
    ClientFencedError,
    ConnectError,
    FrameError,
    SessionLostError,
    TlsError,
)
from pleach.net.addresses import ADDRESSES_MAX, Address, backoff, parse_addresses, unreachable_if_no_host, why
from pleach.net.client_login import PLAIN, ClientLogin, Entry
from pleach.net.own_tls import dialling_side
from pleach.net.tls_layer import NO_FALLBACK, TlsSide, meaning

RECEIVE_BYTES = 262_144
DIAL_SECONDS_MAX = 2.0  # a machine that is lost does not even refuse
SEND_SECONDS_MAX = 5.0
ANSWERED_PAUSE_SECONDS_MAX = 0.5  # before the next round, where other brokers answer: they will know more soon
PING_SECONDS = 0.25  # between pings while waiting: a broker ends connections that are silent for long

Answer = TypeVar("Answer")


class ElsewhereError(ConnectionError):
    """Another broker than the wanted one has answered. `address`: where that one is; empty: not known there."""

    def __init__(self, reason: str, address: str) -> None:
        super().__init__(reason)
        self.address = address


class BlockingWire:
    def __init__(self, address: Address, seconds: float, tls: TlsSide | None = None) -> None:
        """Raises OSError where nobody answers, TlsError among them."""
        self._tls = tls
        with unreachable_if_no_host(address.host):
            self._socket = socket.create_connection((address.host, address.port), min(seconds, DIAL_SECONDS_MAX))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = _secured(self._socket, tls)
        self._socket.settimeout(PING_SECONDS)
        self._reader = FrameReader()
        self._frames: deque[Frame] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, *frames: Frame) -> None:
        """Returns once the system has taken them; raises OSError."""
        self._socket.settimeout(SEND_SECONDS_MAX)
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
            except ssl.SSLError as error:
                raise meaning(error, is_secured=True) from None
            if not data:
                raise ConnectionError("the other side closed the connection")
            return data

    @property
    def peer_certificate(self) -> bytes:
        """Of the other side, DER; empty without TLS."""
        shown = self._socket.getpeercert(binary_form=True) if isinstance(self._socket, ssl.SSLSocket) else None
        return shown or b""

    def check(self, node: Node) -> None:
        """Raises TlsError where the certificate of the other side does not let it go by this name."""
        if self._tls is not None:
            self._tls.check(self.peer_certificate, node)

    def close(self) -> None:
        self._socket.close()


def _secured(plain: socket.socket, tls: TlsSide) -> ssl.SSLSocket:
    try:
        made = tls.context.wrap_socket(plain)
        tls.check(made.getpeercert(binary_form=True), "")
    except ssl.SSLError as error:
        plain.close()
        raise meaning(error) from None
    except ConnectionResetError:
        plain.close()
        raise TlsError("the connection ended during the handshake", NO_FALLBACK) from None
    except BaseException:
        plain.close()
        raise
    return made


class Greeted(NamedTuple):
    """A connection on which both have said Hello, and what the broker said."""

    wire: BlockingWire
    hello: Hello


def greet(
    address: Address, hello: Hello, seconds: float, *, broker: str = "", view: int = 0, entry: Entry = PLAIN
) -> Greeted:
    """Dial, and be greeted; by this broker and no other, if one is named, and in no older view of it.

    A Hello for a former epoch of this side is skipped: another one follows (session.py, rule 6).
    """
    deadline = time.monotonic() + seconds
    wire = BlockingWire(address, seconds, dialling_side(entry.tls, broker) if entry.tls is not None else None)
    try:
        _log_in(wire, entry.login, hello.node, seconds)
        wire.send(msgspec.structs.replace(hello, wants=broker))
        answer = wire.receive(seconds)
        while not (isinstance(answer, Hello) and answer.peer_epoch in (0, hello.epoch)):
            answer = wire.receive(deadline - time.monotonic())
        wire.check(answer.node)
    except BaseException:
        wire.close()
        raise
    if (broker and answer.node != broker) or answer.view < view:
        wire.close()
        raise ConnectionError(f"{answer.node} answers there in view {answer.view}, not {broker} in view {view}")
    return Greeted(wire, answer)


def _log_in(wire: BlockingWire, login: ClientLogin, node: Node, seconds: float) -> None:
    if (opening := login.opening(node)) is not None:
        wire.send(opening)
    if login.awaits_challenge:
        challenge = wire.receive(seconds)
        if not isinstance(challenge, Challenge):
            raise FrameError(f"{type(challenge).__name__} instead of a challenge")
        wire.send(login.answer(challenge, wire.peer_certificate, node))


def retried(addresses: Sequence[Address], seconds: float, attempt: Callable[[Address], Answer]) -> Answer:
    """Try one address after the other, with growing pauses between the rounds. An attempt may add to the addresses.

    Raises ConnectError in the end, or TlsError where TLS is the reason.
    """
    deadline, told = time.monotonic() + seconds, dict[Address, None]()
    for pause in backoff():
        attempts: dict[str, str] = {}
        refusal: TlsError | None = None
        is_answered = False
        while address := next((each for each in (*told, *addresses) if str(each) not in attempts), None):
            try:
                return attempt(address)
            except TlsError as error:
                attempts[str(address)], refusal = str(error), error
            except FrameError as error:
                attempts[str(address)] = f"no broker: {error}"
            except ElsewhereError as error:
                attempts[str(address)], is_answered = str(error), True
                told = dict.fromkeys([*_told(error.address), *told][:ADDRESSES_MAX])
            except OSError as error:
                attempts[str(address)] = why(error)
        if time.monotonic() + pause > deadline:
            raise refusal or ConnectError(attempts)
        time.sleep(min(pause, ANSWERED_PAUSE_SECONDS_MAX) if is_answered else pause)
    raise AssertionError("pauses do not end")


def _told(address: str) -> tuple[Address, ...]:
    try:
        return parse_addresses(address) if address else ()
    except AddressError:
        return ()


def _meaning(bye: Bye) -> Exception:
    match bye.why:
        case ByeReason.FENCED:
            return ClientFencedError(f"another of this name has come since: {bye.reason}")
        case ByeReason.DENIED:
            return AccessDeniedError("this client", bye.reason)
        case ByeReason.BROKEN:
            return SessionLostError(f"the session cannot go on: {bye.reason}")
        case ByeReason.ELSEWHERE:
            return ElsewhereError(bye.reason, bye.address)
        case _:
            return ConnectionError(bye.reason)
