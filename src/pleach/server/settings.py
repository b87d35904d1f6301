"""The settings of a broker process: defaults < profile < TOML file < environment (PLEACH_…) < flags, validated once.

    name = "b"                          PLEACH_NAME=b                     --name b
    neighbours = ["a"]                  PLEACH_NEIGHBOURS=a,d             --neighbour a --neighbour d
    peers = { c = "10.0.0.3:7200" }     PLEACH_PEERS=c=10.0.0.3:7200      --peer c=10.0.0.3:7200
    components = { sum = "app:Sum" }    PLEACH_COMPONENTS=sum=app:Sum     --component sum=app:Sum
    limits = { clients = 500 }          PLEACH_LIMIT_CLIENTS=500
    stabilise = { refresh = 1, … }      PLEACH_STABILISE_REFRESH=1        --refresh 1
    improve = { every = 2 }             PLEACH_IMPROVE_EVERY=2            --improve
    standby = { after = 1.0 }           PLEACH_STANDBY_AFTER=1.0          --standby-after 1.0
    standby = false                     PLEACH_STANDBY=false              --without standby
    ring = { join = ["c:7200"] }        PLEACH_RING_JOIN=c:7200           --join c:7200
    relay = { tunnels = 20 }            PLEACH_RELAY_TUNNELS=20           --relay
    access = { file = "access.toml" }   PLEACH_ACCESS_FILE=access.toml    --access access.toml
    tls = { directory = "certs/b" }     PLEACH_TLS_DIRECTORY=certs/b      --tls certs/b

An error says where the value came from, which key it is, what is wrong, and what would be right.
"""

from __future__ import annotations

import socket
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from pleach.core.messages import Node
from pleach.core.optimise.council_settings import CouncilSettings, council_complaints
from pleach.core.overlay.choice import CHOICES, Circumstances
from pleach.core.routing.policies import POLICIES
from pleach.core.routing.router import RoutingConfig
from pleach.errors import SettingsError, place_and_reason
from pleach.net.addresses import host_of, is_loopback, parse_address
from pleach.server.door.settings import AccessSettings
from pleach.server.door.tls_settings import TlsSettings, tls_complaints
from pleach.server.profile import OPTIONAL_TABLES, PROFILE
from pleach.server.relay.settings import RelaySettings, relay_complaints
from pleach.server.ring.settings import RingSettings, ring_complaints
from pleach.server.stabilise_settings import LeaseSettings, lease_complaints
from pleach.server.standby.settings import StandbySettings, standby_complaints

NO_KIND = "none"  # of [stabilise]
NO_TEXTS = ("false", "0")  # of a table in the environment, as of every other setting that is true or false
ORDERINGS = ("none", "fifo", "causal")
NAME_BYTES_MAX = 255
HEARTBEAT_SECONDS_MIN, HEARTBEAT_SECONDS_MAX = 0.01, 3_600.0
ENVIRONMENT_PREFIX = "PLEACH_"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class BrokerLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of a broker; what exceeds one is refused or slowed down, never dropped silently.

    The size of a frame is none of them: both ends of a link must agree on it (core/links/frames.py), or frames of the
    larger one would be sent again for ever. Events above their limit are refused one by one.
    """

    clients: int = 10_000  # connected ones, and absent ones that have something to come back to
    client_absence_seconds: int = 86_400  # a client that is away for longer is forgotten, with all that is kept for it
    vacant: int = 1_000  # absent clients that have asked for nothing; of more, the longest absent are forgotten
    subscriptions: int = 200_000  # and advertisements, of all clients together: some kilobytes each
    outbox_bytes_per_client: int = 64 * 1_048_576  # a client that lets more than this pile up is sent away
    outbox_bytes_high: int = 512 * 1_048_576  # of all links together: publishers are not read from above this …
    outbox_bytes_low: int = 256 * 1_048_576  # … until it has come down to this
    leave_seconds: int = 60  # a broker that is removed gives clients up that have taken nothing for this long
    strangers: int = 256  # connections that have not said Hello yet
    data_bytes: int = 0  # of the data directory; 0: as much as the disk holds


# The settings of a broker in groups. Keys are flat in files: each group extends the one before, BrokerSettings all.


class AddressSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of a broker, and where it listens and is found."""

    name: Node
    client_listen: str = "127.0.0.1:0"
    peer_listen: str = "127.0.0.1:0"
    admin_listen: str = "127.0.0.1:0"
    advertise: str = ""  # where other brokers find this one; empty: where it listens for them
    client_advertise: str = ""  # where clients find it that are sent here by another broker
    admin_advertise: str = ""  # where operators find it who come from another broker


class TreeSettings(AddressSettings, frozen=True, forbid_unknown_fields=True):
    """The place of a broker in the tree."""

    peers: dict[Node, str] = {}  # neighbours that this broker dials
    neighbours: tuple[Node, ...] = ()  # neighbours that dial this broker
    welcome: tuple[Node, ...] = ()  # brokers that may join the tree here while it runs; "*": any
    parent: Node = ""  # towards the root: in hierarchical routing, and where tables are rebuilt; empty: it is the root


class NetworkSettings(TreeSettings, frozen=True, forbid_unknown_fields=True):
    """Protocols: mostly the same for all brokers of a network."""

    routing: str = "covering"
    hierarchical: bool = False
    advertisements: bool = False
    merge_bound: float = 0.0
    stabilise: LeaseSettings | None = None  # None: no entry expires, and damaged state is not corrected
    standby: StandbySettings | None = None  # None: there is one copy of the data directory, and no other broker's here
    improve: CouncilSettings | None = None  # None: links change only if somebody asks; else brokers improve their tree
    ring: RingSettings | None = None  # None: neighbours are named; else the ring names them
    relay: RelaySettings | None = None  # None: a link whose way is cut waits; else other brokers pass it on
    ordering: str = "causal"
    exchange: str = "swaplink"  # the protocol of reconfigurations that name none


class BrokerSettings(NetworkSettings, frozen=True, forbid_unknown_fields=True):
    """All settings of a broker process; these last ones are about the process itself."""

    access: AccessSettings | None = None  # None: whoever connects may do everything
    components: dict[str, str] = {}  # what it can host, besides the built-in ones: MODULE:FACTORY by kind
    data_dir: str = ""  # empty: in memory only
    replace: bool = False  # whether it takes the place of a broker of its name that is lost, with its memory
    heartbeat: float = 1.0
    zone: str = ""  # where this broker stands: for people who look at the tree, and for what links between zones cost
    tls: TlsSettings | None = None  # None: connections are plain
    insecure: bool = False  # whether it may listen beyond the loopback without TLS and without rights
    log_level: LogLevel = LogLevel.INFO
    json_logs: bool = False
    limits: BrokerLimits = BrokerLimits()
    debug_faults: bool = False  # whether operators may damage this broker's state: for tests, and for nothing else

    @property
    def all_neighbours(self) -> list[Node]:
        return sorted({*self.neighbours, *self.peers})

    @property
    def routing_config(self) -> RoutingConfig:
        refresh = self.stabilise.refresh if self.stabilise else 0.0
        return RoutingConfig(self.routing, self.hierarchical, self.advertisements, self.merge_bound, refresh=refresh)

    @property
    def circumstances(self) -> Circumstances:
        """What the choice of a protocol that exchanges links depends on."""
        return Circumstances(self.ordering, self.hierarchical)

    @property
    def agreed(self) -> dict[str, str]:
        """What neighbours must agree on, as it stands in a settings file: each counts on the other to go by it."""
        return {key: value.lower() for key, value in self.lasting.items()}

    @property
    def lasting(self) -> dict[str, str]:
        """Settings that are fixed when the data directory is created: its state cannot be read with other values."""
        kept = {key: str(getattr(self, key)) for key in LASTING}
        return {**kept, "stabilise": self.stabilise.kind.value if self.stabilise else NO_KIND}


# Settings that are tables, the prefix of their keys in the environment, and what they hold.
TABLES: Mapping[str, tuple[str, type[msgspec.Struct]]] = MappingProxyType(
    {
        "limits": ("PLEACH_LIMIT_", BrokerLimits),
        "access": ("PLEACH_ACCESS_", AccessSettings),
        "stabilise": ("PLEACH_STABILISE_", LeaseSettings),
        "standby": ("PLEACH_STANDBY_", StandbySettings),
        "improve": ("PLEACH_IMPROVE_", CouncilSettings),
        "ring": ("PLEACH_RING_", RingSettings),
        "relay": ("PLEACH_RELAY_", RelaySettings),
        "tls": ("PLEACH_TLS_", TlsSettings),
    }
)
# What a running broker applies when it reads its settings again; the rest waits for a restart.
RELOADABLE = ("peers", "welcome", "exchange", "heartbeat", "zone", "log_level", "limits")
# What is fixed when the data directory is created, besides `stabilise.kind`.
LASTING = ("routing", "hierarchical", "advertisements", "merge_bound", "ordering")


class SettingsSource(NamedTuple):
    """Where values come from."""

    name: str
    values: dict[str, Any]


def load_settings(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> BrokerSettings:
    """The effective settings; raises SettingsError for the first thing that is wrong with them."""
    sources = [
        *([SettingsSource(str(file), _read_file(file))] if file else []),
        SettingsSource("environment", _from_environment(environment)),
        SettingsSource("flags", dict(flags)),
    ]
    profile = SettingsSource("profile", PROFILE.of(_merged(sources)))
    sources = [profile, *sources]
    merged, origin = _merged(sources), {key: source.name for source in sources for key in source.values}
    for table in OPTIONAL_TABLES:
        if merged.get(table) is False:
            merged[table] = None
    settings = _convert(merged, origin)
    for key, reason, remedy in _complaints(settings):
        raise SettingsError(key, reason, remedy, source=origin.get(key.partition(".")[0], "defaults"))
    return settings


def _merged(sources: Iterable[SettingsSource]) -> dict[str, Any]:
    """Later ones win; where both have a table, key by key."""
    merged: dict[str, Any] = {}
    for key, value in ((key, value) for source in sources for key, value in source.values.items()):
        both_tables = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = {**merged[key], **value} if both_tables else value
    return merged


def effective(settings: BrokerSettings) -> str:
    """The settings as JSON, every default spelled out."""
    return msgspec.json.format(msgspec.json.encode(settings), indent=2).decode()


def host_names(settings: BrokerSettings) -> list[str]:
    """Host names of the operators' port: those in the settings, and the machine's own."""
    told = (settings.admin_listen, settings.admin_advertise, settings.advertise, settings.client_advertise)
    return [*(host_of(address) for address in told), socket.gethostname()]


# Sources -------------------------------------------------------------------------------------------------------


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(
            "", f"the file cannot be read: {error.strerror}", "check --config", source=str(file)
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError("", f"no TOML: {error}", "correct the line named", source=str(file)) from None


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Other variables whose names begin with PLEACH_ are ignored."""
    found: dict[str, Any] = {}
    for field in BrokerSettings.__struct_fields__:
        text = environment.get(ENVIRONMENT_PREFIX + field.upper())
        if text is not None and field not in TABLES:
            found[field] = _structured(field, text)
    for table, (prefix, kind) in TABLES.items():
        variable = ENVIRONMENT_PREFIX + table.upper()
        if table in OPTIONAL_TABLES and (text := environment.get(variable)) is not None:
            if text.lower() not in NO_TEXTS:
                remedy = f"write false, or its keys: {prefix}{kind.__struct_fields__[0].upper()} …"
                raise SettingsError(table, f"{variable} is {text!r}", remedy, source="environment")
            found[table] = False
            continue
        given = {
            field: _structured(field, environment[prefix + field.upper()])
            for field in kind.__struct_fields__
            if prefix + field.upper() in environment
        }
        if given:
            found[table] = given
    return found


def _structured(field: str, text: str) -> Any:
    match field:
        case "peers":
            return parse_peers([part for part in text.split(",") if part], source="environment")
        case "components":
            return parse_components([part for part in text.split(",") if part], source="environment")
        case "neighbours" | "welcome" | "join" | "at":
            return [part for part in text.split(",") if part]
        case _:
            return text


def parse_peers(texts: list[str], *, source: str) -> dict[Node, str]:
    """`NAME=HOST:PORT` each."""
    peers: dict[Node, str] = {}
    for text in texts:
        name, equals, address = text.partition("=")
        if not equals or not name or not address:
            raise SettingsError("peers", f"{text!r} names no peer", "write NAME=HOST:PORT", source=source)
        peers[name] = address
    return peers


def parse_components(texts: list[str], *, source: str) -> dict[str, str]:
    """`KIND=MODULE:FACTORY` each."""
    components: dict[str, str] = {}
    for text in texts:
        kind, equals, place = text.partition("=")
        if not equals or not kind:
            raise SettingsError("components", f"{text!r} names no kind", "write KIND=MODULE:FACTORY", source=source)
        components[kind] = place
    return components


# Checks --------------------------------------------------------------------------------------------------------


def _convert(merged: dict[str, Any], origin: dict[str, str]) -> BrokerSettings:
    if "name" not in merged:
        raise SettingsError("name", "missing", "give --name, PLEACH_NAME, or name = … in the file")
    try:
        return msgspec.convert(merged, BrokerSettings, strict=False)
    except msgspec.ValidationError as error:
        key, reason = place_and_reason(error)
        source = origin.get(key.partition(".")[0], "")
        if not key:  # msgspec names an unknown key in its text only
            unknown = sorted(set(merged) - set(BrokerSettings.__struct_fields__))
            key, source = (unknown[0], origin[unknown[0]]) if unknown else ("", "")
        known = ", ".join((TABLES[key][1] if key in TABLES else BrokerSettings).__struct_fields__)
        remedy = f"known keys: {known}" if "unknown field" in reason else "correct the value"
        raise SettingsError(key, reason, remedy, source=source) from None


def _complaints(settings: BrokerSettings) -> Iterator[tuple[str, str, str]]:
    """(key, reason, remedy) of each value that is wrong although its type is right."""
    yield from _name_complaints(settings)
    for key in ("client_listen", "peer_listen", "admin_listen"):
        yield from _address_complaints(key, getattr(settings, key))
    for key in ("advertise", "client_advertise", "admin_advertise"):
        if text := getattr(settings, key):
            yield from _address_complaints(key, text, is_dialled=True)
    for peer, text in sorted(settings.peers.items()):
        yield from _address_complaints(f"peers.{peer}", text, is_dialled=True)
    yield from _exposure_complaints(settings)
    yield from _choice_complaints(settings)
    if not 0.0 <= settings.merge_bound < 1.0:
        yield "merge_bound", f"{settings.merge_bound} is no share", "0.0 or more, and less than 1.0"
    if not HEARTBEAT_SECONDS_MIN <= settings.heartbeat <= HEARTBEAT_SECONDS_MAX:
        yield "heartbeat", f"{settings.heartbeat} seconds", f"{HEARTBEAT_SECONDS_MIN} to {HEARTBEAT_SECONDS_MAX}"
    yield from _table_complaints(settings)


def _choice_complaints(settings: BrokerSettings) -> Iterator[tuple[str, str, str]]:
    if settings.routing not in POLICIES:
        yield "routing", f"{settings.routing!r} is no policy", f"one of {', '.join(POLICIES)}"
    if settings.ordering not in ORDERINGS:
        yield "ordering", f"{settings.ordering!r} is no ordering", f"one of {', '.join(ORDERINGS)}"
    if settings.exchange not in CHOICES:
        yield "exchange", f"{settings.exchange!r} is no protocol", f"one of {', '.join(CHOICES)}"


def _exposure_complaints(settings: BrokerSettings) -> Iterator[tuple[str, str, str]]:
    """Who listens to other machines needs both doors: who is who, and who may what."""
    missing = [f"[{key}]" for key in ("tls", "access") if getattr(settings, key) is None]
    if settings.insecure or not missing:
        return
    for key in ("client_listen", "peer_listen", "admin_listen"):
        if not is_loopback(getattr(settings, key)):
            reason = f"{getattr(settings, key)} is open to other machines, and {' and '.join(missing)} missing"
            remedy = "give [tls] and [access], listen on 127.0.0.1, or say insecure = true (PLEACH_INSECURE=true)"
            yield key, reason, remedy


def _address_complaints(key: str, text: str, *, is_dialled: bool = False) -> Iterator[tuple[str, str, str]]:
    try:
        address = parse_address(text, key=key)
    except SettingsError as error:
        yield key, error.reason, error.remedy
        return
    if is_dialled and not address.port:
        yield key, "port 0 cannot be dialled", "give the port that the peer listens on"


def _name_complaints(settings: BrokerSettings) -> Iterator[tuple[str, str, str]]:
    names = [("name", settings.name), *(("neighbours", name) for name in settings.all_neighbours)]
    names += [("welcome", name) for name in settings.welcome]
    for key, name in names:
        if not name or len(name.encode()) > NAME_BYTES_MAX or not name.isprintable() or "/" in name:
            remedy = f"1 to {NAME_BYTES_MAX} bytes of printable text, without a slash: that is for tenant/client"
            yield key, f"{name!r} is no name", remedy
    if len(settings.zone.encode()) > NAME_BYTES_MAX or not settings.zone.isprintable():
        yield "zone", f"{settings.zone!r} is no zone", f"up to {NAME_BYTES_MAX} bytes of printable text"
    if settings.name in settings.all_neighbours:
        yield "neighbours", f"{settings.name!r} is this broker itself", "name other brokers only"
    if settings.parent and settings.parent not in settings.all_neighbours:
        yield "parent", f"{settings.parent!r} is no neighbour", f"one of {', '.join(settings.all_neighbours) or 'none'}"


def _table_complaints(settings: BrokerSettings) -> Iterator[tuple[str, str, str]]:
    for kind, place in sorted(settings.components.items()):
        if not all(part and part.isprintable() for part in (kind, *place.partition(":"))):
            yield f"components.{kind}", f"{place!r} is no place of a factory", "write MODULE:FACTORY"
    if settings.stabilise is not None:
        yield from lease_complaints(settings.stabilise, settings.routing_config)
        moving = [key for key in ("ring", "welcome", "improve") if getattr(settings, key) not in (None, ())]
        if settings.stabilise.rebuilds and moving:
            reason = "tables are rebuilt over links that stay"
            yield moving[0], reason, 'leave it out, or set stabilise.kind = "leases"'
    if settings.standby is not None:
        yield from _standby_complaints(settings, settings.standby)
    if settings.ring is not None:
        yield from _ring_complaints(settings, settings.ring)
    if settings.improve is not None:
        yield from _improve_complaints(settings, settings.improve)
    if settings.relay is not None:
        yield from relay_complaints(settings.relay)
    if settings.tls is not None:
        yield from tls_complaints(settings.tls)
    yield from _limit_complaints(settings.limits)


def _standby_complaints(settings: BrokerSettings, standby: StandbySettings) -> Iterator[tuple[str, str, str]]:
    yield from standby_complaints(standby, settings.data_dir)
    for address in standby.at:
        yield from _address_complaints("standby.at", address, is_dialled=True)


def _improve_complaints(settings: BrokerSettings, improve: CouncilSettings) -> Iterator[tuple[str, str, str]]:
    for key, reason, remedy in council_complaints(improve):
        yield f"improve.{key}", reason, remedy
    if settings.hierarchical:
        remedy = "leave hierarchical out, or improve = false (--without improve)"
        yield "improve", "hierarchical routing goes by the root, not by costs", remedy
    if settings.ring is not None and settings.ring.weave:
        remedy = "ring.weave = false, or improve = false (--without improve)"
        yield "ring.weave", "links follow the ring, or what they cost ([improve])", remedy


def _ring_complaints(settings: BrokerSettings, ring: RingSettings) -> Iterator[tuple[str, str, str]]:
    yield from ring_complaints(ring)
    for seed in ring.join:
        yield from _address_complaints("ring.join", seed, is_dialled=True)
    if settings.all_neighbours:
        yield "ring", f"neighbours are named besides: {', '.join(settings.all_neighbours)}", "the ring names them"


def _limit_complaints(limits: BrokerLimits) -> Iterator[tuple[str, str, str]]:
    for field in BrokerLimits.__struct_fields__:
        value, least = getattr(limits, field), 0 if field == "data_bytes" else 1
        if value < least:
            yield f"limits.{field}", f"{value} is too small", f"{least} or more"
    if limits.outbox_bytes_low > limits.outbox_bytes_high:
        yield "limits.outbox_bytes_low", "it is above outbox_bytes_high", "low may be at most high"
