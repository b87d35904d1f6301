"""Short, blocking connections of a client that has no process of its own: it sends payloads and leaves.

Its session is kept by the broker, and any process that knows name and epoch can continue it: the broker says how many
payloads it has received (`taken`), and ignores a payload that is sent again under its number. So work that is repeated
after a failure, by whatever process, is done once. The broker's answers are read by a reader (reader.py).
"""

from __future__ import annotations

import contextlib
import time
from typing import NamedTuple, Self

from pleach.core.links.frames import Ack, Bye, ByeReason, Data, Hello, Ping
from pleach.core.messages import Node
from pleach.net.addresses import Address
from pleach.net.blocking_connection import greet
from pleach.net.client_login import PLAIN, Entry


class Identity(NamedTuple):
    """A client and its epoch."""

    name: Node
    epoch: int


class SessionPosition(NamedTuple):
    """What a client knows of its session with a broker."""

    life: int = 0  # the broker's epoch; 0: not known
    received: int = 0  # consumed up to this payload
    said: int = 0  # payloads that will not be sent again


NO_SESSION = SessionPosition()


class ShortConnection:
    """Raises OSError where the connection breaks: try again. Raises ClientFencedError, SessionLostError."""

    def __init__(
        self,
        address: Address,
        who: Identity,
        seconds: float,
        *,
        standing: SessionPosition = NO_SESSION,
        broker: Node = "",
        view: int = 0,
        entry: Entry = PLAIN,
    ) -> None:
        """`broker`, `view`: the one that must answer, and in no older view."""
        hello = Hello(who.name, who.epoch, standing.life, standing.received, standing.said + 1, role="client")
        self._seconds = seconds
        self._wire, answer = greet(address, hello, seconds, broker=broker, view=view, entry=entry)
        self.broker = answer.node
        self.view = answer.view
        self.fallbacks = tuple(answer.fallbacks)  # other brokers, where to ask for this one when it is gone
        self.life = answer.epoch
        self.token = answer.token  # for readers
        self.first = answer.first  # payload that the broker has for us
        self.taken = answer.received if answer.peer_epoch == who.epoch else 0  # payloads that it has received from us

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.close()

    def say(self, number: int, payload: bytes) -> None:
        self._wire.send(Data(number, payload))

    def until_taken(self, number: int) -> None:
        """Wait until the broker has received the payload, on its disk if it has one. Answers are left to readers."""
        deadline = time.monotonic() + self._seconds
        while self.taken < number:
            frame = self._wire.receive(deadline - time.monotonic())
            if isinstance(frame, Ack):
                self.taken = max(self.taken, frame.upto)
            if time.monotonic() > deadline:
                raise TimeoutError("no answer in time")

    def stay(self, seconds: float) -> None:
        """Wait, and send the broker a heartbeat."""
        deadline = time.monotonic() + seconds
        self._wire.send(Ping())
        with contextlib.suppress(TimeoutError):
            while (left := deadline - time.monotonic()) > 0.0:
                self._wire.receive(left)

    def leave(self) -> None:
        self._wire.send(Bye(ByeReason.LEAVING, "done"))
