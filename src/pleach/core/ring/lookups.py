"""Finding the owner of a key.

    recursive    I ──▶ x ──▶ y ──▶ owner ──▶ I              one message per hop and one back
    iterative    I ⇄ x,  I ⇄ y,  I ⇄ owner                  two per hop; I see who does not answer

A look-up begins recursively, unless it is told otherwise. If no answer comes it goes on iteratively: whoever does not
answer is left out, and the one before is asked for another way.

Rule 1: only the owner itself answers, with what it owns: nobody can be found who is gone.
Rule 2: a host that is taken for the owner, and is not, passes on to its predecessor: a newcomer lies between.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from pleach.core.messages import AskHop, FindOwner, KeyOwner, NextHop, Peer
from pleach.core.ring.config import RingConfig
from pleach.core.ring.effects import Cast, OwnerFound, OwnerNotFound, Purpose, RingEffect
from pleach.core.ring.keys import Arc
from pleach.core.ring.pending_answers import PendingAnswers
from pleach.core.ring.view import Hop, RingView

HOPS_MAX: Final = 200
SILENT_MAX: Final = 6  # hosts that do not answer, before a look-up is given up


class Mode(StrEnum):
    RECURSIVE = "recursive"
    ITERATIVE = "iterative"


class Lookup(msgspec.Struct, frozen=True):
    """`path`: who was asked, in turn, the one that I wait for last. `silent`: keys of those who did not answer."""

    key: int
    purpose: Purpose
    mode: Mode
    path: tuple[Hop, ...] = ()
    silent: tuple[int, ...] = ()
    hops: int = 0


class Lookups:
    def __init__(self, config: RingConfig, view: RingView, requests: PendingAnswers[object]) -> None:
        self._config = config
        self._view = view
        self._requests = requests

    def start(self, key: int, purpose: Purpose, mode: Mode, now: float) -> list[RingEffect]:
        view = self._view
        if key in view.arc:
            return [OwnerFound(key, view.me, view.predecessor.key, 0, purpose)]
        lookup = Lookup(key, purpose, mode)
        hop = view.next_hop(key)
        if hop is None:
            return [OwnerNotFound(key, purpose)]
        if mode is Mode.ITERATIVE:
            return self._ask(lookup, hop, now)
        ticket = self._requests.issue(lookup, self._config.find_within, now)
        return [Cast(hop.peer, FindOwner(key, ticket, view.me, 1, hop.is_last))]

    def found(self, message: KeyOwner) -> list[RingEffect]:
        lookup = self._requests.take(message.ticket)
        if not isinstance(lookup, Lookup) or lookup.key not in Arc(self._view.circle, message.low, message.owner.key):
            return []
        hops = message.hops if lookup.mode is Mode.RECURSIVE else lookup.hops
        return [OwnerFound(lookup.key, message.owner, message.low, hops, lookup.purpose)]

    def overdue(self, lookup: Lookup, now: float) -> list[RingEffect]:
        if lookup.mode is Mode.RECURSIVE:  # somebody on the way is gone, and only that one's neighbours could say who
            return self._try_from_here(msgspec.structs.replace(lookup, mode=Mode.ITERATIVE), now)
        *path, silent = lookup.path
        self._view.unpoint(silent.peer.key)
        return self._try_another(
            msgspec.structs.replace(lookup, path=tuple(path), silent=(*lookup.silent, silent.peer.key)), now
        )

    # Iterative -----------------------------------------------------------------------------------------------

    def hop(self, message: NextHop, now: float) -> list[RingEffect]:
        lookup = self._requests.take(message.ticket)
        if not isinstance(lookup, Lookup):
            return []
        hop = Hop(message.peer, message.is_last)
        if hop.peer.key in lookup.silent or hop.peer == self._view.me:
            return self._try_another(msgspec.structs.replace(lookup, path=lookup.path[:-1]), now)
        return self._ask(lookup, hop, now)

    def _ask(self, lookup: Lookup, hop: Hop, now: float) -> list[RingEffect]:
        if lookup.hops >= HOPS_MAX:
            return [OwnerNotFound(lookup.key, lookup.purpose)]
        asked = msgspec.structs.replace(lookup, path=(*lookup.path, hop), hops=lookup.hops + 1)
        ticket = self._requests.issue(asked, self._config.answer_within, now)
        return [Cast(hop.peer, AskHop(lookup.key, ticket, self._view.me, list(lookup.silent), hop.is_last))]

    def _try_another(self, lookup: Lookup, now: float) -> list[RingEffect]:
        """Ask the one before for another way; the first of all is me."""
        if len(lookup.silent) > SILENT_MAX:
            return [OwnerNotFound(lookup.key, lookup.purpose)]
        if not lookup.path:
            return self._try_from_here(lookup, now)
        *path, before = lookup.path
        return self._ask(msgspec.structs.replace(lookup, path=tuple(path)), before, now)

    def _try_from_here(self, lookup: Lookup, now: float) -> list[RingEffect]:
        hop = self._view.next_hop(lookup.key, lookup.silent)
        return [OwnerNotFound(lookup.key, lookup.purpose)] if hop is None else self._ask(lookup, hop, now)

    # For others ----------------------------------------------------------------------------------------------

    def pass_on(self, message: FindOwner) -> list[RingEffect]:
        view = self._view
        if message.key in view.arc:
            return [Cast(message.origin, KeyOwner(message.ticket, view.me, view.predecessor.key, message.hops))]
        hop = self._hop(message.key, is_last=message.is_last)
        if hop is None or message.hops >= HOPS_MAX:
            return []
        passed = FindOwner(message.key, message.ticket, message.origin, message.hops + 1, hop.is_last)
        return [Cast(hop.peer, passed)]

    def tell_hop(self, message: AskHop) -> list[RingEffect]:
        view = self._view
        if message.key in view.arc:
            return [Cast(message.origin, KeyOwner(message.ticket, view.me, view.predecessor.key))]
        hop = self._hop(message.key, message.avoid, is_last=message.is_last)
        return [] if hop is None else [Cast(message.origin, NextHop(message.ticket, hop.peer, hop.is_last))]

    def _hop(self, key: int, avoid: list[int] | tuple[int, ...] = (), *, is_last: bool) -> Hop | None:
        if not is_last:
            return self._view.next_hop(key, avoid)
        before: Peer = self._view.predecessor
        return None if before.key in avoid else Hop(before, is_last=True)
