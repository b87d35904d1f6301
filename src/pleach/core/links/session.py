"""One end of a link: a session that outlives connections and turns them into a reliable FIFO link.

    DOWN ── connected ──▶ GREETING ── Hello ──▶ UP ── disconnected ──▶ DOWN
                              └────── the peer knows a newer epoch of ours ──▶ FENCED

Rule 1: every payload gets the next sequence number and stays in the outbox until the peer has confirmed it.
Rule 2: on each connection both sides state what they have received (`Hello.received`); sending resumes from there.
Rule 3: a payload whose number is not above `received` is a duplicate and is ignored. A gap means that the connection
        lost frames; the session ends the connection, and the next one sends them again.
Rule 4: a driver commits what a session tells it to persist before it carries out a `Transmit`: nothing is confirmed or
        sent that a crash could undo.
Rule 5: an epoch numbers the incarnations of a node; its state survives restarts within an epoch. A peer with a higher
        epoch has lost its state: what we had for its former epoch is void (`PeerReset`). A peer with a lower epoch is
        outdated, and is refused as fenced.
Rule 6: a Hello that refers to a former epoch of its receiver is ignored, since what it offers (`first`) is about to
        become void. Its sender learns the new epoch from our Hello and sends a second Hello.
Rule 7: a node that another node referred to a peer was referred to one epoch of it (`awaited`). It treats that epoch as
        known: rules 5 and 6 apply.
Rule 8: a peer that was promoted on another machine has the state of its epoch, and a higher view (core/standby/). One
        with a lower view of that epoch than was met is outdated, and is refused as fenced.
Rule 9: a broker whose memory was put back from an old copy has promised what it does not know any more: its neighbour
        has received more than it remembers to have numbered, or has its confirmation of more than it remembers to have
        received. It must not go on (`Outdated`): by new payloads under the numbers of former ones it would lose both.
        What it has numbered since it began counts for nothing before its first meeting with that neighbour.
Rule 10: a link that both sides had closed, and that is asked for again, is one to whoever has the name now.
        That it lost its state while there was no link is no `PeerReset`, and what was queued since is for it.

The session reads no clock (`now` is a parameter) and knows no sockets; tests simulate crashes, cuts and lost frames.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import islice
from typing import NamedTuple, TypeAlias

import msgspec

from pleach.core.links.frames import BROKER, PROTOCOL_VERSION, Ack, Bye, ByeReason, Data, Frame, Hello, LinkTerms, Ping
from pleach.core.messages.runs import messages_in

HEARTBEATS_MISSED_MAX = 3


class SessionPhase(Enum):
    DOWN = "down"
    GREETING = "greeting"
    UP = "up"
    FENCED = "fenced"  # final: another node with our name and a newer epoch is running


class Transmit(NamedTuple):
    frame: Frame


class Arrived(NamedTuple):
    """A payload, in order and exactly once; the driver hands it to its machine."""

    payload: bytes


class Hangup(NamedTuple):
    """End the connection; the session remains."""

    reason: str


class Up(NamedTuple):
    """The handshake is complete."""


Numbered: TypeAlias = tuple[int, bytes]  # sequence and payload


class PeerReset(NamedTuple):
    """The peer has lost its state: what it knew of us and what we had for it is gone."""


class Fenced(NamedTuple):
    """This node is outdated: a newer epoch of it is running."""

    reason: str


class Outdated(NamedTuple):
    """This node's memory is an old copy: the peer knows more of it than it does itself."""

    reason: str


SessionEffect: TypeAlias = Transmit | Arrived | Hangup | Up | PeerReset | Fenced | Outdated


class SessionConfig(msgspec.Struct, frozen=True):
    heartbeat: float = 1.0  # seconds between pings; HEARTBEATS_MISSED_MAX missing ones end a connection
    window: int = 1_024  # unconfirmed messages in flight on a connection; at least one frame is always sent


class SessionState(msgspec.Struct, array_like=True):
    """The part of a session that survives a restart."""

    epoch: int
    peer_epoch: int = 0  # 0: none known
    received: int = 0
    first: int = 1  # the sequence of outbox[0]
    outbox: list[bytes] = msgspec.field(default_factory=list)
    peer_view: int = 0  # the highest of that epoch that was met; 0: a peer without standbys


class Introduction(msgspec.Struct):
    """What a node says of itself in its Hello, besides numbers, and what it goes by at the first one of the peer."""

    node: str
    epoch: int
    role: str = BROKER
    admin: str = ""  # operators' address of this node, for peers that may know it
    view: int = 0  # of a broker that has standbys
    fallbacks: tuple[str, ...] = ()  # addresses of other brokers, for clients
    awaited: int = 0  # the epoch of the peer that this node was referred to; valid until a Hello names one
    token: str = ""  # for readers of this session
    terms: LinkTerms = LinkTerms()  # of a broker, for other brokers
    remembered: int | None = None  # the highest sequence given out before this process began; None: the peer was met
    wanted_from: int | None = None  # the last sequence before a closed link was asked for; None: the peer was met since
    former: int = 0  # said instead of a former epoch of the peer, which another one who has its name may not know
    relay: str = ""  # through which this node has dialled the peer


class Session:
    def __init__(self, node: str, peer: str, state: SessionState, config: SessionConfig | None = None) -> None:
        self.peer = peer
        self.phase = SessionPhase.DOWN
        self.peer_epoch = state.peer_epoch
        self.peer_view = state.peer_view
        self.received = state.received
        self.first = state.first
        self._outbox = deque(state.outbox)
        self.outbox_bytes = sum(map(len, state.outbox))
        self.introduction = Introduction(node, state.epoch, remembered=self.last)
        self.unconfirmed = sum(map(messages_in, state.outbox))  # messages; a run is one payload of several messages
        self._config = config or SessionConfig()
        self._next_to_send = self.first  # on this connection
        self._in_flight = 0  # messages sent on this connection and not confirmed
        self._heard_at = 0.0
        self._spoke_at = 0.0

    @property
    def node(self) -> str:
        return self.introduction.node

    @property
    def last(self) -> int:
        """The highest sequence given out."""
        return self.first + len(self._outbox) - 1

    @property
    def known_epoch(self) -> int:
        """The epoch of the peer from its last Hello, or else the one we were referred to; 0: none."""
        return self.peer_epoch or self.introduction.awaited

    @property
    def is_met(self) -> bool:
        """Whether the peer has said Hello since this process began, in knowledge of the node's epoch or of none."""
        return self.introduction.remembered is None

    def begin_later(self, epoch: int) -> None:
        """Take a higher epoch towards this peer, which has met a later life of the node than this one claims to be."""
        assert not self.is_met, "the peer goes by the epoch that the node had"
        assert epoch > self.introduction.epoch, "epochs only rise"
        self.introduction.epoch = epoch

    def want_again(self) -> None:
        """A link that both sides had closed is asked for (rule 10)."""
        self.introduction.wanted_from = self.last

    def configure(self, config: SessionConfig) -> None:
        self._config = config

    # Sending -------------------------------------------------------------------------------------------------

    def send(self, payload: bytes, *, now: float) -> Sequence[SessionEffect]:
        self.queue(payload)
        return self._pumped(now)

    def queue(self, payload: bytes) -> int:
        """Append a payload to the outbox and return its number; `pump` sends what was queued."""
        self._outbox.append(payload)
        self.outbox_bytes += len(payload)
        self.unconfirmed += messages_in(payload)
        return self.first + len(self._outbox) - 1

    def leave(self, reason: str) -> Sequence[SessionEffect]:
        """Announce a clean stop; this node will be back."""
        if self.phase not in (SessionPhase.GREETING, SessionPhase.UP):
            return []
        return [Transmit(Bye(ByeReason.LEAVING, reason)), Hangup(reason)]

    def give_up(self, reason: str) -> Sequence[SessionEffect]:
        """Discard what the peer has not confirmed. The peer cannot resume, and is told so now or when it returns."""
        was_connected = self.phase in (SessionPhase.GREETING, SessionPhase.UP)
        self._drop(self.last)
        self.first += 1  # a gap, so that even a peer that received everything cannot resume
        self.disconnected()  # frames that are still in flight on this connection are ignored
        return [Transmit(Bye(ByeReason.BROKEN, reason)), Hangup(reason)] if was_connected else []

    def rewrite(self, change: Callable[[bytes], bytes]) -> list[Numbered]:
        """Put other payloads, of as many messages, in the places of queued ones. Returns those that are others."""
        after = deque(map(change, self._outbox))
        changed = [
            (number, new)
            for number, (new, old) in enumerate(zip(after, self._outbox, strict=True), self.first)
            if new is not old
        ]
        self._outbox, self.outbox_bytes = after, sum(map(len, after))
        return changed

    def begin_anew(self) -> None:
        """Another node has the peer's name from now on, of which nothing is known. Called after `give_up`."""
        assert self.phase is SessionPhase.DOWN, "the former peer was not given up"
        self.peer_epoch = self.received = 0

    # Readers (reading.py) ------------------------------------------------------------------------------------

    def payloads(self, after: int) -> Iterator[tuple[int, bytes]]:
        """The payloads of the outbox behind a number, each with its own number."""
        skipped = max(0, after + 1 - self.first)
        return enumerate(islice(self._outbox, skipped, None), self.first + skipped)

    def confirm(self, upto: int) -> None:
        """The peer has confirmed all up to a number, on another connection than the session's."""
        self._drop(min(upto, self.last))
        self._next_to_send = max(self._next_to_send, self.first)

    # The connection ------------------------------------------------------------------------------------------

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
        """Called periodically, at least once per heartbeat."""
        if self.phase not in (SessionPhase.GREETING, SessionPhase.UP):
            return []
        silence = now - self._heard_at
        if silence > HEARTBEATS_MISSED_MAX * self._config.heartbeat:
            return [Hangup(f"nothing heard for {silence:.1f} s")]
        if self.phase is SessionPhase.UP and now - self._spoke_at >= self._config.heartbeat:
            self._spoke_at = now
            return [Transmit(Ping())]
        return []

    def silence(self, now: float) -> float:
        """For how long nothing was heard on a connection that is up."""
        return now - self._heard_at if self.phase is SessionPhase.UP else 0.0

    def receive(self, frame: Frame, *, now: float) -> Sequence[SessionEffect]:
        self._heard_at = now
        match self.phase, frame:
            case SessionPhase.GREETING, Hello():
                return self._hello_received(frame, now)
            case ((SessionPhase.GREETING | SessionPhase.UP), Bye(why, reason)):
                return self._bye(why, reason)
            case SessionPhase.UP, Data(sequence, payload):
                return self._data(sequence, payload)
            case SessionPhase.UP, Ack(upto):
                return self._confirmed(upto, now)
            case SessionPhase.UP, Ping():
                return []
            case ((SessionPhase.DOWN | SessionPhase.FENCED), _):
                return []  # frames of a connection that has ended
            case _:
                return [Hangup(f"{type(frame).__name__} while {self.phase.value}")]

    def takes(self, sequence: int, *, now: float) -> bool:
        """Whether a Data frame is the next one. If so, it counts as received and the caller confirms it, alone or with
        the frames that follow. If not, `receive` decides what to do with it."""
        if sequence != self.received + 1 or self.phase is not SessionPhase.UP:
            return False
        self._heard_at = now
        self.received = sequence
        return True

    # Frames --------------------------------------------------------------------------------------------------

    def _hello_received(self, hello: Hello, now: float) -> Sequence[SessionEffect]:
        if hello.version != PROTOCOL_VERSION or hello.node != self.peer:
            reason = f"{self.node} expects {self.peer} v{PROTOCOL_VERSION}, not {hello.node} v{hello.version}"
            return [Transmit(Bye(ByeReason.REFUSED, reason)), Hangup(reason)]
        if hello.epoch < self.known_epoch:
            reason = f"a newer {hello.node} is known to {self.node}"
            return [Transmit(Bye(ByeReason.FENCED, reason)), Hangup(reason)]
        if hello.epoch == self.peer_epoch and hello.view < self.peer_view:
            reason = f"view {self.peer_view} of {hello.node} is known to {self.node}, not only {hello.view}"
            return [Transmit(Bye(ByeReason.FENCED, reason, view=self.peer_view)), Hangup(reason)]
        self.peer_view = hello.view
        if (hello.peer_epoch or hello.awaits) not in (0, self.introduction.epoch):
            return []
        if reason := self._forgotten(hello):
            return [Outdated(reason), Hangup(reason)]
        effects: list[SessionEffect] = []
        if hello.epoch > self.peer_epoch:
            effects += self._reset(hello)
        if hello.peer_epoch == self.introduction.epoch:
            if not self.first - 1 <= hello.received <= self.last:
                reason = f"{self.peer} has up to {hello.received}, {self.node} offers {self.first} to {self.last}"
                return [*effects, Transmit(Bye(ByeReason.BROKEN, reason)), Hangup(reason)]
            self._drop(hello.received)
        self.phase = SessionPhase.UP
        self.introduction.remembered = self.introduction.wanted_from = None
        self._next_to_send = self.first
        self._in_flight = 0
        return [*effects, Up(), *self._pumped(now)]

    def _forgotten(self, hello: Hello) -> str:
        """What the peer knows of this node, and the node does not (rule 9); empty: nothing."""
        own, remembered = self.introduction, self.introduction.remembered
        is_same = (hello.epoch, hello.peer_epoch) == (self.peer_epoch, own.epoch)
        if remembered is None or not is_same or (own.role, hello.role) != (BROKER, BROKER):
            return ""
        if hello.received > remembered:
            return f"{self.peer} has had {hello.received} payloads of {own.node}, which remembers {remembered}"
        if hello.first > self.received + 1:
            return f"{own.node} has confirmed {hello.first - 1} to {self.peer}, and remembers {self.received}"
        return ""

    def _reset(self, hello: Hello) -> Sequence[SessionEffect]:
        """The peer has a new epoch: what we had for a former one is void."""
        is_known = self.known_epoch not in (0, hello.epoch)
        self.peer_epoch = hello.epoch
        self.introduction.former = 0
        self.received = hello.first - 1
        if not is_known:
            return []
        if self.introduction.wanted_from is not None:
            self._drop(self.introduction.wanted_from)
            return [Transmit(self._hello())]
        self._drop(self.last)
        # The Hello precedes all messages that the reset causes.
        return [Transmit(self._hello()), PeerReset()]

    def _hello(self) -> Hello:
        own = self.introduction
        awaits = 0 if self.peer_epoch else own.awaited
        numbers = (own.epoch, own.former or self.peer_epoch, self.received, self.first)
        return Hello(
            self.node,
            *numbers,
            role=own.role,
            admin=own.admin,
            awaits=awaits,
            token=own.token,
            view=own.view,
            fallbacks=own.fallbacks,
            terms=own.terms,
            relay=own.relay,
        )

    def _bye(self, why: ByeReason, reason: str) -> Sequence[SessionEffect]:
        if why is ByeReason.FENCED:
            self.phase = SessionPhase.FENCED
            return [Fenced(reason), Hangup(reason)]
        return [Hangup(reason)]

    def _data(self, sequence: int, payload: bytes) -> Sequence[SessionEffect]:
        if sequence <= self.received:
            return [Transmit(Ack(self.received))]
        if sequence > self.received + 1:
            return [Hangup(f"frame {sequence} after {self.received}: the connection has lost frames")]
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
                self._in_flight -= count
            self.first += 1

    def _pumped(self, now: float) -> Sequence[SessionEffect]:
        return [Transmit(frame) for frame in self.pump(now=now)]

    def pump(self, *, now: float) -> Sequence[Data]:
        """The frames to transmit now: as many as the window allows."""
        if self.phase is not SessionPhase.UP:
            return []
        frames: list[Data] = []
        outbox, first, last = self._outbox, self.first, self.last
        while self._next_to_send <= last:
            payload = outbox[self._next_to_send - first]
            count = messages_in(payload)
            if self._in_flight and self._in_flight + count > self._config.window:
                break
            frames.append(Data(self._next_to_send, payload))
            self._next_to_send += 1
            self._in_flight += count
        if frames:
            self._spoke_at = now
        return frames

    # State ---------------------------------------------------------------------------------------------------

    def capture(self) -> SessionState:
        numbers = (self.introduction.epoch, self.peer_epoch, self.received, self.first)
        return SessionState(*numbers, list(self._outbox), self.peer_view)
