"""What a client and its driver know of each other: options, what is heard, and who listens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from pleach.core.client.machine import ClientMachine as Machine
from pleach.core.client.returning import ReturningClient
from pleach.core.effects import Effect, Observe, Observed, Passed
from pleach.core.events.event import Event
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.session import SessionPhase
from pleach.core.messages import Deliver, FallbackBrokers, Message, Node
from pleach.core.messages.runs import Run
from pleach.errors import ClientError
from pleach.net.addresses import Address
from pleach.trace.broker_losses import HELD

log = logging.getLogger(__name__)


class ClientOptions(msgspec.Struct, frozen=True):
    addresses: tuple[Address, ...]
    name: Node
    state_dir: Path | None
    own_events: bool
    connect_timeout: float
    heartbeat: float  # seconds between our signs of life
    patience: float  # seconds of the broker's silence that end a connection
    observer: Callable[[Observe], None] | None

    def observe(self, observed: Sequence[Observe]) -> None:
        """Tell the observer, if there is one."""
        for seen in observed if self.observer else ():
            try:
                self.observer(seen)  # type: ignore[misc]
            except Exception:
                log.exception("the observer of %s failed", self.name)


class Hearer(Protocol):
    """The client, as its driver sees it."""

    def hear(self, what: Message | list[Event], sequence: int) -> None:
        """The broker said something, or delivered a run; the payload has this number in the session."""
        ...

    def on_broker_reset(self, received: int) -> None:
        """The broker has lost its memory; its new life counts on from this number."""
        ...

    def hear_return(self, received: int) -> None:
        """A stand-in has taken the broker's place, and was told all; its session counts on from this number."""
        ...

    def hear_move(self, received: int) -> None:
        """From here on we have to do with another broker, whose session counts on from this number."""
        ...

    def hear_doubt(self, reason: str) -> None:
        """Whether what is under way was taken over is not known, and will not be."""
        ...

    def hear_end(self, error: ClientError) -> None:
        """The session is over."""
        ...

    def confirmable(self, confirmed: int) -> int:
        """How far the session may be confirmed; `confirmed`: how far it is."""
        ...

    def consumed_after(self, position: int) -> int:
        """How many of the messages in the payload behind this position need not be heard again."""
        ...

    def changes(self) -> tuple[Sequence[tuple[int, Event]], Sequence[int]]:
        """Events to keep on our own disk, and those of them that are consumed, since the last call."""
        ...


class Listener:
    """A client machine whose driver also wants to know what the broker said, once the machine had its turn."""

    def __init__(self, machine: Machine) -> None:
        self.inner = machine
        self.name = machine.name
        self.restore = machine.restore
        self.capture = machine.capture
        self.is_changed_by = machine.is_changed_by
        self.resume = machine.resume
        self.endpoint: Endpoint | None = None  # around this machine
        self.heard: list[tuple[Message | list[Event], int]] = []  # with the number of the payload in the session
        self.is_stand_in = False  # who has greeted last

    @property
    def returns(self) -> bool:
        """Whether this client could come back to a stand-in."""
        return isinstance(self.inner, ReturningClient)

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        is_known = isinstance(self.inner, ReturningClient) and self.inner.has_had(sender, message)
        effects = self.inner.handle(sender, message, now=now) if not isinstance(message, FallbackBrokers) else ()
        assert self.endpoint is not None
        if not is_known:
            self.heard.append((message, self.endpoint.sessions[sender].received))
        return effects

    def peer_reset(self, peer: Node) -> Sequence[Effect]:
        """A stand-in is told all; a broker that only lost its memory is asked anew."""
        if not isinstance(self.inner, ReturningClient):
            return self.inner.peer_reset(peer)
        if not self.is_stand_in:
            return self.inner.start_over(peer)
        held = [Observe(Observed.STATE, event_id=str(event), detail=HELD) for event in self.inner.unconfirmed]
        return [*held, *self.inner.peer_reset(peer)]

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        """Renewals that the broker cannot hear would only pile up: they wait until it can."""
        assert self.endpoint is not None
        session = self.endpoint.sessions.get(self.inner.broker)
        if session is None or session.phase is not SessionPhase.UP:
            return self.inner.put_off()
        return self.inner.handle_timer(name, now=now)

    def handle_run(self, sender: Node, run: Run) -> Passed | None:
        """Where nobody observes, deliveries are heard as they came; the machine keeps nothing of them."""
        if self.inner.is_observed or run.kind is not Deliver or sender != self.inner.broker:
            return None
        assert self.endpoint is not None
        self.heard.append((run.events(), self.endpoint.sessions[sender].received))
        return Passed([], [])


def made_machine(options: ClientOptions, broker: Node, epoch: int, *, returns: bool) -> Machine:
    """`returns`: it shall be able to come back to a stand-in, and so has to see each event that comes and goes."""
    make = ReturningClient if returns else Machine
    machine = make(options.name, broker, own_events=options.own_events, incarnation=epoch)
    machine.is_observed = returns or options.observer is not None
    return machine
