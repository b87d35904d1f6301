"""A stranger at a door of a real broker: a blocking socket on which a test says what it likes, frame by frame."""

import socket
import time

from pleach.core.links.frames import Bye, Data, FrameReader, Hello, encode_frame
from pleach.core.messages import encode
from pleach.core.messages.runs import decode_all
from support.live.broker_process import PATIENCE_SECONDS, address


class Stranger:
    """`door`: an address of a broker. Frames that the broker sends are collected in `heard`."""

    def __init__(self, door, name, *, epoch=None, role="client", token="", receive_bytes=0, **numbers):
        self.name = name
        self.epoch = epoch or time.time_ns()
        self.heard = []
        self.is_ended = False  # the broker has hung up
        self._reader = FrameReader()
        self._number = 0
        self._socket = socket.socket()
        if receive_bytes:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self._socket.settimeout(PATIENCE_SECONDS)
        self._socket.connect(address(door))
        peer_epoch, received, first = (numbers.get(key, 0) for key in ("peer_epoch", "received", "first"))
        self.say(Hello(name, self.epoch, peer_epoch, received, first or 1, role=role, token=token))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def say(self, *frames):
        try:
            self._socket.sendall(b"".join(map(encode_frame, frames)))
        except (BrokenPipeError, ConnectionResetError):
            self.is_ended = True

    def tell(self, *messages):
        """Messages, numbered as a session does."""
        self.tell_raw(*map(encode, messages))

    def tell_raw(self, *payloads):
        for payload in payloads:
            self._number += 1
            self.say(Data(self._number, payload))

    def hear(self, seconds=0.0):
        """Read what has come, waiting this long at most for something; returns all that was heard."""
        self._socket.settimeout(max(seconds, 0.001))
        try:
            received = self._socket.recv(1_048_576)
        except TimeoutError:
            return self.heard
        except ConnectionResetError:
            received = b""
        self.is_ended = self.is_ended or not received
        self.heard += self._reader.feed(received)
        return self.heard

    def hear_out(self):
        """Until the broker hangs up."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self.is_ended:
            assert time.monotonic() < deadline, f"the broker does not hang up on {self.name}"
            self.hear(0.1)
        return self.heard

    def until(self, condition):
        """Read until the condition holds of this stranger."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition(self):
            assert time.monotonic() < deadline, f"{self.name} waits in vain; heard {self.heard[-3:]}"
            assert not self.is_ended, f"the broker has hung up on {self.name}: {self.heard[-3:]}"
            self.hear(0.1)

    @property
    def messages(self):
        return [message for frame in self.heard if isinstance(frame, Data) for message in decode_all(frame.payload)]

    @property
    def byes(self):
        return [frame for frame in self.heard if isinstance(frame, Bye)]

    @property
    def greeted(self):
        return next((frame for frame in self.heard if isinstance(frame, Hello)), None)
