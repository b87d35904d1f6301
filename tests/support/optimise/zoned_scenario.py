"""Six brokers in three zones, in a chain that crosses zones at every link; most traffic stays within a zone."""

from itertools import combinations, pairwise

from pleach.core.optimise.cost import Flow
from pleach.core.optimise.prices import read_prices
from pleach.core.overlay.plans import Topology
from pleach.scenario import parse_scenario
from pleach.trace import RecordKind

CHAIN = ("a1", "b1", "c1", "a2", "b2", "c2")
NEAR, FAR = 1.0, 30.0  # milliseconds
DURATION = 8.0
CHANGE_AT, SETTLED_AT = 3.0, 5.0

PRICES = f"""
link = {FAR}
within = {NEAR}
processing = 0.1
[zones]
a = ["a1", "a2"]
b = ["b1", "b2"]
c = ["c1", "c2"]
"""


def prices():
    return read_prices(PRICES)


def scenario(exchanges=(), name="zones"):
    """`exchanges`: steps of a plan, carried out one after the other from CHANGE_AT on."""
    tree = Topology.of(pairwise(CHAIN))
    possible = combinations(CHAIN, 2) if exchanges else tree.links
    latencies = "\n".join(f'"{a}-{b}" = {_seconds(a, b)}' for a, b in possible)
    links = ", ".join(f'["{a}", "{b}"]' for a, b in tree.links)
    clients = "\n".join(_client(broker) for broker in CHAIN)
    steps = "\n".join(_step(index, each) for index, each in enumerate(exchanges))
    head = f'name = "{name}"\nrouting = "covering"\nexchange = "auto"\nlinks = [{links}]\nduration = {DURATION}'
    return parse_scenario(f"{head}\n[latency]\ndefault = 0.0005\n{latencies}\n{clients}\n{steps}", file=name)


def _seconds(a, b):
    return (NEAR if a[0] == b[0] else FAR) / 1_000


def _client(broker):
    zone = broker[0]
    return f"""
[[clients]]
id = "client-{broker}"
broker = "{broker}"
subscribe = ["zone = '{zone}'", "zone = 'world' AND urgent = {str(broker == "c2").lower()}"]
publish = [
  {{ every = 0.05, from = 0.5, attributes = {{ zone = "{zone}" }} }},
  {{ every = 0.4, from = 0.5, attributes = {{ zone = "world", urgent = {{ choice = [true, false] }} }} }},
]"""


def _step(index, exchange):
    (x, y), (u, v) = exchange
    at = CHANGE_AT + (SETTLED_AT - CHANGE_AT) * index / 10
    return f'[[steps]]\nat = {at}\ndo = "exchange"\nremove = ["{x}", "{y}"]\nadd = ["{u}", "{v}"]'


def flows_by_hand(records, homes):
    """Event by event; clients begin at `homes`, and move."""
    homes = dict(homes)
    published, delivered = {}, {}
    for record in records:
        if record.kind == RecordKind.MOVE:
            homes[record.who] = record.detail.rpartition(" to ")[2]
        elif record.kind == RecordKind.PUBLISH:
            published[record.event] = homes[record.who]
        elif record.kind == RecordKind.DELIVER:
            delivered.setdefault(record.event, set()).add(homes[record.who])
    counts = {}
    for event, publisher in published.items():
        key = publisher, frozenset(delivered.get(event, set()) - {publisher})
        counts[key] = counts.get(key, 0.0) + 1.0
    found = [Flow(publisher, subscribers, events) for (publisher, subscribers), events in counts.items()]
    return tuple(sorted(found, key=lambda flow: (flow.publisher, sorted(flow.subscribers))))


def homes_of(scenario):
    return {client.id: client.broker for client in scenario.clients}


def forwarded(records, *, since=0.0, until=float("inf")):
    """Hops of events between brokers, by link."""
    found = {}
    for record in records:
        if record.kind == RecordKind.SEND and record.message == "Forward" and since <= record.at < until:
            ends = tuple(sorted((record.node, record.peer)))
            if not {*ends} - {*CHAIN}:
                found[ends] = found.get(ends, 0) + 1
    return found
