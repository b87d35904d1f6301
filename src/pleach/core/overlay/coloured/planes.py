"""The three planes of a broker: per colour, its parent and children in that tree, and a routing layer.

    plane   = pointers + Router + ClientTable, the routing layer that other brokers have once
    colours count 0, 1, 2, 0, …: old, current, new

Rule 1: only the new colour is stored; the others follow from it, so colours cannot contradict each other.
Rule 2: a plane accepts a downward message only from its parent, and an upward message only from a child. Links whose
        ends disagree carry nothing: whatever pointers a fault leaves, a broker has one parent, and an event can circle
        in at most one cycle.
Rule 3: a plane that becomes new starts empty: its entries and clients are never older than one cycle of the colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from pleach.core.effects import Send
from pleach.core.messages import (
    Attach,
    ClientRequest,
    Coloured,
    ColourStage,
    Forward,
    Install,
    Installed,
    Node,
    PubSub,
    Settle,
)
from pleach.core.routing.client_state import ClientState
from pleach.core.routing.clients import ClientTable
from pleach.core.routing.renewal_relay import UNANSWERED
from pleach.core.routing.router import Router, RoutingConfig
from pleach.core.routing.snapshot import RouterState

COLOURS: Final = 3


class PlaneState(msgspec.Struct, frozen=True, array_like=True):
    parent: Node | None
    children: list[Node]
    router: RouterState
    clients: dict[Node, ClientState]


class PlanesState(msgspec.Struct, frozen=True, array_like=True):
    """`planes`: by colour. `new`: the new colour."""

    new: int
    planes: list[PlaneState]


class Plane:
    def __init__(self, config: RoutingConfig, parent: Node | None = None, children: Iterable[Node] = ()) -> None:
        self.parent = parent
        self.children = sorted({*children} - {parent})
        self.router = Router(config, parent=parent)
        self.sessions = ClientTable(self.router)
        for neighbour in self.pointed_at:
            self.router.connect(neighbour)

    @property
    def pointed_at(self) -> list[Node]:
        return sorted({*self.children, *([self.parent] if self.parent is not None else [])})

    def hears(self, sender: Node, *, is_downward: bool) -> bool:
        return self.parent == sender if is_downward else sender in self.children

    def adopt(self, child: Node) -> Sequence[Send]:
        """Accept a child while the plane is being built, and send it its entries."""
        self.children = sorted({*self.children, child})
        return self.router.connect(child).sends if child not in self.router.neighbours else ()

    def take(self, sender: Node, message: PubSub) -> Sequence[Send]:
        if sender not in self.router.neighbours:
            return ()  # pointers and router of a damaged plane may disagree
        if isinstance(message, Forward):
            return self.sessions.forward(message, sender)
        return self.router.handle(sender, message).sends

    def capture(self) -> PlaneState:
        return PlaneState(self.parent, self.children, self.router.capture(), self.sessions.capture())

    @classmethod
    def restored(cls, config: RoutingConfig, state: PlaneState) -> Plane:
        plane = cls(config)
        plane.parent, plane.children = state.parent, sorted(state.children)
        plane.router.restore(state.router)
        plane.sessions.restore(state.clients)
        return plane


def _bare(message: PubSub) -> PubSub:
    return (
        Install(message.layer, UNANSWERED, message.owner, message.filter) if isinstance(message, Install) else message
    )


class Planes:
    def __init__(self, config: RoutingConfig, parent: Node | None, children: Sequence[Node]) -> None:
        self._config = config
        self._planes = [Plane(config, parent, children) for _ in range(COLOURS)]
        self.colour = 1  # the new one

    def of(self, stage: ColourStage) -> Plane:
        return self._planes[self.colour_of(stage)]

    def colour_of(self, stage: ColourStage) -> int:
        return (self.colour + stage - ColourStage.NEW) % COLOURS

    def stage_of(self, colour: int) -> ColourStage:
        return ColourStage((colour - self.colour + ColourStage.NEW) % COLOURS)

    def turn(self, colour: int, parent: Node | None, children: Iterable[Node]) -> Plane:
        """The new plane becomes current, and `colour` the new one, with these pointers. Returns the current plane."""
        built = self.of(ColourStage.NEW)
        self.colour = colour % COLOURS
        self._planes[self.colour_of(ColourStage.CURRENT)] = built  # the same slot, unless colours were damaged
        self.begin(parent, children)
        return built

    def begin(self, parent: Node | None, children: Iterable[Node]) -> None:
        """The new plane starts empty (S1: T ← init)."""
        self._planes[self.colour] = Plane(self._config, parent, children)

    def neighbours(self) -> list[Node]:
        """Of any colour, by pointers or routers."""
        return sorted({node for plane in self._planes for node in (*plane.pointed_at, *plane.router.neighbours)})

    def request(self, stage: ColourStage, client: Node, message: ClientRequest) -> Sequence[Send]:
        """Handle a request of a client, which is attached even if this plane began after its Attach."""
        sessions = self.of(stage).sessions
        if client not in sessions:
            sessions.handle(client, Attach(self.own_events().get(client, True)))
        return self.tinted(stage, sessions.handle(client, message))

    def own_events(self) -> dict[Node, bool]:
        """Of each client of any colour, whether it wants its own events, as it said last."""
        planes = [self.of(stage).sessions for stage in ColourStage]
        return {client: sessions.hand_over(client).own_events for sessions in planes for client in sessions.clients}

    def knows(self, client: Node) -> bool:
        return any(client in plane.sessions for plane in self._planes)

    def tinted(self, stage: ColourStage, sends: Iterable[Send], *, hops: int = 1) -> list[Send]:
        """The sends of a plane: with its colour to brokers, unchanged to clients.

        Confirmations between brokers are dropped: tables are rebuilt before they could matter.
        """
        plane, colour = self.of(stage), self.colour_of(stage)
        found = []
        for to, message in ((send.to, send.message) for send in sends):
            if not isinstance(message, PubSub):
                found.append(Send(to, message))
            elif to in plane.router.neighbours and not isinstance(message, Installed | Settle):
                found.append(Send(to, Coloured(colour, stage, to != plane.parent, hops, _bare(message))))
        return found

    def capture(self) -> PlanesState:
        return PlanesState(self.colour, [plane.capture() for plane in self._planes])

    def restore(self, state: PlanesState) -> None:
        self.colour = state.new % COLOURS
        self._planes = [Plane.restored(self._config, plane) for plane in state.planes]
