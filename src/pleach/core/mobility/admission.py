"""Admission of clients that move to a broker (S4 §3.1: it may be overloaded, or the client not authorised)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from pleach.core.messages import HandedClient, Node

CLIENTS_MAX = 100_000  # of one broker, where nobody says otherwise
NAMES_MAX = 1_000_000  # subscriptions and advertisements of all of them


class Arrival(NamedTuple):
    """A client that is to be admitted.

    `clients`: how many the broker has, including those that are on their way to it. `names`: the number of their
    subscriptions and advertisements, including this client's; long ones count more than once.
    """

    broker: Node
    clients: int
    names: int
    client: HandedClient


Admit: TypeAlias = Callable[[Arrival], str]  # the reason for a refusal; empty if the client is admitted


def up_to(clients_max: int, names_max: int = NAMES_MAX) -> Admit:
    """Admission up to these numbers."""

    def admit(arrival: Arrival) -> str:
        if arrival.clients >= clients_max:
            return f"{arrival.broker} has room for {clients_max:,} clients, and takes no more"
        if arrival.names > names_max:
            return f"{arrival.broker} has room for {names_max:,} subscriptions and advertisements, and takes no more"
        return ""

    return admit
