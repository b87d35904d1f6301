"""A machine with its links: sessions around a broker or a client, as one pure machine that a driver makes durable.

    frames ──▶ session ──▶ machine ──▶ sessions ──▶ Batch ──▶ commit ──▶ transmit

Events travel in runs (messages/runs.py). A machine may handle a run at once, with the same result as message by
message. Messages to one peer are joined into runs again (run_joiner.py).

All that happens between two calls of `take_batch` is one batch: inputs that changed the machine's state (the journal),
queued payloads, progress of links, and frames to transmit. The driver commits the batch to its disk, if it has one, and
then transmits (session.py, rule 4). A crash before the commit undoes the whole batch, and no peer has seen any of it.

The disk holds a captured state and the journal since. The machine is deterministic: replaying the journal yields the
state. Events that only pass through are not journalled; they are in the outboxes. Timers and operators' requests are
journalled like messages.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import assert_never

import msgspec

from pleach.core.access.rights import Rights
from pleach.core.effects import (
    CancelTimer,
    Concluded,
    Effect,
    LinkDown,
    LinkUp,
    Observe,
    Passed,
    Send,
    SetTimer,
    Withhold,
)
from pleach.core.events.event import Event
from pleach.core.links.batch import Batch, Journalled, Progress, Queued, Saved
from pleach.core.links.frames import Ack, Bye, ByeReason, Data, Frame
from pleach.core.links.machine import LinkedMachine
from pleach.core.links.run_joiner import RunJoiner
from pleach.core.links.session import (
    Arrived,
    Fenced,
    Hangup,
    Outdated,
    PeerReset,
    Session,
    SessionConfig,
    SessionEffect,
    SessionPhase,
    SessionState,
    Transmit,
    Up,
)
from pleach.core.links.upkeep import EndpointState, LinkNote, LinkPhase, Upkeep
from pleach.core.links.withholding import Withholding
from pleach.core.messages import (
    OPERATOR,
    Deliver,
    Forward,
    Message,
    Node,
    Publish,
    Published,
    decode,
    encode,
    pack,
    unpack,
)
from pleach.core.messages.runs import Run, encode_event, is_run
from pleach.errors import PleachError

__all__ = ["Batch", "Endpoint", "Journalled", "LinkedMachine", "Progress", "Queued", "Saved"]


class Endpoint:
    def __init__(self, machine: LinkedMachine, epoch: int, config: SessionConfig | None = None) -> None:
        self.machine = machine
        self.epoch = epoch
        self.sessions: dict[Node, Session] = {}
        self._config = config or SessionConfig()
        self.upkeep = Upkeep()
        self._batch = Batch.empty()
        self._noted: dict[Node, Progress] = {}  # as of the last batch
        self._joining = RunJoiner(self._put)
        self._unsent: dict[Node, float] = {}  # links with a grown outbox, and since when; `take_batch` pumps them
        self._follow_ups: list[Message] = []
        self._sequence_floor = 1  # of new sessions: beyond every number of a deleted one

    def recover(self, saved: Saved, *, now: float = 0.0) -> None:
        """Restore a fresh endpoint from disk and resume."""
        if saved.state is not None:
            machine, self.upkeep.links = _unpacked(saved.state)
            self.machine.restore(machine)
        for peer, state in saved.sessions.items():
            self.sessions[peer] = Session(self.machine.name, peer, state, self._config)
        self._sequence_floor = saved.sequence_floor
        for entry in saved.journal:  # its sends were queued then, and are in the outboxes
            for effect in self._react(entry):
                if isinstance(effect, LinkUp | LinkDown):
                    self.upkeep.note(effect, entry.now)
                elif isinstance(effect, Concluded):
                    self._batch.concluded.append(effect)  # the requester may not have been told
        for peer in [peer for peer in self.upkeep.links if peer not in self.sessions]:
            self.upkeep.forget(peer)  # its session was deleted, which is not journalled
        self._perform(self.machine.resume(now=now), now)

    def capture(self) -> bytes:
        """The state that the journal continues from; to be taken right after a batch and written with it."""
        assert not self._batch.changes_disk, "the state is ahead of its batch"
        assert not self._unsent, "the state is ahead of its batch"
        return pack(EndpointState(self.machine.capture(), self.upkeep.links))

    def admit(self, peer: Node) -> Session:
        """The session with a peer, created if there is none."""
        if peer not in self.sessions:
            fresh = SessionState(self.epoch, first=self._sequence_floor)
            self.sessions[peer] = Session(self.machine.name, peer, fresh, self._config)
            self._note(peer)
        return self.sessions[peer]

    def configure(self, config: SessionConfig) -> None:
        self._config = config
        for session in self.sessions.values():
            session.configure(config)

    # Inputs from the driver ----------------------------------------------------------------------------------

    def connected(self, peer: Node, *, now: float) -> None:
        self._forget_connection(peer)
        self.upkeep.connected(peer)
        session = self.admit(peer)
        session.introduction.awaited = self.upkeep.awaited_epoch(peer)
        self._carry_out(peer, session.connected(now=now), now)

    def disconnected(self, peer: Node) -> None:
        self.sessions[peer].disconnected()

    def receive(self, peer: Node, frame: Frame, *, now: float) -> None:
        self._joining.close(peer)
        if isinstance(frame, Bye) and self.upkeep.heard(peer, frame, self.sessions[peer]):
            self._batch.retired.append(peer)
        if isinstance(frame, Bye) and frame.why is ByeReason.DONE:
            return  # the connection lasts until both sides have sent DONE
        self._carry_out(peer, self.sessions[peer].receive(frame, now=now), now)

    def receive_data(self, peer: Node, frames: Sequence[Data], *, now: float) -> None:
        """Consecutive Data frames: like `receive` for each, with one confirmation for all."""
        session = self.sessions[peer]
        taken = 0
        for frame in frames:
            if not session.takes(frame.sequence, now=now):
                break
            taken += 1
            self._arrived(peer, frame.payload, now)
        if taken:
            self._carry_out(peer, [Transmit(Ack(session.received))], now)
        for frame in frames[taken:]:
            self.receive(peer, frame, now=now)

    def tick(self, *, now: float) -> None:
        for peer, session in self.sessions.items():
            self._carry_out(peer, session.tick(now=now), now)

    def fire(self, *, now: float) -> None:
        """Called when a timer is due (`upkeep.next_due`)."""
        while name := self.upkeep.take_due(now):
            effects = self.machine.handle_timer(name, now=now)
            self._batch.journal.append(Journalled(OPERATOR, None, now, name))
            self._carry_on(effects, now)

    def request(self, message: Message, *, now: float, sender: Node = OPERATOR) -> None:
        """Hand an operator's request to the machine; raises ProtocolError where the machine does not accept it.

        `sender`: a peer that is gone and on whose behalf the driver speaks.
        """
        effects = self.machine.handle(sender, message, now=now)
        self._batch.journal.append(Journalled(sender, encode(message), now))
        self._carry_on(effects, now)

    def follow_up(self, message: Message) -> None:
        """Like `request`, for what a driver says while the machine handles an input: it is handled right behind that.

        A request at that moment would be journalled ahead of the input, and its effects would come first.
        """
        self._follow_ups.append(message)

    def leave(self, reason: str) -> None:
        """Announce a clean stop on all links."""
        for peer, session in self.sessions.items():
            self._carry_out(peer, session.leave(reason), 0.0)

    def expel(self, peer: Node, reason: str, *, now: float) -> None:
        """Give up a peer that cannot be waited for; the machine sees a reset of the peer."""
        self._joining.close(peer)
        self._carry_out(peer, self.sessions[peer].give_up(reason), now)
        self._peer_reset(peer, now)
        self._note(peer)

    def give_name(self, peer: Node, reason: str, *, now: float) -> None:
        """Give up a peer whose name belongs to another node from now on."""
        self.expel(peer, reason, now=now)
        self.sessions[peer].begin_anew()
        self._note(peer)

    def confirm(self, peer: Node, upto: int) -> None:
        """A reader (reading.py) has confirmed a session's payloads up to a number."""
        self._joining.close(peer)
        self.sessions[peer].confirm(upto)
        self._note(peer)

    def forget(self, peers: Collection[Node]) -> None:
        """Delete the sessions of peers that are not connected. The batch must be taken before one of them returns.

        A peer that returns and refers to the deleted session is refused: new sessions count from beyond it.
        """
        for peer in peers:
            self._joining.close(peer)
            session = self.sessions.pop(peer)
            assert session.phase is SessionPhase.DOWN, f"{peer} is connected"
            self._sequence_floor = max(self._sequence_floor, session.last + 2)
            self.upkeep.forget(peer)
            for kept in (self._noted, self._unsent, self._batch.progress):
                kept.pop(peer, None)
        batch = self._batch
        batch.queued[:] = [each for each in batch.queued if each.peer in self.sessions]
        batch.rewritten[:] = [each for each in batch.rewritten if each.peer in self.sessions]
        batch.forgotten.extend(peers)

    def perform(self, effects: Sequence[Effect], *, now: float) -> None:
        """Perform effects of calls that the driver made on the machine itself."""
        self._perform(effects, now)

    def publish(self, peer: Node, event: Event, *, now: float) -> None:
        """Send an event that a client machine has drafted, like `perform`."""
        self._joining.add_events(peer, Publish, 1, encode_event(event))
        self._unsent[peer] = now

    def take_batch(self) -> Batch:
        self._joining.close_all()
        for peer in list(self._unsent):
            self._pump(peer)
        if self.upkeep.links:
            self._retire()
        batch, self._batch = self._batch, Batch.empty()
        return batch

    # Inside --------------------------------------------------------------------------------------------------

    def _carry_out(self, peer: Node, effects: Sequence[SessionEffect], now: float) -> None:
        batch = self._batch
        for effect in effects:
            match effect:
                case Transmit(frame):
                    if peer in self._unsent:
                        self._joining.close(peer)
                        self._pump(peer)
                    batch.transmits.append((peer, frame))
                case Arrived(payload):
                    self._arrived(peer, payload, now)
                case Hangup(reason):
                    batch.hangups.append((peer, reason))
                case PeerReset():
                    self._peer_reset(peer, now)
                case Up():
                    batch.up.append(peer)
                case Fenced(reason):
                    batch.fenced.append((peer, reason))
                case Outdated(reason):
                    batch.outdated.append((peer, reason))
        self._note(peer)

    def _arrived(self, peer: Node, payload: bytes, now: float) -> None:
        """A payload that the machine cannot accept is the peer's fault and ends the connection."""
        try:
            if is_run(payload):
                self._take_run(peer, Run(payload), now)
            else:
                self._take(peer, decode(payload), payload, now)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, PleachError) as error:
            self._batch.hangups.append((peer, f"{type(error).__name__}: {error}"))

    def _take(self, peer: Node, message: Message, payload: bytes, now: float) -> None:
        changed = self.machine.is_changed_by(peer, message)
        effects = self.machine.handle(peer, message, now=now)
        if changed:
            self._batch.journal.append(Journalled(peer, payload, now))
        self._carry_on(effects, now)

    def _take_run(self, peer: Node, run: Run, now: float) -> None:
        passed = self.machine.handle_run(peer, run)
        if passed is not None:
            self._pass_on(run, passed, now)
            return
        for message in run.messages():
            self._take(peer, message, encode(message), now)

    def _pass_on(self, run: Run, passed: Passed, now: float) -> None:
        """Forward the events in the bytes in which they arrived."""
        add_events, unsent = self._joining.add_events, self._unsent
        for start, end, neighbours, clients in passed.spans:
            events = run.bytes_of(start, end)
            for peer in neighbours:
                add_events(peer, Forward, end - start, events)
                unsent[peer] = now
            for peer in clients:
                add_events(peer, Deliver, end - start, events)
                unsent[peer] = now
        self._perform(passed.effects, now)

    def _peer_reset(self, peer: Node, now: float) -> None:
        self._batch.journal.append(Journalled(peer, None, now))
        self._carry_on(self.machine.peer_reset(peer), now)

    def _react(self, entry: Journalled) -> Sequence[Effect]:
        if entry.timer:
            return self.machine.handle_timer(entry.timer, now=entry.now)
        if entry.payload is None:
            return self.machine.peer_reset(entry.peer)
        return self.machine.handle(entry.peer, decode(entry.payload), now=entry.now)

    def _carry_on(self, effects: Sequence[Effect], now: float) -> None:
        """Perform the effects of an input, and handle what the driver has said meanwhile."""
        self._perform(effects, now)
        while self._follow_ups:
            self.request(self._follow_ups.pop(0), now=now)

    def _perform(self, effects: Sequence[Effect], now: float) -> None:
        """Queue sends; each message is encoded once, however many peers get it."""
        batch = self._batch
        encoded: dict[int, bytes] = {}
        for effect in effects:
            match effect:
                case Send(to, message):
                    self._queue(to, message, encoded)
                    self._unsent[to] = now
                case Observe():
                    batch.observed.append(effect)
                case Concluded():
                    batch.concluded.append(effect)
                case LinkUp() | LinkDown():
                    self._change_link(effect, now)
                case SetTimer() | CancelTimer():
                    self.upkeep.note(effect, now)
                case Withhold(client, rights):
                    self._withhold(client, rights)
                case _:
                    assert_never(effect)

    def _withhold(self, client: Node, rights: Rights) -> None:
        """Also in this batch, which nobody has seen. A replayed journal does not repeat it: the disk has the result."""
        session = self.sessions.get(client)
        if session is None:
            return
        self._joining.close(client)
        changed = dict(session.rewrite(Withholding(rights)))
        if not changed:
            return
        batch, fresh = self._batch, {each.sequence for each in self._batch.queued if each.peer == client}
        batch.queued[:] = [
            Queued(client, each.sequence, changed.get(each.sequence, each.payload)) if each.peer == client else each
            for each in batch.queued
        ]
        batch.rewritten.extend(Queued(client, number, new) for number, new in changed.items() if number not in fresh)
        batch.transmits[:] = [
            (peer, Data(frame.sequence, changed.get(frame.sequence, frame.payload)))
            if peer == client and isinstance(frame, Data)
            else (peer, frame)
            for peer, frame in batch.transmits
        ]

    def _change_link(self, effect: LinkUp | LinkDown, now: float) -> None:
        was_closed = self.upkeep.phase(effect.to) is LinkPhase.FORMER
        self.upkeep.note(effect, now)
        session = self.admit(effect.to)
        if isinstance(effect, LinkDown):
            return
        if was_closed and not effect.is_client and session.phase is SessionPhase.DOWN:
            session.want_again()
        self._batch.dial.append((effect.to, self.upkeep.links[effect.to].address))
        if self.upkeep.has_said_done(effect.to):
            self._batch.hangups.append((effect.to, "the link is wanted again"))

    def _retire(self) -> None:
        """Send DONE on links that are finished here, and end those that both sides have finished."""
        batch = self._batch
        for peer in self.upkeep.done(self.sessions):
            reason = f"{self.machine.name} has no more for {peer}"
            batch.transmits.append((peer, Bye(ByeReason.DONE, reason, self.sessions[peer].received)))
        for peer in self.upkeep.over(self.sessions):
            batch.hangups.append((peer, "the link is closed"))
            batch.retired.append(peer)

    def _queue(self, peer: Node, message: Message, encoded: dict[int, bytes]) -> None:
        """`encoded`: cache by the identity of the message or event."""
        match message:
            case Deliver(event) | Forward(event) | Publish(event):
                part = encoded.get(id(event)) or encoded.setdefault(id(event), encode_event(event))
                self._joining.add_events(peer, message.__class__, 1, part)
            case Published():
                self._joining.add_confirmation(peer, message)
            case _:
                part = encoded.get(id(message)) or encoded.setdefault(id(message), encode(message))
                self._joining.add(peer, part)

    def _put(self, peer: Node, payload: bytes) -> None:
        """Number a payload and queue it."""
        session = self.sessions.get(peer) or self.admit(peer)
        self._batch.queued.append(Queued(peer, session.queue(payload), payload))

    def _pump(self, peer: Node) -> None:
        now = self._unsent.pop(peer)
        session = self.sessions.get(peer)
        if session is not None:
            self._batch.transmits.extend([(peer, frame) for frame in session.pump(now=now)])

    def _forget_connection(self, peer: Node) -> None:
        """Frames and hangups of this batch for a former connection must not reach the new one."""
        batch = self._batch
        batch.transmits[:] = [each for each in batch.transmits if each[0] != peer]
        batch.hangups[:] = [each for each in batch.hangups if each[0] != peer]

    def _note(self, peer: Node) -> None:
        progress = Progress.of(self.sessions[peer])
        if self._noted.get(peer) != progress:
            self._noted[peer] = self._batch.progress[peer] = progress


def _unpacked(data: bytes) -> tuple[bytes, dict[Node, LinkNote]]:
    state = unpack(data, EndpointState)
    return state.machine, state.links
