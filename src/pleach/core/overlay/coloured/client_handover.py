"""Handover of the clients of a leaving broker to its parent (in S1 only brokers without clients leave).

   client ── request ──▶ leaving ── OnBehalf(request) ──▶ parent     from the recolouring that announces it
   client ◀── events of the old trees ── leaving
   client ◀ ─ ─ ─ ─ ─ ─ ─ ─ events of the next tree ─ ─ ─ parent     held by the client until …
   client ◀── Redirect ── leaving                                    … all of the old trees has arrived
   client ── Farewell ──▶ leaving ── OnBehalf(Farewell) ──▶ parent
   client ── request ─────────────────────────────────────▶ parent   held there until the Farewell arrives

An event has one colour, so it comes from one of the two brokers: none is lost or doubled. The client gets the events of
the leaving broker first, and the parent gets the client's requests in the order in which they were made.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pleach.core.messages import ClientRequest, Node

TURNS_MAX: Final = 2  # recolourings that a client waits for its Farewell


class HandoverState(msgspec.Struct, array_like=True):
    """`relay`: the broker that gets our clients' requests if we leave. `turns`: remaining, per arriving client."""

    relay: Node = ""
    turns: dict[Node, int] = msgspec.field(default_factory=dict)
    kept: list[tuple[Node, ClientRequest]] = msgspec.field(default_factory=list)


class ClientHandover:
    def __init__(self) -> None:
        self.state = HandoverState()

    def announce(self, client: Node) -> bool:
        """Note a client that will arrive; whether it is new."""
        is_new = client not in self.state.turns
        self.state.turns[client] = TURNS_MAX
        return is_new

    def keeps(self, client: Node, request: ClientRequest) -> bool:
        """Whether a request must wait for earlier requests at the former broker; if so, it is kept."""
        if client not in self.state.turns:
            return False
        self.state.kept.append((client, request))
        return True

    def arrived(self, client: Node) -> list[ClientRequest]:
        """All requests from the former broker have arrived: the kept requests of the client, in order."""
        self.state.turns.pop(client, None)
        waiting = [request for who, request in self.state.kept if who == client]
        self.state.kept = [(who, request) for who, request in self.state.kept if who != client]
        return waiting

    def turn(self) -> list[Node]:
        """A recolouring: the clients whose Farewell did not arrive; a fault may have cut off their former broker."""
        for client in self.state.turns:
            self.state.turns[client] -= 1
        return [client for client, left in sorted(self.state.turns.items()) if left <= 0]
