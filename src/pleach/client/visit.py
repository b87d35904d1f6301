"""A client that has no process of its own: it comes, says what it has to say, and goes; a reader hears the answers.

Its session lies at the broker. Whoever knows name and epoch can take it up: the broker says how far it has heard
(`taken`), and what is said again under a number that it has is not heard twice. So work that is done anew after a
failure, by whatever process, is done once.
"""

from __future__ import annotations

import contextlib
import time
from typing import NamedTuple, Self

from pleach.core.links.frames import Ack, Bye, ByeReason, Data, Hello, Ping
from pleach.core.messages import Node
from pleach.net.addresses import Address
from pleach.net.blocking_connection import greet


class Identity(NamedTuple):
    """A client, in one of its lives."""

    name: Node
    epoch: int


class SessionPosition(NamedTuple):
    """What a client knows of its session with a broker: the broker's life, and up to where it has consumed."""

    life: int = 0  # 0: never met
    received: int = 0
    said: int = 0  # what it will not say again


STRANGER = SessionPosition()


class ShortConnection:
    """Raises OSError where the connection breaks: come again. Raises ClientFencedError, SessionLostError."""

    def __init__(
        self,
        address: Address,
        who: Identity,
        seconds: float,
        *,
        standing: SessionPosition = STRANGER,
        broker: Node = "",
    ) -> None:
        hello = Hello(who.name, who.epoch, standing.life, standing.received, standing.said + 1, role="client")
        self._seconds = seconds
        self._wire, answer = greet(address, hello, seconds, broker=broker)
        self.broker = answer.node
        self.life = answer.epoch
        self.first = answer.first  # of what the broker has for us
        self.taken = answer.received if answer.peer_epoch == who.epoch else 0  # of what we have said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.close()

    def say(self, number: int, payload: bytes) -> None:
        self._wire.send(Data(number, payload))

    def until_taken(self, number: int) -> None:
        """Wait until the broker has what was said, on its disk if it has one. Its answers are left to readers."""
        deadline = time.monotonic() + self._seconds
        while self.taken < number:
            frame = self._wire.receive(deadline - time.monotonic())
            if isinstance(frame, Ack):
                self.taken = max(self.taken, frame.upto)
            if time.monotonic() > deadline:
                raise TimeoutError("no answer in time")

    def stay(self, seconds: float) -> None:
        """Wait, and let the broker know that we are still here."""
        deadline = time.monotonic() + seconds
        self._wire.send(Ping())
        with contextlib.suppress(TimeoutError):
            while (left := deadline - time.monotonic()) > 0.0:
                self._wire.receive(left)

    def leave(self) -> None:
        self._wire.send(Bye(ByeReason.LEAVING, "all is said"))
