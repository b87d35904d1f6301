"""What a protocol may see and change of its broker (S0 §II: the overlay layer reads and writes the routing table)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from pleach.core.effects import Effect, Send
from pleach.core.messages import Node
from pleach.core.overlay.abandonment import Abandonable
from pleach.core.overlay.seam import Reaction
from pleach.core.routing.clients import ClientTable
from pleach.core.routing.rewiring import Rewiring
from pleach.core.routing.router import Router, RoutingConfig, RoutingOutcome

# A peer, neighbour or client, has lost its memory: what it was told, or had to say, is void. The hooks are called
# before routing starts over with the peer.
PeerResetHook: TypeAlias = Callable[[Node], Reaction]


class RouterMaker(Protocol):
    """Makes the routing layer of a broker, with nothing in it."""

    def __call__(self, config: RoutingConfig, *, parent: Node | None = None) -> Router: ...


class ComponentHost(Protocol):
    """The components that live in a broker (hosting/), as protocols that move clients see them."""

    @property
    def running(self) -> Sequence[Node]: ...

    def kind_of(self, client: Node) -> str:
        """Empty for a client that is no component."""
        ...

    def why_not(self, kind: str) -> str:
        """Why one of this kind cannot come here; empty where it can."""
        ...

    def pack(self, client: Node) -> bytes:
        """All of a component that has halted, to go elsewhere; empty for other clients."""
        ...

    def take_in(self, client: Node, state: bytes) -> None:
        """Make one of what another broker has packed; it goes on with `Resume`. Raises ComponentError."""
        ...


@dataclass
class BrokerContext:
    """The layers of one broker, and the hooks of its protocols.

    `router` and `sessions` are replaced when the broker is restored: read them each time.
    `locked_for`: the operation that the broker is locked for, whichever protocol carries it out; empty if it is free.
    """

    name: Node
    address: str
    router: Router
    sessions: ClientTable
    locked_for: Callable[[], str]
    make_router: RouterMaker = Router
    client_address: str = ""
    life: int = 0  # of this broker with its memory, as the driver counts them
    addresses: dict[Node, str] = field(default_factory=dict)  # of brokers that this one dials
    component_host: ComponentHost = field(init=False)  # set by the broker before it makes its machines
    awaited: tuple[Node, ...] = ()  # clients that are moving here: routing has their subscriptions already
    reset_hooks: list[PeerResetHook] = field(default_factory=list)
    abandonable: list[Abandonable] = field(default_factory=list)  # protocols, in the order of the machines

    def on_peer_reset(self, hook: PeerResetHook) -> None:
        self.reset_hooks.append(hook)

    def reset(self) -> None:
        """Start over, in no tree and without clients."""
        self.router = self.make_router(self.router.config)
        self.sessions = ClientTable(self.router, self.sessions.expected)
        self.addresses = {}

    def rewire(self, rewiring: Rewiring) -> list[Effect]:
        """Let the routing layer take over changed links; returns all that it sends, also to clients."""
        return [*self.answered(self.router.rewire(rewiring))]

    def answered(self, outcome: RoutingOutcome) -> list[Send]:
        """What routing sends: to neighbours, and to the clients whose requests are in effect now."""
        return [*outcome.sends, *self.sessions.settle(outcome.due)]
