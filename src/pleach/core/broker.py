"""One broker: its layers composed into a pure state machine, `handle(sender, message, now) → effects`.

    network driver  ◀─▶  seam (overlay/)  ◀─▶  router (routing/)  ◀─▶  table
                           ▲
                     machines: one for each protocol, which owns the messages of that protocol

Rule 1: the broker reads no clock, opens no socket and draws no random number.
Rule 2: each message type has one owner: routing (through the seam), or a machine. Adding a protocol does not touch this
        file.
Rule 3: what a machine answers (`Reaction`) is carried out here: its effects first, then what its released links held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, TypeVar

import msgspec

from pleach.core.effects import Effect, Passed, Send, SetTimer
from pleach.core.hosting.component import Factory
from pleach.core.hosting.machine import GO_ON, TURNS_MAX, Hosting
from pleach.core.messages import (
    CLIENT_REQUESTS,
    OPERATOR,
    PUB_SUB_OR_MARKED,
    UNMARKED_EVENTS,
    ClientRequest,
    Detach,
    Forward,
    Marked,
    Message,
    Node,
    Publish,
    PubSub,
    SoughtRequest,
    pack,
    unpack,
)
from pleach.core.messages.runs import Run
from pleach.core.overlay.abandonment import Abandonment, OpenOperation
from pleach.core.overlay.context import BrokerContext, RouterMaker
from pleach.core.overlay.permits import Permits
from pleach.core.overlay.remote_requests import RemoteRequests
from pleach.core.overlay.seam import Drop, HeldState, Pass, Passing, ProtocolMachine, Reaction, Seam, join
from pleach.core.routing.client_state import ClientState
from pleach.core.routing.clients import ClientTable
from pleach.core.routing.router import Router, RoutingConfig
from pleach.core.routing.run_forwarding import RunForwarding
from pleach.core.routing.snapshot import RouterState
from pleach.errors import ProtocolError

NO_COMPONENTS: Mapping[str, Factory] = MappingProxyType({})
MachineKind = TypeVar("MachineKind")
MachineMaker: TypeAlias = Callable[[BrokerContext], ProtocolMachine]


class BrokerState(msgspec.Struct, frozen=True, array_like=True):
    """All of a broker as plain data, for its disk and for the explorer's hash."""

    router: RouterState
    clients: dict[Node, ClientState]
    held: HeldState
    machines: dict[str, bytes]
    addresses: dict[Node, str]


class Broker:
    """`machines`: makers of the protocols that this broker takes part in, besides those that every broker has.

    `address`: where it listens for brokers. `make_router`: makes the routing layer, which may keep more than one table.
    `components`: what it can host, by kind.
    """

    def __init__(
        self,
        name: Node,
        config: RoutingConfig,
        *,
        neighbours: Iterable[Node] = (),
        parent: Node | None = None,
        machines: Sequence[MachineMaker] = (),
        address: str = "",
        make_router: RouterMaker = Router,
        components: Mapping[str, Factory] = NO_COMPONENTS,
    ) -> None:
        self.name = name
        self.seam = Seam()
        router = make_router(config, parent=parent)
        self._context = BrokerContext(name, address, router, ClientTable(router), self._locked_for, make_router)
        self._passage = RunForwarding(self.sessions)
        self._remote_requests = RemoteRequests(self._context)
        self.hosting = self._context.component_host = Hosting(self._context, components)
        self._residents = self.hosting.here
        always = (self._remote_requests, self.hosting, Permits(self._context), Abandonment(self._context))
        made: list[ProtocolMachine] = [*always, *(make(self._context) for make in machines)]
        self._machines = {machine.name: machine for machine in made}
        self._owner = {kind: machine for machine in self._machines.values() for kind in machine.accepts}
        assert len(self._machines) == len(made), "two machines have the same name"
        assert len(self._owner) == sum(len(m.accepts) for m in self._machines.values()), "a message has two owners"
        for neighbour in neighbours:
            self.router.connect(neighbour)
        self._join_seam()

    @property
    def router(self) -> Router:
        return self._context.router

    @property
    def sessions(self) -> ClientTable:
        return self._context.sessions

    @property
    def address(self) -> str:
        return self._context.address

    def listens_at(self, address: str, client_address: str, life: int = 0) -> None:
        """Where other brokers and clients find this one. `life`: counts how often it has started without its memory."""
        self._context.address, self._context.client_address, self._context.life = address, client_address, life

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        """Handle one message; returns its effects, in order."""
        if message.__class__ is Forward and self.seam.is_idle and sender in self.router.neighbours:
            effects: Sequence[Effect] = self.sessions.forward(message, sender)
        else:
            effects = self._handle(sender, message, now)
        return self._deliver_local(effects, now) if self._residents else effects

    def _handle(self, sender: Node, message: Message, now: float) -> Sequence[Effect]:
        kind = message.__class__
        if kind in PUB_SUB_OR_MARKED:
            return self._from_broker(sender, message)  # type: ignore[arg-type]
        if kind in CLIENT_REQUESTS:
            if sender in self.router.neighbours:
                raise ProtocolError(self.name, sender, message, "the sender is a neighbour, not a client")
            return self._arrive(sender, message)  # type: ignore[arg-type]
        machine = self._owner.get(kind)
        if machine is None:
            raise ProtocolError(self.name, sender, message, "no protocol here owns this message")
        if isinstance(message, SoughtRequest) and message.begins_at != self.name:
            return self._settle(self._remote_requests.seek(sender, message), now)
        return self._settle(machine.handle(sender, message, now=now), now)

    def handle_run(self, sender: Node, run: Run) -> Passed | None:
        """As `handle` for each event of a run that is only passed on; None where more is to be done."""
        if not self.seam.is_idle or self.hosting.is_waiting:
            return None
        passed: Passed | None = None
        if run.kind is Forward and sender in self.router.neighbours:
            passed = self._passage.forwarded(sender, run.glimpses())
        elif run.kind is Publish and sender in self.sessions and not self.router.config.advertisements:
            passed = self._passage.published(sender, run.glimpses())
        return None if self._residents and passed and self._is_for_residents(passed) else passed

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        """A timer is due. Its name begins with that of the machine that set it, and a colon."""
        machine = self._machines[name.partition(":")[0]]
        effects = self._settle(machine.handle_timer(name, now=now), now)
        return self._deliver_local(effects, now) if self._residents else effects

    def resume(self, *, now: float) -> Sequence[Effect]:  # noqa: ARG002
        """To be called once, at the start or after `restore`: sets the timers of all machines."""
        return [effect for machine in self._machines.values() for effect in machine.resume()]

    # Components ----------------------------------------------------------------------------------------------

    def _deliver_local(self, effects: Sequence[Effect], now: float) -> Sequence[Effect]:
        """Components handle at once what is for them, and what they say is handled; returns what is for others.

        What they cause is appended: on every link the cause of what a component publishes comes first.
        """
        left = self.hosting.taken(effects)
        for _ in range(TURNS_MAX):
            said = self.hosting.next_said()
            if said is None:
                return left
            left += self.hosting.taken(self._handle(said.component, said.message, now))
        return [*left, SetTimer(GO_ON, 0.0)] if self.hosting.is_waiting else left

    def _confirm_local(self, effects: Sequence[Effect]) -> Sequence[Effect]:
        """As `_deliver_local`, for effects that contain nothing but confirmations, to which components say nothing."""
        return self.hosting.taken(effects) if self._residents else effects

    def _is_for_residents(self, passed: Passed) -> bool:
        return any(client in self._residents for span in passed.spans for client in span.clients)

    # Pub/sub messages and client requests --------------------------------------------------------------------

    def _from_broker(self, sender: Node, message: PubSub | Marked) -> Sequence[Effect]:
        if sender in self.router.neighbours or sender in self.seam.peers:
            return self._arrive(sender, message)
        if (isinstance(message, Marked) or self.seam.has_forsaken(sender)) and sender not in self.sessions:
            return ()  # of an operation that was given up: it has come another way
        raise ProtocolError(self.name, sender, message, "the sender is no neighbour")

    def _arrive(self, sender: Node, message: Passing) -> Sequence[Effect]:
        if self.seam.is_idle and message.__class__ is not Marked:
            return self._route(sender, message)  # type: ignore[arg-type]
        effects: Sequence[Effect] = ()
        message = self.seam.unmarked(sender, message)
        match self.seam.arrive(sender, message):
            case Pass(name, passed, first):
                effects = [*first, *self.seam.leave(sender, message, self._route(name, passed))]
            case Drop(_, instead):
                effects = instead
        self._join_seam()
        return effects

    def _route(self, sender: Node, message: PubSub | ClientRequest) -> Sequence[Send]:
        if isinstance(message, Forward):
            return self.sessions.forward(message, sender)
        if not isinstance(message, Publish):
            self._passage.forget()
        if message.__class__ in CLIENT_REQUESTS:
            return self.sessions.handle(sender, message)  # type: ignore[arg-type]
        return self._context.answered(self.router.handle(sender, message))  # type: ignore[arg-type]

    # Reconfigurations ----------------------------------------------------------------------------------------

    def machine(self, kind: type[MachineKind]) -> MachineKind | None:
        """The machine of this class, if this broker has one."""
        return next((machine for machine in self._machines.values() if isinstance(machine, kind)), None)

    @property
    def operation(self) -> str:
        """The operation that this broker is locked for; empty where it is free."""
        return self._locked_for()

    @property
    def open_operations(self) -> list[OpenOperation]:
        """Those that it takes part in, or has put off."""
        return [each for protocol in self._context.abandonable for each in protocol.open_operations]

    def _locked_for(self) -> str:
        return next((m.operation for m in self._machines.values() if m.operation), "")

    def _settle(self, handled: Reaction, now: float) -> Sequence[Effect]:
        """Carry out what a machine answered, and begin what it requests."""
        effects = self._carry_out(handled)
        if handled.request is not None:
            effects += self._handle(OPERATOR, handled.request, now)
        if handled.on_behalf is not None:
            effects += self._arrive(*handled.on_behalf)
        return effects

    def _carry_out(self, handled: Reaction) -> list[Effect]:
        """Rule 3."""
        self._join_seam()
        if handled.forsaken is not None:
            self.seam.forsake(*handled.forsaken)
            if handled.untouched:
                self.seam.spare_copies(handled.forsaken[0])
        effects = list(handled.effects)
        for link in handled.discarded:
            self.seam.discard(link)
        for link in handled.void:
            self.seam.void(link)
        for link in handled.released:
            for message in self.seam.take_released(link):
                effects += self._arrive(link, message)
        return effects

    def _join_seam(self) -> None:
        self._passage = RunForwarding(self.sessions)  # a protocol may have changed the tables
        under_way = [each for m in self._machines.values() if (each := m.under_way) is not None]
        assert len(under_way) <= 1, "a broker takes part in one reconfiguration at a time"
        self.seam.join(under_way[0] if under_way else None)

    def links(self) -> dict[Node, str]:
        """The brokers that this one has links to, with their addresses as far as they are known."""
        linked = sorted({*self.router.neighbours, *self.seam.peers} - {*self.sessions.clients})
        return {node: self._context.addresses.get(node, "") for node in linked}

    # Neighbours ----------------------------------------------------------------------------------------------

    def connect(self, neighbour: Node) -> Sequence[Effect]:
        """A link to a new neighbour is up."""
        self._passage.forget()
        return self._confirm_local(self._context.answered(self.router.connect(neighbour)))

    def disconnect(self, neighbour: Node) -> Sequence[Effect]:
        """The link to a neighbour is gone for good, and with it what the neighbour had asked for."""
        self._passage.forget()
        return self._confirm_local(self._context.answered(self.router.disconnect(neighbour)))

    def peer_reset(self, peer: Node) -> Sequence[Effect]:
        """A neighbour or a client has lost its memory: start over with it, without what it had subscribed to."""
        was_neighbour = peer in self.router.neighbours
        settled = self._carry_out(join(*(hook(peer) for hook in self._context.reset_hooks)))
        if was_neighbour and peer in self.router.neighbours:
            return [*self._confirm_local(settled), *self.disconnect(peer), *self.connect(peer)]
        if peer in self.sessions:
            settled += self._arrive(peer, Detach())
        return self._confirm_local(settled)

    # State ---------------------------------------------------------------------------------------------------

    def is_changed_by(self, sender: Node, message: Message) -> bool:
        """Events change nothing, unless a reconfiguration holds them or a component gets them."""
        if not (message.__class__ in UNMARKED_EVENTS and self.seam.is_idle):
            return True
        return bool(self._residents) and self.hosting.is_concerned(message.event, sender)  # type: ignore[attr-defined]

    def capture(self) -> bytes:
        machines = {name: machine.capture() for name, machine in self._machines.items()}
        addresses = dict(sorted(self._context.addresses.items()))
        router, clients, held = self.router.capture(), self.sessions.capture(), self.seam.capture()
        return pack(BrokerState(router, clients, held, machines, addresses))

    def restore(self, data: bytes) -> None:
        """Take over a captured state, into a broker made with the same configuration and machines."""
        state = unpack(data, BrokerState)
        self._context.reset()
        self._context.addresses = dict(state.addresses)
        self._passage = RunForwarding(self.sessions)
        self.router.restore(state.router)
        self.sessions.restore(state.clients)
        self.seam.restore(state.held)
        for name, machine in self._machines.items():
            if name in state.machines:  # else it was added since, and is idle
                machine.restore(state.machines[name])
        self._join_seam()
