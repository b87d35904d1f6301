"""Damage to the state of a broker (S1 §3.2.2).

The captured state is damaged, so every field can be, except what S1 keeps in ROM: the code, the neighbours, and the
other ends of links. Where tables are rebuilt in turn, each of them is damaged by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import TypeAlias

from msgspec.structs import replace

from pleach.core.broker import BrokerState
from pleach.core.events.filter import Filter
from pleach.core.messages import Layer, Node, Parity, pack, unpack
from pleach.core.routing.client_state import ClientState
from pleach.core.routing.entries import Entry
from pleach.core.routing.pending_acks import Need, Ticket
from pleach.core.routing.snapshot import PropagationState, RouterState
from pleach.core.stabilise.leases import Leases, LeasesState
from pleach.core.stabilise.paced import FIRST_WAVE, PacedState
from pleach.core.stabilise.rebuild import Rebuild

GHOSTS_MAX = 4  # forged entries, names or numbers at a share of 1
NUMBER_STRANGE_MAX = 2**63 - 1
GHOST_FILTERS = ("TRUE", "EXISTS topic", "ghost = 1", "price > 3", "topic LIKE 'news%'")  # some cover everything


@dataclass(frozen=True)
class Hand:
    """The extent of a damage, and the names and filters that it may insert."""

    stream: Random
    share: float
    nodes: Sequence[Node]  # that the broker has links to
    clients: Sequence[Node]  # those of them that are clients
    filters: Sequence[Filter]
    layers: Sequence[Layer] = (Layer.SUBSCRIPTIONS,)  # that the network uses
    trees: Sequence[Node] = ()  # for which tables are rebuilt in turn
    brokers: Sequence[Node] = ()  # all of the network, for pointers that lead anywhere
    is_paced: bool = False  # rounds wait for evidence

    @property
    def strikes(self) -> bool:
        return self.stream.random() < self.share

    def some(self) -> range:
        return range(round(self.stream.random() * self.share * GHOSTS_MAX))

    def layer(self) -> Layer:
        return self.layers[0] if len(self.layers) == 1 else self.stream.choice(self.layers)

    def entry(self) -> Entry:
        owner = self.stream.choice(("", "", "4/gone/s1", *(f"{len(c)}/{c}/s1" for c in self.clients)))
        return Entry(owner, self.stream.choice(self.filters))

    def number(self) -> int:
        return self.stream.choice((0, 1, 2, self.stream.randrange(20), self.stream.randrange(NUMBER_STRANGE_MAX)))

    def parity(self) -> Parity:
        return self.stream.choice(tuple(Parity))


Damage: TypeAlias = Callable[[BrokerState, Hand], BrokerState]
LayerDamage: TypeAlias = Callable[[Layer, PropagationState, Hand], PropagationState]


def damaged(state: bytes, what: str, hand: Hand) -> bytes:
    return pack(PARTS[what](unpack(state, BrokerState), hand))


def rewound(state: bytes, former: bytes) -> bytes:
    """An old state, except for what is protected: neighbours, their number, protocols under way."""
    present, past = unpack(state, BrokerState), unpack(former, BrokerState)
    router = present.router
    for layer in Layer:
        now, then = _layer(router, layer), _layer(past.router, layer)
        rewound_layer = replace(
            now,
            received=then.received,
            stale=then.stale,
            waits=then.waits,
            installs={n: then.installs.get(n, installs) for n, installs in now.installs.items()},
            unanswered={n: then.unanswered.get(n, []) for n in now.installs},
            settles={n: then.settles.get(n, []) for n in now.installs},
        )
        router = _with_layer(router, layer, rewound_layer)
    rebuilt = {name: state for name, state in past.machines.items() if name == Rebuild.name}
    machines = {**present.machines, **rebuilt}
    return pack(replace(present, router=router, clients=past.clients, machines=machines))


def layers_of(*, advertisements: bool) -> Sequence[Layer]:
    return tuple(Layer) if advertisements else (Layer.SUBSCRIPTIONS,)


# Tables, and what follows from them ---------------------------------------------------------------------------


def table(state: BrokerState, hand: Hand) -> BrokerState:
    """Entries are lost, replaced or assigned to others, and forged ones are added."""
    return _in_all_tables(state, hand, _struck_entries)


def _struck_entries(_layer: Layer, former: PropagationState, hand: Hand) -> PropagationState:
    return replace(former, received=damaged_entries(former.received, hand))


def damaged_entries(known: Mapping[Node, Sequence[Entry]], hand: Hand) -> dict[Node, list[Entry]]:
    received: dict[Node, dict[Entry, None]] = {}
    for source, entries in known.items():
        for entry in entries:
            kept_at, kept = _struck(source, entry, hand) if hand.strikes else (source, entry)
            if kept:
                received.setdefault(kept_at, {})[kept] = None
    for _ in hand.some() if hand.nodes else ():
        received.setdefault(hand.stream.choice(hand.nodes), {})[hand.entry()] = None
    return {source: sorted(entries) for source, entries in sorted(received.items())}


def _struck(source: Node, entry: Entry, hand: Hand) -> tuple[Node, Entry | None]:
    match hand.stream.randrange(4):
        case 0:
            return source, Entry(entry.owner, hand.stream.choice(hand.filters))
        case 1:
            return hand.stream.choice(hand.nodes), entry
        case _:
            return source, None


def flags(state: BrokerState, hand: Hand) -> BrokerState:
    """Any flag may be toggled: of leased entries, and of rounds; or the table that is built, and the fenced brokers."""
    if hand.trees:
        former = _rebuild_of(state)
        fenced = [[node for node in hand.nodes if hand.strikes] for _ in Parity]
        building = hand.parity() if hand.strikes else former.building
        struck = replace(former, building=building, fenced=fenced)
        return _with_machine(state, Rebuild.name, _without_evidence(struck, hand) if former.wave else struck)
    state = _in_all_tables(state, hand, _toggled)
    rounds = {node: hand.stream.random() < 0.5 for node in hand.nodes if hand.strikes}
    return replace(state, router=replace(state.router, rounds={**state.router.rounds, **rounds}))


def _without_evidence(former: PacedState, hand: Hand) -> PacedState:
    """Which neighbours have completed their round; absent ones are looked up again at every heartbeat."""
    awaited, whole = (dict.fromkeys(sorted(n for n in hand.nodes if hand.strikes)) for _ in range(2))
    wave, is_overdue = hand.number() if hand.strikes else former.wave, former.is_overdue != hand.strikes
    return replace(former, wave=max(wave, FIRST_WAVE), is_overdue=is_overdue, awaited=awaited, whole=whole)


def _toggled(_layer: Layer, former: PropagationState, hand: Hand) -> PropagationState:
    toggled: dict[Node, list[Entry]] = {}
    for source, entries in former.received.items():
        stale = frozenset(former.stale.get(source, ()))
        toggled[source] = [entry for entry in entries if (entry in stale) != hand.strikes]
    return replace(former, stale=toggled)


def waits(state: BrokerState, hand: Hand) -> BrokerState:
    """Pending requests, and their numbers."""
    return _in_all_tables(state, hand, _struck_waits)


def _struck_waits(layer: Layer, former: PropagationState, hand: Hand) -> PropagationState:
    neighbours = sorted(former.installs)
    installs = {n: hand.number() if hand.strikes else number for n, number in former.installs.items()}
    unanswered = {
        n: sorted({*_left(of, hand), *(hand.number() for _ in hand.some())}) for n, of in former.unanswered.items()
    }
    kept = [(ticket, needs) for ticket, needs in former.waits if not hand.strikes]
    for _ in hand.some() if neighbours else ():
        token = hand.stream.choice((hand.number(), "s1"))
        need = Need(hand.stream.choice(neighbours), hand.number(), hand.stream.random() < 0.5)
        kept.append((Ticket(layer, hand.stream.choice((*hand.nodes, "nobody")), token), [need]))
    settles = {n: _left(of, hand) for n, of in former.settles.items()}
    return replace(former, installs=installs, unanswered=unanswered, waits=kept, settles=settles)


def _left(numbers: Sequence[int], hand: Hand) -> list[int]:
    return [number for number in numbers if not hand.strikes]


# Clients and clocks -------------------------------------------------------------------------------------------


def clock(state: BrokerState, hand: Hand) -> BrokerState:
    """The timers are due at any time."""
    times = [any_time(hand) for _ in range(2)]
    if hand.trees:
        return _with_machine(state, Rebuild.name, replace(_rebuild_of(state), switch_after=times[0]))
    away = unpack(state.machines[Leases.name], LeasesState).away
    return _with_machine(state, Leases.name, LeasesState(times[0], times[1], away))


def any_time(hand: Hand) -> float:
    strange = [float("nan"), float("inf"), -1.0, 0.0, 1e300]
    return hand.stream.choice((*strange, *(hand.stream.uniform(0.0, 10.0) for _ in strange)))


def clients(state: BrokerState, hand: Hand) -> BrokerState:
    """Clients are lost; names are lost, replaced or forged."""
    return replace(state, clients=damaged_clients(state.clients, hand))


def damaged_clients(known: Mapping[Node, ClientState], hand: Hand) -> dict[Node, ClientState]:
    sessions: dict[Node, ClientState] = {}
    for client in hand.clients:
        former = known.get(client, ClientState(True, {}, {}, {}))  # noqa: FBT003 the struct is positional
        if hand.strikes and hand.stream.random() < 0.3:
            continue
        wanted = _struck_names(former.subscriptions, hand)
        own = former.own_events != hand.strikes
        advertised, confirmed = former.advertisements, former.confirmed
        if Layer.ADVERTISEMENTS in hand.layers:
            advertised = _struck_names(advertised, hand)
            confirmed = {name: None for name in ("ghost0", *advertised) if (name in confirmed) != hand.strikes}
        sessions[client] = ClientState(own, wanted, advertised, confirmed, former.access)
    return sessions


def _struck_names(former: Mapping[str, Filter], hand: Hand) -> dict[str, Filter]:
    names = {name: wanted for name, wanted in former.items() if not hand.strikes}
    altered = {name: hand.stream.choice(hand.filters) for name in names if hand.strikes}
    ghosts = {f"ghost{i}": hand.stream.choice(hand.filters) for i in hand.some()}
    return {**names, **altered, **ghosts}


# All of it ----------------------------------------------------------------------------------------------------


def everything(state: BrokerState, hand: Hand) -> BrokerState:
    return clock(all_but_the_clock(state, hand), hand)


def all_but_the_clock(state: BrokerState, hand: Hand) -> BrokerState:
    for part in (table, flags, clients, waits):
        state = part(state, hand)
    return state


def _in_all_tables(state: BrokerState, hand: Hand, damage: LayerDamage) -> BrokerState:
    if not hand.trees:
        return replace(state, router=_in_layers(state.router, hand, damage))
    former = _rebuild_of(state)
    tables = [(tree, parity, _in_layers(each, hand, damage)) for tree, parity, each in former.tables]
    return _with_machine(state, Rebuild.name, replace(former, tables=tables))


def _in_layers(router: RouterState, hand: Hand, damage: LayerDamage) -> RouterState:
    """Rebuilt tables always include advertisements."""
    for layer in Layer if hand.trees else hand.layers:
        router = _with_layer(router, layer, damage(layer, _layer(router, layer), hand))
    return router


def _rebuild_of(state: BrokerState) -> PacedState:
    """Of either kind: where rounds go by time alone, there is no more than in `RebuildState`."""
    return unpack(state.machines[Rebuild.name], PacedState)


def _with_machine(state: BrokerState, name: str, machine: object) -> BrokerState:
    return replace(state, machines={**state.machines, name: pack(machine)})


def _layer(router: RouterState, layer: Layer) -> PropagationState:
    return router.subscriptions if layer is Layer.SUBSCRIPTIONS else router.advertisements


def _with_layer(router: RouterState, layer: Layer, changed: PropagationState) -> RouterState:
    if layer is Layer.SUBSCRIPTIONS:
        return replace(router, subscriptions=changed)
    return replace(router, advertisements=changed)


PARTS: Mapping[str, Damage] = MappingProxyType(
    {
        "table": table,
        "flags": flags,
        "clock": clock,
        "clients": clients,
        "waits": waits,
        "all": everything,
        "all-but-the-clock": all_but_the_clock,
    }
)
