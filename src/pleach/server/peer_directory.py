"""Which brokers a broker has to do with, and where those are that it dials.

The tree is the machine's: what a data directory holds wins over the neighbours that the settings name, which count only
for a broker that starts its first life. Addresses come from the settings, if they name the peer, so that a broker that
has moved can be found again; else from the reconfiguration that made the link.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from pleach.core.broker import Broker, MachineMaker
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import BROKER, GUARDED, STAND_IN, Hello
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import Node, StandFor
from pleach.core.mobility.admission import Admit, up_to
from pleach.core.mobility.machine import Mobility
from pleach.core.overlay.healing.neighbour_info import NeighbourInfo
from pleach.core.overlay.healing.stand_in import StandIn, StandInPhase
from pleach.core.overlay.registry import machines
from pleach.core.routing.router import Router
from pleach.net.addresses import BrokerAddresses
from pleach.server.component_kinds import factories
from pleach.server.healing.settings import GRACE_SECONDS
from pleach.server.settings import BrokerSettings

ADDRESS_CHARACTERS_MAX = 512
EXPECTED_MAX = 64

log = logging.getLogger(__name__)


class PeerDirectory:
    def __init__(self, broker: Broker, endpoint: Endpoint, settings: Callable[[], BrokerSettings]) -> None:
        self._broker = broker
        self._endpoint = endpoint
        self._settings = settings
        self.is_open: Callable[[], bool] = lambda: False  # whether any broker may join the tree here
        self.places = BrokerAddresses()  # where this broker is found
        self.admins: dict[Node, str] = {}  # where operators find others, as far as they have told us
        self._clients: dict[Node, None] = {}  # who is connected by the door for clients
        self.mates: dict[Node, str] = {}  # where stand-ins are whose place is next to ours
        self._expected: dict[Node, None] = {}  # who may come and ask to be a neighbour; the latest last

    def listens_at(self, client: str, peer: str, admin: str) -> None:
        """Where the process listens; what the settings say of addresses wins."""
        told = self._settings()
        self.places = BrokerAddresses(
            told.client_advertise or client, told.advertise or peer, told.admin_advertise or admin
        )
        self._broker.listens_at(self.places.peer, self.places.client, self._endpoint.epoch)

    def take_place(self, now: float) -> None:
        """In the first life of a stand-in: take the place of the dead broker."""
        settings = self._settings()
        if settings.stand_in is not None:
            self._endpoint.request(StandFor(settings.all_neighbours, settings.stand_in.towards_root), now=now)

    def expect(self, broker: Node) -> None:
        """An operator says that this broker is going to join here: strangers are not let in by the door for brokers."""
        self._expected.pop(broker, None)
        self._expected[broker] = None
        while len(self._expected) > EXPECTED_MAX:
            del self._expected[next(iter(self._expected))]

    def introduce(self, broker: Node) -> None:
        """Before we greet it: brokers may know where our operators go, clients need not."""
        session = self._endpoint.admit(broker)
        own = session.introduction
        own.admin, own.role = self.places.admin, STAND_IN if self._is_gathering else BROKER

    @property
    def _is_gathering(self) -> bool:
        stand_in = self._broker.machine(StandIn)
        return stand_in is not None and stand_in.phase is StandInPhase.GATHERING

    @property
    def _role_for_clients(self) -> str:
        settings = self._settings()
        return STAND_IN if settings.stand_in else GUARDED if settings.heal else BROKER

    def met(self, hello: Hello) -> None:
        if hello.admin:
            self.admins[hello.node] = hello.admin[:ADDRESS_CHARACTERS_MAX]

    def came(self, hello: Hello, *, as_client: bool) -> None:
        """A connection was accepted."""
        peer = hello.node
        self._clients.pop(peer, None)
        if as_client:
            self._clients[peer] = None
            self._endpoint.admit(peer).introduction.role = self._role_for_clients
        if not as_client:
            self.introduce(peer)
            self.met(hello)

    def went(self, peer: Node) -> None:
        self._clients.pop(peer, None)

    def is_linked(self, peer: Node) -> bool:
        """A broker that there is a link to just now: a neighbour, or one of a reconfiguration under way."""
        if peer in self._broker.router.neighbours:
            return True
        return peer in self._broker.seam.peers and not self._is_client(peer)

    def is_broker(self, peer: Node) -> bool:
        """Or that there was a link to: it may not know yet that there is none any more."""
        return self.is_linked(peer) or (peer in self._endpoint.upkeep.links and not self._is_client(peer))

    def is_welcome(self, peer: Node) -> bool:
        """May come in by the door for brokers: one that is linked, or was, or may ask to be."""
        welcome = self._settings().welcome
        is_known = self.is_broker(peer) or peer in self._expected or peer in welcome
        return is_known or "*" in welcome or self.is_open()

    def _is_client(self, peer: Node) -> bool:
        """Links to clients are asked for as well, when they come over from another broker, or go to one."""
        is_here = peer in self._broker.sessions or peer in self._clients
        return is_here or self._endpoint.upkeep.is_client(peer)

    def forget_clients(self) -> None:
        """No link is kept up to a client that was sent here, as it comes by itself, nor to one that has gone.

        Who has gone to another broker is kept in mind until it has heard all that we had for it.
        """
        upkeep = self._endpoint.upkeep
        gone = [peer for peer, note in upkeep.links.items() if note.is_client and note.phase is LinkPhase.FORMER]
        for client in [*(peer for peer in upkeep.links if peer in self._broker.sessions), *gone]:
            upkeep.links.pop(client, None)

    def to_dial(self) -> dict[Node, str]:
        """Whom to dial, and where: all links with a known address that are wanted, or not yet given up by both."""
        configured = self._settings().peers
        linked = self._broker.links()
        noted = {
            peer: note.address
            for peer, note in self._endpoint.upkeep.links.items()
            if note.phase is not LinkPhase.FORMER and not self._is_client(peer)
        }
        found = {
            peer: self.mates.get(peer) or configured.get(peer) or linked.get(peer) or noted.get(peer, "")
            for peer in {**noted, **linked}
        }
        return {peer: found[peer] for peer in sorted(found) if found[peer]}

    def is_idle(self, peer: Node) -> bool:
        """Dialled only so that the peer can say that it is done, too; we have nothing for it."""
        is_retiring = self._endpoint.upkeep.phase(peer) is LinkPhase.RETIRING
        return is_retiring and not self._endpoint.sessions[peer].unconfirmed

    def report_settings_that_lose(self) -> None:
        router, settings = self._broker.router, self._settings()
        if settings.ring is not None:
            return  # it names nobody
        if sorted(router.neighbours) != settings.all_neighbours:
            log.warning(
                "the data directory knows %s as neighbours, the settings name %s: the former count",
                ", ".join(router.neighbours) or "nobody",
                ", ".join(settings.all_neighbours) or "nobody",
            )
        if (router.parent or "") != settings.parent:
            log.warning("the parent is %r by the data directory, not %r", router.parent or "", settings.parent)


def _admission(settings: BrokerSettings) -> Admit:
    return up_to(settings.limits.clients, settings.limits.subscriptions)


def _healers(settings: BrokerSettings) -> list[MachineMaker]:
    """Wherever there is order: so that a data directory can be told to heal, or not to, at any start."""
    if settings.ordering == "none":
        return []
    grace = settings.heal.grace if settings.heal else GRACE_SECONDS
    return [NeighbourInfo, partial(StandIn, ordering=settings.ordering, grace=grace)]


def _machines(settings: BrokerSettings) -> list[MachineMaker]:
    stabilising = [settings.stabilise.machine] if settings.stabilise else []
    if settings.stabilise and settings.stabilise.rebuilds:  # over links that stay: nothing here changes any
        return stabilising
    return [
        *machines(settings.ordering),
        partial(Mobility, admit=_admission(settings)),
        *_healers(settings),
        *stabilising,
    ]


def first_broker(settings: BrokerSettings) -> Broker:
    """A broker as it is in its first life; `address` follows once it listens."""
    return Broker(
        settings.name,
        settings.routing_config,
        neighbours=[] if settings.stand_in else settings.all_neighbours,
        parent=settings.parent or None,
        machines=_machines(settings),
        make_router=settings.stabilise.router_for(settings.all_neighbours) if settings.stabilise else Router,
        components=factories(settings),
    )
