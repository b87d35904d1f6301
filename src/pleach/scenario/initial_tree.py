"""The tree of a scenario, and where its clients begin, as a text that travels with its trace (`about` of the run).

A trace tells what was sent, not over what; whoever draws the run needs to know.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pleach.core.messages import Node
from pleach.core.overlay.plans.topology import Link, Topology, link
from pleach.scenario.model import Scenario
from pleach.scenario.step_requests import ASKED, added, removed

OUTLINE = "outline"  # its key in `about`


class InitialTree(msgspec.Struct, frozen=True):
    brokers: tuple[Node, ...]
    links: tuple[tuple[Node, Node], ...]
    homes: dict[Node, Node]  # client: broker


def initial_tree(scenario: Scenario) -> str:
    homes = {client.id: client.broker for client in scenario.clients}
    return msgspec.json.encode(InitialTree(tuple(scenario.brokers), tuple(scenario.links), homes)).decode()


def read_initial_tree(text: str) -> InitialTree | None:
    """None where there is none, or one of another release."""
    try:
        return msgspec.json.decode(text, type=InitialTree)
    except msgspec.DecodeError:
        return None


def tree_after(begun: InitialTree, notes: Iterable[tuple[Node, str]]) -> Topology:
    """The tree at the end of a run. `notes`: of operations, as its trace has them (node, detail), in order."""
    links: dict[Link, None] = {link(a, b): None for a, b in begun.links}
    brokers = dict.fromkeys(begun.brokers)
    asked: dict[str, tuple[Node, str]] = {}
    for node, detail in notes:
        told = ASKED.fullmatch(detail)
        if told is None:
            continue
        name, text = told.groups()
        if name not in asked:
            asked[name] = node, text
        elif text == "done":
            _carry_out(*asked[name], links, brokers)
    return Topology.of(links, brokers)


def _carry_out(asked: Node, what: str, links: dict[Link, None], brokers: dict[Node, None]) -> None:
    gone = what.removeprefix("remove_broker ") if what.startswith("remove_broker ") else ""
    brokers.pop(gone, None)
    for each in [each for each in links if gone in each]:
        del links[each]
    if new := added(asked, what):
        links[link(*new)] = None
        brokers.update(dict.fromkeys(new))
    if old := removed(what):
        links.pop(link(*old), None)
