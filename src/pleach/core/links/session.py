"""One end of a link: a session that outlives connections, and makes them look like a reliable FIFO link.

    DOWN ── connected ──▶ GREETING ── Hello ──▶ UP ── disconnected ──▶ DOWN
                              └────── a newer epoch of ours is known there ──▶ FENCED

Rule 1: every payload gets the next sequence number and stays in the outbox until the peer has confirmed it.
Rule 2: on each connection both sides say what they have (`Hello.received`); sending goes on from there.
Rule 3: what has a number not above `received` is a duplicate and ignored; a gap means that the connection lost
        something, and the connection is ended, since the next one repairs it.
Rule 4: a driver commits what a session tells it to persist before it carries out a `Transmit`: nothing is confirmed or
        sent that a crash could make undone.
Rule 5: an epoch is a life of a node with its memory. A peer that comes with a higher epoch has lost its memory: what we
        had for its former life is void (`PeerReset`). One that comes with a lower epoch is a ghost, and is told so.
Rule 6: a Hello that speaks of a former life of its receiver is not used: what it offers (`first`) is about to become
        void. Its sender learns of the new life from our Hello, and greets a second time, knowing it.
Rule 7: who was sent to a peer by another node was sent to a life of it (`awaited`), and knows that one as if it had met
        it: rules 5 and 6 hold for it, too.

The session reads no clock (`now` is given) and knows no sockets; crashes, cuts, lost and doubled frames are simulated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import islice
from typing import NamedTuple, TypeAlias

import msgspec

from pleach.core.links.frames import BROKER, PROTOCOL_VERSION, STAND_IN, Ack, Bye, ByeReason, Data, Frame, Hello, Ping
from pleach.core.messages.runs import messages_in

HEARTBEATS_MISSED_MAX = 3


class SessionPhase(Enum):
    DOWN = "down"
    GREETING = "greeting"
    UP = "up"
    FENCED = "fenced"  # for good: another node of our name and a newer epoch is at work


class Transmit(NamedTuple):
    frame: Frame


class Arrived(NamedTuple):
    """A payload, in order and once; the driver hands it to its machine."""

    payload: bytes


class Hangup(NamedTuple):
    """End the connection; the session lives on."""

    reason: str


class Up(NamedTuple):
    """Both sides know where they stand."""


Numbered: TypeAlias = tuple[int, bytes]  # a payload, with its sequence before it


class PeerReset(NamedTuple):
    """The peer has lost its memory: what it knew of us, and what we had for it, is gone.

    `is_stand_in`: it takes the place of one that is dead, and asks who knows what; `unheard`: what we had for that one.
    `is_known`: we had met it before; else only a stand-in counts as reborn.
    """

    is_stand_in: bool = False
    unheard: Sequence[Numbered] = ()
    is_known: bool = True


class Fenced(NamedTuple):
    """We are the ghost."""

    reason: str


SessionEffect: TypeAlias = Transmit | Arrived | Hangup | Up | PeerReset | Fenced


class SessionConfig(msgspec.Struct, frozen=True):
    heartbeat: float = 1.0  # seconds between signs of life; three missing ones end a connection
    window: int = 1_024  # messages that may be under way unconfirmed on a connection; one frame always may


class SessionState(msgspec.Struct, array_like=True):
    """What must survive a restart."""

    epoch: int
    peer_epoch: int = 0  # 0: never met
    received: int = 0
    first: int = 1  # the sequence of outbox[0]
    outbox: list[bytes] = msgspec.field(default_factory=list)


class Session:
    def __init__(self, node: str, peer: str, state: SessionState, config: SessionConfig | None = None) -> None:
        self.node = node
        self.peer = peer
        self.phase = SessionPhase.DOWN
        self.peer_epoch = state.peer_epoch
        self.received = state.received
        self.first = state.first
        self._epoch = state.epoch
        self._outbox = deque(state.outbox)
        self.outbox_bytes = sum(map(len, state.outbox))
        self.admin = ""  # where operators find this node, for a peer that may know it
        self.role = BROKER  # of this node, as the peer shall see it
        self.awaited = 0  # the life of the peer that we were sent to; counts until we have met one
        self.unconfirmed = sum(map(messages_in, state.outbox))  # messages, in fewer payloads where some are runs
        self._config = config or SessionConfig()
        self._next_to_send = self.first  # on this connection
        self._under_way = 0  # messages sent on this connection and not confirmed
        self._heard_at = 0.0
        self._spoke_at = 0.0

    @property
    def last(self) -> int:
        """The highest sequence given out."""
        return self.first + len(self._outbox) - 1

    @property
    def known_epoch(self) -> int:
        """The life of the peer that we have met, or else were sent to; 0: none."""
        return self.peer_epoch or self.awaited

    def configure(self, config: SessionConfig) -> None:
        self._config = config

    # What our side wants -------------------------------------------------------------------------------------

    def send(self, payload: bytes, *, now: float) -> Sequence[SessionEffect]:
        self.queue(payload)
        return self._pumped(now)

    def queue(self, payload: bytes) -> int:
        """Put a payload into the outbox, and return its number; `pump` sends what was queued."""
        self._outbox.append(payload)
        self.outbox_bytes += len(payload)
        self.unconfirmed += messages_in(payload)
        return self.first + len(self._outbox) - 1

    def leave(self, reason: str) -> Sequence[SessionEffect]:
        """Say goodbye: we are stopping, and will be back."""
        if self.phase not in (SessionPhase.GREETING, SessionPhase.UP):
            return []
        return [Transmit(Bye(ByeReason.LEAVING, reason)), Hangup(reason)]

    def give_up(self, reason: str) -> Sequence[SessionEffect]:
        """Throw away what the peer has not confirmed. It cannot resume from there, and is told so, now or later."""
        was_connected = self.phase in (SessionPhase.GREETING, SessionPhase.UP)
        self._drop(self.last)
        self.first += 1  # a gap, so that even a peer that has all of it cannot resume
        self.disconnected()  # what is still on its way on this connection counts no more
        return [Transmit(Bye(ByeReason.BROKEN, reason)), Hangup(reason)] if was_connected else []

    # What readers do (reading.py) ----------------------------------------------------------------------------

    def payloads(self, after: int) -> Iterator[tuple[int, bytes]]:
        """What the outbox holds behind a number, each with its own."""
        skipped = max(0, after + 1 - self.first)
        return enumerate(islice(self._outbox, skipped, None), self.first + skipped)

    def confirm(self, upto: int) -> None:
        """The peer has taken all up to a number, and says so by another way than its connection."""
        self._drop(min(upto, self.last))
        self._next_to_send = max(self._next_to_send, self.first)

    # What the connection does --------------------------------------------------------------------------------

    def connected(self, *, now: float) -> Sequence[SessionEffect]:
        if self.phase is SessionPhase.FENCED:
            return [Hangup("fenced")]
        self.phase = SessionPhase.GREETING
        self._heard_at = self._spoke_at = now
        return [Transmit(self._hello())]

    def disconnected(self) -> None:
        if self.phase is not SessionPhase.FENCED:
            self.phase = SessionPhase.DOWN

    def tick(self, *, now: float) -> Sequence[SessionEffect]:
        """To be called every now and then, at least once per heartbeat."""
        if self.phase not in (SessionPhase.GREETING, SessionPhase.UP):
            return []
        silence = now - self._heard_at
        if silence > HEARTBEATS_MISSED_MAX * self._config.heartbeat:
            return [Hangup(f"nothing heard for {silence:.1f} s")]
        if self.phase is SessionPhase.UP and now - self._spoke_at >= self._config.heartbeat:
            self._spoke_at = now
            return [Transmit(Ping())]
        return []

    def receive(self, frame: Frame, *, now: float) -> Sequence[SessionEffect]:
        self._heard_at = now
        match self.phase, frame:
            case SessionPhase.GREETING, Hello():
                return self._greeted(frame, now)
            case ((SessionPhase.GREETING | SessionPhase.UP), Bye(why, reason)):
                return self._dismissed(why, reason)
            case SessionPhase.UP, Data(sequence, payload):
                return self._data(sequence, payload)
            case SessionPhase.UP, Ack(upto):
                return self._confirmed(upto, now)
            case SessionPhase.UP, Ping():
                return []
            case ((SessionPhase.DOWN | SessionPhase.FENCED), _):
                return []  # the rest of a connection that is over
            case _:
                return [Hangup(f"{type(frame).__name__} while {self.phase.value}")]

    def takes(self, sequence: int, *, now: float) -> bool:
        """Whether a Data frame is the next one. If so, it counts as received, and the caller confirms it, alone or
        with those that follow it. If not, `receive` says what to do about it."""
        if sequence != self.received + 1 or self.phase is not SessionPhase.UP:
            return False
        self._heard_at = now
        self.received = sequence
        return True

    # Frames --------------------------------------------------------------------------------------------------

    def _greeted(self, hello: Hello, now: float) -> Sequence[SessionEffect]:
        if hello.version != PROTOCOL_VERSION or hello.node != self.peer:
            reason = f"{self.node} expects {self.peer} v{PROTOCOL_VERSION}, not {hello.node} v{hello.version}"
            return [Transmit(Bye(ByeReason.REFUSED, reason)), Hangup(reason)]
        if hello.epoch < self.known_epoch:
            reason = f"a newer {hello.node} (epoch {self.known_epoch}) is known to {self.node}"
            return [Transmit(Bye(ByeReason.FENCED, reason)), Hangup(reason)]
        if (hello.peer_epoch or hello.awaits) not in (0, self._epoch):
            return []
        effects: list[SessionEffect] = []
        if hello.epoch > self.peer_epoch:
            effects += self._reborn(hello)
        if hello.peer_epoch == self._epoch:
            if not self.first - 1 <= hello.received <= self.last:
                reason = f"{self.peer} has up to {hello.received}, {self.node} offers {self.first} to {self.last}"
                return [*effects, Transmit(Bye(ByeReason.BROKEN, reason)), Hangup(reason)]
            self._drop(hello.received)
        self.phase = SessionPhase.UP
        self._next_to_send = self.first
        self._under_way = 0
        return [*effects, Up(), *self._pumped(now)]

    def _reborn(self, hello: Hello) -> Sequence[SessionEffect]:
        """The peer's former life, if we knew one, is over, and what we had for it is void."""
        known, is_stand_in = self.known_epoch not in (0, hello.epoch), hello.role == STAND_IN
        self.peer_epoch = hello.epoch
        self.received = hello.first - 1
        if not known:
            return [PeerReset(is_stand_in, is_known=False)] if is_stand_in else []
        unheard = tuple(self.payloads(0)) if is_stand_in else ()
        self._drop(self.last)
        # The Hello goes before all that the rebirth gives rise to.
        return [Transmit(self._hello()), PeerReset(is_stand_in, unheard)]

    def _hello(self) -> Hello:
        epochs, awaits = (self._epoch, self.peer_epoch), 0 if self.peer_epoch else self.awaited
        return Hello(self.node, *epochs, self.received, self.first, role=self.role, admin=self.admin, awaits=awaits)

    def _dismissed(self, why: ByeReason, reason: str) -> Sequence[SessionEffect]:
        if why is ByeReason.FENCED:
            self.phase = SessionPhase.FENCED
            return [Fenced(reason), Hangup(reason)]
        return [Hangup(reason)]

    def _data(self, sequence: int, payload: bytes) -> Sequence[SessionEffect]:
        if sequence <= self.received:
            return [Transmit(Ack(self.received))]
        if sequence > self.received + 1:
            return [Hangup(f"frame {sequence} after {self.received}: the connection has lost something")]
        self.received = sequence
        return [Arrived(payload), Transmit(Ack(sequence))]

    def _confirmed(self, upto: int, now: float) -> Sequence[SessionEffect]:
        if upto > self.last or upto >= self._next_to_send:
            return [Hangup(f"{upto} confirmed, which was never sent")]
        self._drop(upto)
        return self._pumped(now)

    def _drop(self, upto: int) -> None:
        while self.first <= upto:
            payload = self._outbox.popleft()
            count = messages_in(payload)
            self.outbox_bytes -= len(payload)
            self.unconfirmed -= count
            if self.first < self._next_to_send:
                self._under_way -= count
            self.first += 1

    def _pumped(self, now: float) -> Sequence[SessionEffect]:
        return [Transmit(frame) for frame in self.pump(now=now)]

    def pump(self, *, now: float) -> Sequence[Data]:
        """What is to be transmitted now: as much as the window has room for."""
        if self.phase is not SessionPhase.UP:
            return []
        frames: list[Data] = []
        outbox, first, last = self._outbox, self.first, self.last
        while self._next_to_send <= last:
            payload = outbox[self._next_to_send - first]
            count = messages_in(payload)
            if self._under_way and self._under_way + count > self._config.window:
                break
            frames.append(Data(self._next_to_send, payload))
            self._next_to_send += 1
            self._under_way += count
        if frames:
            self._spoke_at = now
        return frames

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> SessionState:
        return SessionState(self._epoch, self.peer_epoch, self.received, self.first, list(self._outbox))
