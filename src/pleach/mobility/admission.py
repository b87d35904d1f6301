"""Whether a broker takes a client in (S4 §3.1: it may be overloaded, or the client not allowed to come)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from pleach.messages import HandedClient, Node

CLIENTS_MAX = 100_000  # of one broker, where nobody says otherwise


class Arrival(NamedTuple):
    """A client that asks to come. `clients`: how many the broker has, with those that are on their way to it."""

    broker: Node
    clients: int
    client: HandedClient


Admit: TypeAlias = Callable[[Arrival], str]  # why not; empty: it may come


def up_to(clients_max: int) -> Admit:
    """As long as there is room."""

    def admit(arrival: Arrival) -> str:
        is_full = arrival.clients >= clients_max
        return f"{arrival.broker} has room for {clients_max} clients, and takes no more" if is_full else ""

    return admit
