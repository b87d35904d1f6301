"""One broker: the layers composed into a pure state machine, `handle(sender, message, now) → effects`.

    network driver  ◀─▶  seam (overlay/)  ◀─▶  router (routing/)  ◀─▶  table
                           ▲
                     protocols: machines, each of which owns the messages of one reconfiguration

The broker reads no clock, opens no socket and draws no random number. It knows which machine owns which message; what
a protocol does is written in its own module, and adding one does not touch this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

import msgspec

from pleach.effects import Effect
from pleach.errors import ProtocolError
from pleach.messages import ClientRequest, Detach, Forward, Marked, Message, Node, Publish, PubSub, pack, unpack
from pleach.overlay.seam import Handled, HeldState, Machine, Seam
from pleach.routing.passage import Passage
from pleach.routing.router import Outcome, Router, RouterState, RoutingConfig
from pleach.routing.sessions import ClientState, Sessions
from pleach.runs import Passed, Run

CLIENT_REQUESTS: frozenset[type] = frozenset(get_args(ClientRequest))
EVENTS: frozenset[type] = frozenset((Forward, Publish))
PUB_SUB: frozenset[type] = frozenset((*get_args(PubSub), Marked))


class BrokerState(msgspec.Struct, frozen=True, array_like=True):
    """All of a broker as plain data: for its disk, for the explorer's hash, for crash tests."""

    router: RouterState
    clients: dict[Node, ClientState]
    held: HeldState
    machines: dict[str, bytes]


class Broker:
    def __init__(
        self,
        name: Node,
        config: RoutingConfig,
        *,
        neighbours: Iterable[Node] = (),
        parent: Node | None = None,
        machines: Sequence[Machine] = (),
    ) -> None:
        self.name = name
        self.router = Router(config, parent=parent)
        self.sessions = Sessions(self.router)
        self._passage = Passage(self.sessions)
        self.seam = Seam()
        self._machines = {machine.name: machine for machine in machines}
        self._owner = {kind: machine for machine in machines for kind in machine.accepts}
        assert len(self._owner) == sum(len(m.accepts) for m in machines), "a message type has two owners"
        for neighbour in neighbours:
            self.router.connect(neighbour)

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        """Take in one message; returns what to do about it, in order."""
        kind = message.__class__
        if kind is Forward and self.seam.is_idle and sender in self.router.neighbours:
            return self.sessions.forward(message, sender)  # type: ignore[arg-type]
        if kind not in EVENTS:
            self._passage.forget()
        if kind in PUB_SUB:
            if sender not in self.router.neighbours:
                raise ProtocolError(self.name, sender, message, "the sender is no neighbour")
            return self._arrive(sender, message)  # type: ignore[arg-type]
        if kind in CLIENT_REQUESTS:
            if sender in self.router.neighbours:
                raise ProtocolError(self.name, sender, message, "the sender is a neighbour, not a client")
            return self.seam.leave(sender, self.sessions.handle(sender, message))  # type: ignore[arg-type]
        machine = self._owner.get(kind)
        if machine is None:
            raise ProtocolError(self.name, sender, message, "no protocol here owns this message")
        return self._settle(machine.handle(sender, message, now=now))

    def handle_run(self, sender: Node, run: Run) -> Passed | None:
        """Events that only pass through, as `handle` for each; None where that is not all there is to them."""
        if not self.seam.is_idle:
            return None
        if run.kind is Forward and sender in self.router.neighbours:
            return self._passage.forwarded(sender, run.glimpses())
        if run.kind is Publish and sender in self.sessions and not self.router.config.advertisements:
            return self._passage.published(sender, run.glimpses())
        return None

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        """A timer is due; the name of the machine that set it stands before the first colon."""
        machine = self._machines[name.partition(":")[0]]
        return self._settle(machine.handle_timer(name, now=now))

    # Pub/sub messages ----------------------------------------------------------------------------------------

    def _arrive(self, sender: Node, message: PubSub | Marked) -> Sequence[Effect]:
        passed = self.seam.arrive(sender, message)
        if passed is None:
            return ()
        if isinstance(passed.message, Forward):
            return self.seam.leave(passed.sender, self.sessions.forward(passed.message, passed.sender))
        return self._finish(passed.sender, self.router.handle(passed.sender, passed.message))

    def _finish(self, source: Node, outcome: Outcome) -> Sequence[Effect]:
        return self.seam.leave(source, [*outcome.sends, *self.sessions.settle(outcome.due)])

    # Reconfigurations ----------------------------------------------------------------------------------------

    def _settle(self, handled: Handled) -> Sequence[Effect]:
        """Carry out what a machine answered: its effects first, then what its released links held."""
        self._join_seam()
        effects = list(handled.effects)
        for link in handled.released:
            for message in self.seam.take_released(link):
                effects += self._arrive(link, message)
        return effects

    def _join_seam(self) -> None:
        self._passage.forget()  # a reconfiguration may have changed the tree
        under_way = [m.under_way for m in self._machines.values() if m.under_way is not None]
        assert len(under_way) <= 1, "a broker takes part in one reconfiguration at a time"
        self.seam.join(under_way[0] if under_way else None)

    # Neighbours ----------------------------------------------------------------------------------------------

    def connect(self, neighbour: Node) -> Sequence[Effect]:
        """A link to a new neighbour is up."""
        self._passage.forget()
        return self._finish(self.name, self.router.connect(neighbour))

    def disconnect(self, neighbour: Node) -> Sequence[Effect]:
        """The link to a neighbour is gone for good, and with it what the neighbour had asked for."""
        self._passage.forget()
        return self._finish(self.name, self.router.disconnect(neighbour))

    def peer_reborn(self, peer: Node) -> Sequence[Effect]:
        """A neighbour has lost its memory: start over with it. A client has: it starts anew, without subscriptions."""
        if peer in self.router.neighbours:
            return [*self.disconnect(peer), *self.connect(peer)]
        if peer in self.sessions:
            self._passage.forget()
            return self.seam.leave(peer, self.sessions.handle(peer, Detach()))
        return ()

    # State ---------------------------------------------------------------------------------------------------

    def is_changed_by(self, message: Message) -> bool:
        """Events only pass through, unless a reconfiguration holds them."""
        return not (message.__class__ in EVENTS and self.seam.is_idle)

    def capture(self) -> bytes:
        machines = {name: machine.capture() for name, machine in self._machines.items()}
        return pack(BrokerState(self.router.capture(), self.sessions.capture(), self.seam.capture(), machines))

    def restore(self, data: bytes) -> None:
        """Take over a captured state, into a broker made with the same configuration and machines."""
        state = unpack(data, BrokerState)
        self.router = Router(self.router.config)
        self.sessions = Sessions(self.router)
        self._passage = Passage(self.sessions)
        self.router.restore(state.router)
        self.sessions.restore(state.clients)
        self.seam.restore(state.held)
        for name, machine in self._machines.items():
            machine.restore(state.machines[name])
        self._join_seam()
