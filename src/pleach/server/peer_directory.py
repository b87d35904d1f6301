"""Addresses of peers, and which peers are brokers: from settings, from neighbours, from reconfigurations.

Rule 1: the tree is the machine's: a data directory wins over the neighbours that the settings name, which count only at
        the first start of a broker.
Rule 2: the address in the settings wins, so that a broker that has moved can be found again; else the one from the
        reconfiguration that made the link.
Rule 3: of a broker that was promoted on another machine, what it has told wins over both. A broker that was promoted
        itself dials all its neighbours: those that used to dial it do not know where it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from pleach.core.broker import Broker
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import Hello, LinkTerms, Memory
from pleach.core.links.upkeep import LinkPhase
from pleach.core.messages import Node
from pleach.core.overlay.locations import KnownLocations
from pleach.core.standby.views import View, ViewNumber
from pleach.net.addresses import BrokerAddresses
from pleach.net.enquiry import Whereabouts, newest
from pleach.server.door.reader_tokens import ReaderTokens
from pleach.server.links import LinkTable, Port
from pleach.server.settings import BrokerSettings
from pleach.server.standby.registers import display

ADDRESS_CHARACTERS_MAX = 512
FALLBACKS_TOLD_MAX = 8
EXPECTED_MAX = 64

T = TypeVar("T")

log = logging.getLogger(__name__)


class BrokerTerm(NamedTuple):
    """Of two brokers of one name, the one with the higher term counts."""

    epoch: int = 0  # of its store
    view: ViewNumber = 0  # 0: it has no standbys


class PeerDirectory:
    def __init__(
        self,
        broker: Broker,
        endpoint: Endpoint,
        links: LinkTable,
        tokens: ReaderTokens,
        settings: Callable[[], BrokerSettings],
    ) -> None:
        self._broker = broker
        self._endpoint = endpoint
        known = broker.machine(KnownLocations)
        assert known is not None, "every broker process has it"
        self.known = known  # where other brokers are
        self._links = links
        self._settings = settings
        self.tokens = tokens
        self.places = BrokerAddresses()  # where this broker is found
        self.view: View | None = None  # whose primary this broker is; None: it has no standbys
        self.admins: dict[Node, str] = {}  # admin addresses of other brokers, as far as they have told
        self.ask_host: Callable[[Node, Port], Whereabouts | None] = lambda *_: None  # what this machine's host knows
        self.memory = Memory.UNTOLD  # of this broker
        self._memories: dict[Node, dict[int, Memory]] = {}  # what other brokers' epochs stand for; the last two of each
        self._hints: dict[Node, str] = {}  # where operators say that brokers are; the latest last
        self._expected: dict[Node, None] = {}  # brokers that may come and ask to be neighbours; the latest last

    def listens_at(self, client: str, peer: str, admin: str) -> None:
        """Where the process listens; what the settings say of addresses wins."""
        told = self._settings()
        self.places = BrokerAddresses(
            told.client_advertise or client, told.advertise or peer, told.admin_advertise or admin
        )
        self._broker.listens_at(self.places.peer, self.places.client, self._endpoint.epoch)

    def expect(self, broker: Node) -> None:
        """An operator says that this broker is going to join here: unknown brokers are refused."""
        _note_last(self._expected, broker, None)

    def hint(self, broker: Node, address: str) -> None:
        """An operator says where a broker is that this one is to join; asked again, where it is by then."""
        _note_last(self._hints, broker, address)

    @property
    def agreed(self) -> dict[str, str]:
        """What neighbours must have in common with this broker."""
        return self._settings().agreed

    @property
    def view_number(self) -> ViewNumber:
        return self.view.number if self.view is not None else 0

    def newest(self, broker: Node) -> BrokerTerm:
        """The newest epoch and view of another broker that is known here."""
        session, location = self._endpoint.sessions.get(broker), self.known.brokers.get(broker)
        met = BrokerTerm(session.peer_epoch, session.peer_view) if session is not None else BrokerTerm()
        return max(met, BrokerTerm(location.epoch, location.view)) if location is not None else met

    def is_awaited(self, broker: Node) -> bool:
        """Whether this is a neighbour that nobody has said to have lost everything."""
        return self.is_linked(broker) and broker not in self._expected

    def memory_of(self, broker: Node) -> Memory:
        """What the epoch of a broker stands for that this one goes by, if it was met since this process began."""
        return self._memories.get(broker, {}).get(self._met(broker), Memory.UNTOLD)

    def _met(self, broker: Node) -> int:
        """The epoch of a broker that this one goes by; 0: none."""
        session = self._endpoint.sessions.get(broker)
        return session.peer_epoch if session is not None else 0

    def introduce(self, broker: Node, relay: Node = "") -> None:
        """Set what the Hello to a broker says: the view, who passes it on, and what clients are not told."""
        own = self._endpoint.admit(broker).introduction
        own.admin, own.view, own.relay = self.places.admin, self.view_number, relay
        own.terms = LinkTerms(tuple(self.agreed.items()), self.memory)

    def hello_received(self, hello: Hello) -> None:
        """Of a broker that is let in."""
        told = {**self._memories.get(hello.node, {}), hello.epoch: hello.terms.memory}
        kept = sorted({self._met(hello.node), hello.epoch} & told.keys())
        self._memories[hello.node] = {epoch: told[epoch] for epoch in kept}
        if hello.admin:
            self.admins[hello.node] = hello.admin[:ADDRESS_CHARACTERS_MAX]

    def accepted(self, hello: Hello, port: Port) -> None:
        """A connection was accepted."""
        if port is Port.CLIENTS:
            session = self._endpoint.admit(hello.node)
            own, is_new = session.introduction, session.peer_epoch not in (0, hello.epoch)
            own.token, own.view = self.tokens.of(hello.node, hello.epoch), self.view_number
            own.fallbacks = self.fallbacks
            own.former = hello.epoch - 1 if is_new else 0
        else:
            self.introduce(hello.node)
            self.hello_received(hello)

    def is_linked(self, peer: Node) -> bool:
        """Whether this is a broker with a link: a neighbour, or one of a reconfiguration under way."""
        if peer in self._broker.router.neighbours:
            return True
        return peer in self._broker.seam.peers and not self.is_client(peer)

    def is_broker(self, peer: Node) -> bool:
        """Whether this is a broker with a link, or with a former one: it may not know yet that the link has ended."""
        return self.is_linked(peer) or (peer in self._endpoint.upkeep.links and not self.is_client(peer))

    def is_welcome(self, peer: Node) -> bool:
        """Whether a broker may come in by the port for peers: it is linked, or was, or may ask to be."""
        welcome = self._settings().welcome
        return self.is_broker(peer) or peer in self._expected or peer in welcome or "*" in welcome

    def is_client(self, peer: Node) -> bool:
        """Reconfigurations ask for links to clients as well, which come over from another broker, or go to one."""
        is_here = peer in self._broker.sessions or self._links.is_client(peer)
        return is_here or self._endpoint.upkeep.is_client(peer)

    def forget_clients(self) -> None:
        """Drop notes of links to clients that are here, as they connect by themselves, and of those that are done.

        A client that has gone to another broker is kept until it has confirmed all that is queued for it here.
        """
        upkeep = self._endpoint.upkeep
        gone = [peer for peer, note in upkeep.links.items() if note.is_client and note.phase is LinkPhase.FORMER]
        for client in [*(peer for peer in upkeep.links if peer in self._broker.sessions), *gone]:
            upkeep.links.pop(client, None)

    # Where brokers are ---------------------------------------------------------------------------------------

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """Where clients ask for this broker when it is gone: neighbours, other brokers, hosts of its copies.

        None without standbys.
        """
        if self.view is None:
            return ()
        known, neighbours = self.known.brokers, self._broker.router.neighbours
        found = [known[name].client for name in sorted(known, key=lambda each: (each not in neighbours, each))]
        hosts = [host.client for machine in self.view.members if (host := self.known.hosts.get(machine)) is not None]
        found = [*found[: FALLBACKS_TOLD_MAX - len(hosts)], *hosts]
        return tuple(address for address in dict.fromkeys(found) if address)[:FALLBACKS_TOLD_MAX]

    def whereabouts(self, broker: Node, port: Port) -> Whereabouts | None:
        """Where a broker is, for whoever asks at this port; None: not known."""
        if broker == self._broker.name:
            own = self.places.client if port is Port.CLIENTS else self.places.peer
            return Whereabouts(self.view_number, is_there=True, address=own)
        here, told = self.ask_host(broker, port), self.told(broker, port)
        if here is not None and told is not None and here.view == told.view and told.address:
            return told  # by the broker itself; a host may know its former ports
        return newest([here, told])

    def told(self, broker: Node, port: Port) -> Whereabouts | None:
        """Where another broker is by what neighbours have told; None: they have not."""
        location = self.known.brokers.get(broker)
        if location is None:
            return None
        address = location.client if port is Port.CLIENTS else location.peer
        return Whereabouts(location.view, is_there=True, address=address)

    def hosts_of(self, broker: Node) -> list[str]:
        """Addresses of the hosts that know where a broker is, as far as it has told."""
        location = self.known.brokers.get(broker)
        return [address for _, address in sorted(location.hosts.items()) if address] if location is not None else []

    def _address_of(self, peer: Node, noted: str) -> str:
        """Where to dial a peer; empty: it dials this broker. `noted`: from the reconfiguration that made the link."""
        configured, location = self._settings().peers.get(peer, ""), self.known.brokers.get(peer)
        if location is None:
            return configured or self._hints.get(peer, "") or noted
        if location.machine and display(location.machine) != peer:
            return location.peer
        is_displaced = self.view is not None and display(self.view.primary) != self._broker.name
        return configured or (location.peer if noted or is_displaced else "") or noted

    def kept_up(self) -> dict[Node, str]:
        """Brokers with a link that is wanted, or that one side is not done with; addresses as far as they are noted."""
        linked = self._broker.links()
        noted = {
            peer: note.address
            for peer, note in self._endpoint.upkeep.links.items()
            if note.phase is not LinkPhase.FORMER and not self.is_client(peer)
        }
        return {peer: linked.get(peer) or noted.get(peer, "") for peer in sorted({**noted, **linked})}

    def to_dial(self) -> dict[Node, str]:
        """Addresses of the brokers to dial."""
        found = {peer: self._address_of(peer, noted) for peer, noted in self.kept_up().items()}
        return {peer: address for peer, address in found.items() if address}

    def peer_address(self, broker: Node) -> str:
        """Where another broker listens for brokers, linked or not, also one that usually dials; empty: not known."""
        noted, told = self.kept_up().get(broker), self.told(broker, Port.PEERS)
        dialled = self._address_of(broker, noted) if noted is not None else ""
        return dialled or (told.address if told is not None else "")

    def is_known(self, broker: Node) -> bool:
        """Whether this is a broker of the network, as far as neighbours and settings say."""
        return self.is_broker(broker) or broker in self.known.brokers

    def is_idle(self, peer: Node) -> bool:
        """Whether a link is kept only so that the peer can say that it is done, too."""
        is_retiring = self._endpoint.upkeep.phase(peer) is LinkPhase.RETIRING
        return is_retiring and not self._endpoint.sessions[peer].unconfirmed

    def report_ignored_settings(self) -> None:
        router, settings = self._broker.router, self._settings()
        if settings.ring is not None:
            return  # the settings name no neighbours
        if sorted(router.neighbours) != settings.all_neighbours:
            log.warning(
                "the data directory knows %s as neighbours, the settings name %s: the former count",
                ", ".join(router.neighbours) or "nobody",
                ", ".join(settings.all_neighbours) or "nobody",
            )
        if (router.parent or "") != settings.parent:
            log.warning("the parent is %r by the data directory, not %r", router.parent or "", settings.parent)


def _note_last(noted: dict[Node, T], name: Node, what: T) -> None:
    """As the last of a few."""
    noted.pop(name, None)
    noted[name] = what
    while len(noted) > EXPECTED_MAX:
        del noted[next(iter(noted))]
