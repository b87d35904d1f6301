"""[latency] and [loss]: a value for each link, by keys such as "a-b".

Names may contain the dash, so "a-b-c" can mean a and b-c, or a-b and c: what the scenario has decides, and
where it has both the key is refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from pleach.scenario.model import LATENCY_DEFAULT, PerLink, Scenario
from pleach.scenario.positions import FlawError
from pleach.scenario.read import Reader, all_known, fraction, read_table, span
from pleach.scenario.steps import AddBroker, Exchange, MoveClient, RemoveBroker, Swap
from pleach.scenario.values import Span

T = TypeVar("T")


class _Nodes(NamedTuple):
    """`links` are there from the start or come with a broker; others arise only where the tree changes."""

    brokers: frozenset[str]
    clients: frozenset[str]
    links: frozenset[frozenset[str]]
    has_changes: bool


def read_latency(value: Any, scenario: Scenario) -> PerLink[Span]:
    return _read("latency", value, scenario, span, LATENCY_DEFAULT)


def read_loss(value: Any, scenario: Scenario) -> PerLink[float]:
    loss = _read("loss", value, scenario, fraction, 0.0)
    for key, share in [("default", loss.default), *((f"{a}-{b}", share) for a, b, share in loss.links)]:
        if share == 1.0:
            reason = f"`loss.{key}` is 1: nothing would ever arrive; less than 1 is wanted, or a `cut` step"
            raise FlawError(("loss", key), reason)
    return loss


def _read(table: str, value: Any, scenario: Scenario, reader: Reader, default: T) -> PerLink[T]:
    given = {key: reader(item, (table, key)) for key, item in read_table(value, (table,)).items()}
    default = given.pop("default", default)
    nodes = _nodes(scenario)
    links: dict[frozenset[str], tuple[str, str, T]] = {}
    for key, setting in given.items():
        a, b = _ends(table, key, nodes)
        if frozenset((a, b)) in links:
            raise FlawError((table, key), f"[{table}] has link {a}-{b} twice; leave one out")
        links[frozenset((a, b))] = (a, b, setting)
    return PerLink(default, tuple(links.values()))


def _nodes(scenario: Scenario) -> _Nodes:
    added = [(step.broker, step.to) for step in scenario.steps if isinstance(step, AddBroker)]
    attachments = [(client.id, client.broker) for client in scenario.clients]
    return _Nodes(
        brokers=frozenset([*scenario.brokers, *(broker for broker, _ in added)]),
        clients=frozenset(client.id for client in scenario.clients),
        links=frozenset(frozenset(link) for link in [*scenario.links, *added, *attachments]),
        has_changes=scenario.improve is not None
        or any(isinstance(s, (Swap, Exchange, RemoveBroker, MoveClient)) for s in scenario.steps),
    )


def _ends(table: str, key: str, nodes: _Nodes) -> tuple[str, str]:
    """The link that a key means."""
    dashes = [i for i, character in enumerate(key) if character == "-"]
    pairs = [(key[:i], key[i + 1 :]) for i in dashes]
    meant = [pair for pair in pairs if frozenset(pair) in nodes.links]
    if not meant and nodes.has_changes:
        meant = [pair for pair in pairs if _could_be_linked(*pair, nodes)]
    if len(meant) > 1:
        shown = " or ".join(f"{a!r} and {b!r}" for a, b in meant)
        raise FlawError((table, key), f'"{key}" in [{table}] is ambiguous: {shown}; rename one of the nodes')
    if not meant:
        known = ["-".join(sorted(link)) for link in nodes.links]
        raise FlawError((table, key), f'"{key}" in [{table}] is not a link{all_known(["default", *known])}')
    return meant[0]


def _could_be_linked(a: str, b: str, nodes: _Nodes) -> bool:
    """Two brokers, or a client and a broker."""
    both_known = a in nodes.brokers | nodes.clients and b in nodes.brokers | nodes.clients
    return both_known and a != b and not (a in nodes.clients and b in nodes.clients)
