"""The tree as its brokers report it: one is asked, then its neighbours, whose addresses it names, and so on.

Two neighbours may disagree for a moment, while a link is being swapped, and brokers that are asked one after the other
may show a link and the one that takes its place: then all are asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from pleach.core.messages import Node
from pleach.core.overlay.choice import Circumstances
from pleach.core.overlay.plans import Topology
from pleach.core.overlay.plans.topology import BROKERS_MAX
from pleach.core.standby.views import Machine
from pleach.errors import CycleError, DeniedError, InvalidInputError, SurveyError, TopologyError, UnreachableError
from pleach.net.addresses import BrokerAddresses
from pleach.net.http_client import ask
from pleach.operate.operation import NO_BROKER_THERE, OpenStatus
from pleach.operate.ring_seats import RingSeat

ASKED_AT_ONCE_MAX = 64
SETTLE_SECONDS_MAX = 15.0  # for neighbours to agree: a swap takes less
SETTLE_PAUSE_SECONDS = 0.1


class NeighbourStatus(msgspec.Struct):
    up: bool
    queued: int
    admin: str = ""
    relay: Node = ""  # the broker that passes the link on; empty: it is direct


class ClientStatus(msgspec.Struct):
    up: bool
    queued: int
    subscriptions_count: int


class ComponentStatus(msgspec.Struct):
    kind: str
    failed: bool = False
    complaint: str = ""


class LeavingStatus(msgspec.Struct):
    waits_for: list[Node] = []
    has_left: bool = False


class RoutingStatus(msgspec.Struct):
    hierarchical: bool = False


class CopyLag(msgspec.Struct):
    records: int


class CopyStatus(msgspec.Struct):
    behind: CopyLag | None = None  # None: it is being brought up


class HostReport(msgspec.Struct):
    admins: dict[Node, str] = {}


class StandbyStatus(msgspec.Struct):
    """`machine`: where the broker runs. `copies`: where else its data directory is.

    `admins`: operators' ports of other brokers that run on this machine, or have a copy there.
    """

    machine: Machine
    covered: bool
    copies: dict[Machine, CopyStatus] = {}
    admins: dict[Node, str] = {}


class HostStatus(msgspec.Struct):
    """What a machine says that runs no broker in this process. `admins`: of brokers that its host knows of."""

    name: Node
    standby: HostReport


class BrokerStatus(msgspec.Struct):
    """What /status or /glance says, as far as it is needed here; `raw` is all of it."""

    name: Node
    ready: bool
    durable: bool
    reasons: list[str]
    neighbours: dict[Node, NeighbourStatus]
    clients: dict[Node, ClientStatus]
    components: dict[Node, ComponentStatus] = {}
    addresses: BrokerAddresses = BrokerAddresses()
    operation: str = ""
    open_operations: list[OpenStatus] = []
    leaving: LeavingStatus = msgspec.field(default_factory=LeavingStatus)
    routing: RoutingStatus = msgspec.field(default_factory=RoutingStatus)
    ring: RingSeat | None = None
    standby: StandbyStatus | None = None
    raw: Any = None

    @property
    def zone(self) -> str:
        return str(self.raw["zone"]) if self.raw else ""

    @property
    def ordering(self) -> str:
        return str(self.raw["ordering"]) if self.raw else "causal"

    @property
    def exchange(self) -> str:
        return str(self.raw["exchange"])


@dataclass
class Survey:
    """`admin`: where each broker answered. `unreachable`: reasons by name, or by address if the name is unknown."""

    found: dict[Node, BrokerStatus] = field(default_factory=dict)
    admin: dict[Node, str] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)
    hosts: dict[str, HostStatus] = field(default_factory=dict)  # machines without a broker, by address

    def disagreements(self) -> list[str]:
        return [
            f"{name} is linked to {other}, and {other} says it is not"
            for name, status in sorted(self.found.items())
            for other in sorted(status.neighbours)
            if other in self.found and name not in self.found[other].neighbours
        ]

    @property
    def is_settled(self) -> bool:
        """Whether waiting would not help: an exchange that is under way may show as two views of a link, or a cycle."""
        if self.disagreements():
            return False
        try:
            tree = self.topology()
        except CycleError:
            return False
        except (SurveyError, TopologyError):
            return True
        return all(name in tree for name, status in self.found.items() if status.neighbours)

    @property
    def circumstances(self) -> Circumstances:
        """Those of one broker, since all have the same settings."""
        status = next(iter(self.found.values()))
        return Circumstances(status.ordering, status.routing.hierarchical)

    def nobody(self) -> SurveyError:
        """That no broker answers."""
        reasons = "; ".join(f"{who}: {why}" for who, why in self.unreachable.items())
        return SurveyError("no broker answers", reasons, "are these admin addresses, and do the brokers run?")

    def topology(self) -> Topology:
        """The tree of the first broker that has neighbours; of the first one, if none has any.

        Raises SurveyError where not all of its brokers answer, or two of them disagree.
        """
        if not self.found:
            raise self.nobody()
        unknown = sorted({n for s in self.found.values() for n in s.neighbours} - {*self.found})
        if unknown:
            reasons = "; ".join(self.unreachable.get(name, "it has told nobody its admin address") for name in unknown)
            raise SurveyError(f"not all brokers answer: {', '.join(unknown)}", reasons)
        if disagreements := self.disagreements():
            raise SurveyError("the tree is changing", "; ".join(disagreements))
        return self._tree(next((n for n, s in self.found.items() if s.neighbours), next(iter(self.found))))

    def _tree(self, root: Node) -> Topology:
        seen, waiting = {root}, [root]
        links = []
        while waiting:
            here = waiting.pop()
            for there in self.found[here].neighbours:
                if here < there:
                    links.append((here, there))
                if there not in seen:
                    seen.add(there)
                    waiting.append(there)
        return Topology.of(links, [root])


async def survey(places: Sequence[str], page: str = "/status") -> Survey:
    """Visit all brokers of the tree, beginning at admin addresses, or at those of ready lines in directories.

    Raises DeniedError where brokers answer, and none of them tells this process anything.
    """
    result = Survey()
    addresses = await asyncio.to_thread(admin_addresses, places)
    waiting: dict[str, str] = {address: address for address in addresses}  # address: name, or the address again
    asked: set[str] = set()
    answered: dict[str, Node] = {}  # address: name
    denied: DeniedError | None = None
    while waiting and len(asked) < BROKERS_MAX:
        turn = list(waiting.items())[:ASKED_AT_ONCE_MAX]
        asked.update(address for address, _ in turn)
        answers = await asyncio.gather(*(_status(address, page) for address, _ in turn))
        for (address, who), answer in zip(turn, answers, strict=True):
            if isinstance(answer, HostStatus):
                result.hosts[address] = answer
                result.unreachable[who] = NO_BROKER_THERE
                continue
            if isinstance(answer, UnreachableError | DeniedError):
                denied = denied or (answer if isinstance(answer, DeniedError) else None)
                result.unreachable[who] = answer.reason
                continue
            answered[address] = answer.name
            if answer.name not in result.found:
                result.found[answer.name], result.admin[answer.name] = answer, address
        waiting = _next(result, asked) | {a: w for a, w in waiting.items() if a not in asked}
    if denied is not None and not result.found:
        raise denied
    for name in (*result.found, *(at for at, host in result.hosts.items() if _leads_on(host, result))):
        result.unreachable.pop(name, None)
    result.unreachable |= _elsewhere(result, answered)
    return result


async def settled_survey(places: Sequence[str], *, seconds_max: float = SETTLE_SECONDS_MAX) -> Survey:
    """Repeat the survey until all brokers that answer agree on one tree, or the time is up."""
    deadline = asyncio.get_running_loop().time() + seconds_max
    while True:
        result = await survey(places)
        if result.is_settled or asyncio.get_running_loop().time() > deadline:
            return result
        await asyncio.sleep(SETTLE_PAUSE_SECONDS)


def _next(result: Survey, asked: set[str]) -> dict[str, str]:
    """Neighbours of brokers that answered, as far as they were not asked yet; and what machines know of others.

    A broker that was promoted while its neighbours could not hear of it is found so.
    """
    told = [status.standby.admins for status in result.found.values() if status.standby is not None]
    told += [host.standby.admins for host in result.hosts.values()]
    known = {admin: name for admins in told for name, admin in sorted(admins.items())}
    promoted = {admin: name for admin, name in known.items() if name not in result.found and admin not in asked}
    return promoted | {
        neighbour.admin: name
        for _, status in sorted(result.found.items())
        for name, neighbour in sorted(status.neighbours.items())
        if name not in result.found and neighbour.admin and neighbour.admin not in asked
    }


def _leads_on(host: HostStatus, result: Survey) -> bool:
    """Whether it matters to nobody that no broker runs in this process: its own does elsewhere, or it knows others."""
    return not {host.name, *host.standby.admins}.isdisjoint(result.found)


def _elsewhere(result: Survey, answered: dict[str, Node]) -> dict[str, str]:
    """Neighbours at whose address another broker answers, as when each advertises its own loopback address."""
    return {
        name: f"{name} is advertised at {at}, where {answered[at]} answers: set `admin_advertise` at {name}"
        for _, status in sorted(result.found.items())
        for name, neighbour in sorted(status.neighbours.items())
        if name not in result.found and (at := neighbour.admin) in answered
    }


async def _status(address: str, page: str) -> BrokerStatus | HostStatus | UnreachableError | DeniedError:
    try:
        answer = await ask(address, page)
        if isinstance(answer.value, dict) and answer.value.get("broker") is False:
            return msgspec.convert(answer.value, HostStatus)
        status = msgspec.convert(answer.value, BrokerStatus)
    except (UnreachableError, DeniedError) as error:
        return error
    except msgspec.ValidationError as error:
        return UnreachableError(address, f"no broker of this release answers there: {error}")
    status.raw = answer.value
    return status


# Where to begin --------------------------------------------------------------------------------------------------


class ReadyLine(msgspec.Struct):
    """The line that a broker prints when it listens."""

    admin: str


def admin_addresses(places: Iterable[str]) -> list[str]:
    """Addresses as given; of a directory, those in the ready lines in its files."""
    found: list[str] = []
    for place in places:
        folder = Path(place)
        found += (
            [_admin_of(file) for file in sorted(folder.iterdir()) if file.is_file()] if folder.is_dir() else [place]
        )
    if not found:
        raise InvalidInputError(
            f"no ready lines in {', '.join(places)}: start brokers with `pleach broker … > DIR/NAME`"
        )
    return list(dict.fromkeys(found))


def _admin_of(file: Path) -> str:
    line = file.read_bytes().partition(b"\n")[0]
    try:
        return msgspec.json.decode(line, type=ReadyLine).admin
    except msgspec.DecodeError as error:
        raise InvalidInputError(f"{file}: not a ready line of a broker: {error}") from None
