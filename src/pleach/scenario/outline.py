"""The tree of a scenario, and where its clients begin, as a text that travels with its trace (`about` of the run).

A trace tells what was sent, not over what; whoever draws the run needs to know.
"""

from __future__ import annotations

import msgspec

from pleach.messages import Node
from pleach.scenario.model import Scenario

OUTLINE = "outline"  # its key in `about`


class Outline(msgspec.Struct, frozen=True):
    brokers: tuple[Node, ...]
    links: tuple[tuple[Node, Node], ...]
    homes: dict[Node, Node]  # client: broker


def outline(scenario: Scenario) -> str:
    homes = {client.id: client.broker for client in scenario.clients}
    return msgspec.json.encode(Outline(tuple(scenario.brokers), tuple(scenario.links), homes)).decode()


def read_outline(text: str) -> Outline | None:
    """None where there is none, or one of another release."""
    try:
        return msgspec.json.decode(text, type=Outline)
    except msgspec.DecodeError:
        return None
