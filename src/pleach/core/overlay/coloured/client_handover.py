"""Clients of a broker that leaves: they go to its parent, and notice nothing (S1 has brokers without clients leave).

   client ── request ──▶ leaving ── OnBehalf(request) ──▶ parent     from the recolouring that says so
   client ◀── events of the old trees ── leaving
   client ◀ ─ ─ ─ ─ ─ ─ ─ ─ events of the next tree ─ ─ ─ parent     which the client keeps, until …
   client ◀── Redirect ── leaving                                    … all of the old trees has come
   client ── Farewell ──▶ leaving ── OnBehalf(Farewell) ──▶ parent
   client ── request ─────────────────────────────────────▶ parent   which keeps it, until the farewell has come

An event has one colour, so it comes from one of the two: none is lost or doubled. The client has the events of the
leaving broker first; and its parent has the client's requests in the order in which they were made.
"""

from __future__ import annotations

from typing import Final

import msgspec

from pleach.core.messages import ClientRequest, Node

TURNS_MAX: Final = 2  # that a client is kept waiting for a farewell: its last request there is less than one before it


class HandoverState(msgspec.Struct, array_like=True):
    """`relay`: who gets what this broker's clients ask for, if it leaves. `turns`: left, of each client to come."""

    relay: Node = ""
    turns: dict[Node, int] = msgspec.field(default_factory=dict)
    kept: list[tuple[Node, ClientRequest]] = msgspec.field(default_factory=list)


class ClientHandover:
    def __init__(self) -> None:
        self.state = HandoverState()

    def announce(self, client: Node) -> bool:
        """A client is about to come; whether that is news."""
        is_new = client not in self.state.turns
        self.state.turns[client] = TURNS_MAX
        return is_new

    def keeps(self, client: Node, request: ClientRequest) -> bool:
        """Whether a request has to wait for what the client has asked for elsewhere before; it is kept then."""
        if client not in self.state.turns:
            return False
        self.state.kept.append((client, request))
        return True

    def arrived(self, client: Node) -> list[ClientRequest]:
        """All that the client asked for elsewhere has come: what it has asked for here meanwhile, in order."""
        self.state.turns.pop(client, None)
        waiting = [request for who, request in self.state.kept if who == client]
        self.state.kept = [(who, request) for who, request in self.state.kept if who != client]
        return waiting

    def turn(self) -> list[Node]:
        """A recolouring: who has been waited for in vain. A fault may have cut off the one that they come from."""
        for client in self.state.turns:
            self.state.turns[client] -= 1
        return [client for client, left in sorted(self.state.turns.items()) if left <= 0]
