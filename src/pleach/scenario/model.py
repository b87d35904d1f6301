"""The scenario model: the content of a file, checked, with every default filled in.

Scenarios are frozen and travel as JSON (`msgspec.json` reads back what it wrote), so that a campaign can send
them to other machines and a manifest can name them by `scenario_digest`.
"""

from __future__ import annotations

from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Generic, TypeAlias, TypeVar

import msgspec

from pleach.core.optimise.council_settings import CouncilSettings
from pleach.core.stabilise.lease_settings import Lease, Renewal
from pleach.scenario.steps import Step
from pleach.scenario.values import (
    Attributes,
    Bytes,
    Copies,
    Count,
    FilterText,
    FilterTexts,
    Fraction,
    Links,
    Name,
    Names,
    PositiveSeconds,
    PositiveSpan,
    Seconds,
    Span,
    Variant,
)

T = TypeVar("T")


class Routing(StrEnum):
    FLOODING = "flooding"
    SIMPLE = "simple"
    IDENTITY = "identity"
    COVERING = "covering"
    MERGING = "merging"


class Ordering(StrEnum):
    NONE = "none"
    FIFO = "fifo"
    CAUSAL = "causal"


class PublishLoad(msgspec.Struct, frozen=True, kw_only=True):
    """A load: an event `every` so often, the first at `start`, the last before `until` or after `count`."""

    every: PositiveSpan
    start: Seconds = msgspec.field(default=0.0, name="from")
    until: Seconds | None = None  # None: the scenario's duration
    count: Count | None = None
    attributes: Attributes
    payload_bytes: Bytes = 0


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to events that are delivered to the client and match `to`."""

    to: FilterText
    attributes: Attributes = msgspec.field(name="with")
    probability: Fraction = 1.0
    delay: Span = Span(0.0, 0.0)


Publishes: TypeAlias = Annotated[tuple[PublishLoad, ...], "one table or a list of them"]
Replies: TypeAlias = Annotated[tuple[Reply, ...], "one table or a list of them"]


class ScenarioClient(msgspec.Struct, frozen=True, kw_only=True):
    """`advertise` is what the file says; where it says nothing, see `derived_advertisements`."""

    id: Name
    broker: Name
    publish: Publishes = ()
    reply: Replies = ()
    subscribe: FilterTexts = ()
    advertise: FilterTexts = ()
    own_events: bool = True


class Stabiliser(StrEnum):
    LEASES = "leases"
    REBUILD = "rebuild"
    REBUILD_PACED = "rebuild-paced"  # as on real processes: rounds wait for evidence
    REBUILD_PRINTED = "rebuild-printed"  # as S1 has it, with its errors
    COLOURED = "coloured"  # the tree as well as the tables: overlay/coloured/

    @property
    def rebuilds(self) -> bool:
        return self in (Stabiliser.REBUILD, Stabiliser.REBUILD_PACED, Stabiliser.REBUILD_PRINTED)


class Stabilise(msgspec.Struct, frozen=True, kw_only=True):
    """How the network recovers from faults that damage its state; see stabilise/ for the names.

    `renewal` and `variant` are of leases, `cyclic` of rebuilding: links may then form cycles. `delay` and `diameter`
    are the bounds that the periods are checked against, by default those of [latency] and the tree. With colours
    `height` replaces `diameter`, `group` lists the root and its successors, and `degree` limits who accepts orphans.
    """

    kind: Stabiliser
    refresh: PositiveSeconds
    period: PositiveSeconds
    renewal: Renewal = Renewal.HOP_BY_HOP
    variant: Variant = 1
    cyclic: bool = False
    delay: Span | None = None
    diameter: Count | None = None
    height: Count | None = None
    group: Names = ()
    degree: Count | None = None

    @property
    def lease(self) -> Lease:
        return Lease(refresh=self.refresh, period=self.period, renewal=self.renewal, variant=self.variant)


class StandbyTable(msgspec.Struct, frozen=True, kw_only=True):
    """How brokers that are lost for good come back elsewhere (core/standby).

    `copies`: of each broker's data, its own among them. `after`: seconds of silence that count as death. `machines`:
    hosts of copies besides those of the brokers.
    """

    copies: Copies = 2
    after: PositiveSeconds = 1.0
    machines: Names = ()


class PerLink(msgspec.Struct, Generic[T], frozen=True):
    """A value for every link: its own where the file gives one, else the default. Links have no direction."""

    default: T
    links: tuple[tuple[str, str, T], ...] = ()

    def of(self, x: str, y: str) -> T:
        for a, b, value in self.links:
            if (x, y) in ((a, b), (b, a)):
                return value
        return self.default

    def by_link(self) -> dict[tuple[str, str], T]:
        """The values by both directions of each link; links that are absent have the default."""
        return {ends: value for a, b, value in reversed(self.links) for ends in ((a, b), (b, a))}


LATENCY_DEFAULT = Span(0.001, 0.005)  # S0's default scenario


class RoutedScenario(msgspec.Struct, frozen=True, kw_only=True):
    """How brokers route events, and what they promise of their order."""

    name: str
    routing: Routing
    hierarchical: bool = False
    root: Name = ""  # filled in: the first broker
    advertisements: bool = False
    merge_bound: Fraction = 0.0  # imperfect merging: the share of a merger that no subscription covers
    ordering: Ordering = Ordering.CAUSAL
    exchange: Name = "swaplink"


class NetworkScenario(RoutedScenario, frozen=True, kw_only=True):
    """The tree, its links, and the time that brokers take; `brokers` are in the order in which they appear."""

    links: Links = ()
    brokers: Names = ()  # filled in
    duration: PositiveSeconds
    latency: PerLink[Span] = PerLink(LATENCY_DEFAULT)
    loss: PerLink[float] = PerLink(0.0)
    service: Seconds = 0.0  # per message of a broker; in `sim` only
    service_per_entry: Seconds = 0.0  # and for each subscription that one is compared with (covering, merging)


class Scenario(NetworkScenario, frozen=True, kw_only=True):
    """All that a file says; `steps` are in the order in which they happen.

    Fields are inherited in three groups, since msgspec knows one line of bases; their order is part of the digest.
    """

    stabilise: Stabilise | None = None
    standby: StandbyTable | None = None
    improve: CouncilSettings | None = None  # brokers improve their tree among themselves (core/optimise/council.py)
    clients: tuple[ScenarioClient, ...] = ()
    steps: tuple[Step, ...] = ()

    def client(self, client_id: str) -> ScenarioClient:
        return next(client for client in self.clients if client.id == client_id)


def scenario_digest(scenario: Scenario) -> str:
    """A digest of the content: equal for equal scenarios, on every machine and in every process."""
    return sha256(msgspec.json.encode(scenario, order="deterministic")).hexdigest()
