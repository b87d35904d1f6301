"""Links that have been relayed for long are exchanged for ones that work, by a swap.

    r ── a ─ ✗ ─ b         becomes         r ── a         r is a's neighbour, and passes a–b on: b asks for the swap
                                           └─── b

Rule 1: the end decides that is not the relay's neighbour: its swap begins with itself. It need not know whether the
        relay is its peer's neighbour; if not, the swap is refused, and the link stays relayed for as long as it takes.
Rule 2: a swap that is refused, since somebody is busy for example, is asked for again as long after that.
Rule 3: where a ring's root makes the tree, links are its business: it would undo this.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from pleach.core.effects import Concluded
from pleach.core.messages import Node, RequestSwap
from pleach.errors import ProtocolError
from pleach.operate.operation import fresh_name
from pleach.server.bugs import watched
from pleach.server.feature import Feature
from pleach.server.parts import NodeParts
from pleach.server.relay.relayed_links import RelayedLinks
from pleach.server.relay.settings import RelaySettings

log = logging.getLogger(__name__)


class RelayReplacement(Feature):
    def __init__(self, parts: NodeParts, settings: RelaySettings, relayed: RelayedLinks) -> None:
        self._broker, self._links, self._operations = parts.broker, parts.links, parts.operations
        self._counters, ring = parts.counters.relay, parts.settings().ring
        self._after = 0.0 if ring is not None and ring.weave else settings.replace_seconds  # rule 3
        self._relayed = relayed
        self._asked_at: dict[Node, float] = {}

    def tick(self, now: float) -> None:
        if not self._after:
            return
        relayed = self._relayed.relayed_since
        self._asked_at = {peer: at for peer, at in self._asked_at.items() if peer in relayed}
        for peer, since in relayed.items():
            if now - max(since, self._asked_at.get(peer, 0.0)) >= self._after and self._may_decide(peer):
                self._asked_at[peer] = now
                self._replace(peer, self._links.relay_of(peer))
                return  # one at a time

    def _may_decide(self, peer: Node) -> bool:
        """Rule 1."""
        neighbours, relay = self._broker.router.neighbours, self._links.relay_of(peer)
        return bool(relay) and peer in neighbours and relay not in neighbours and not self._broker.operation

    def _replace(self, peer: Node, relay: Node) -> None:
        name = self._broker.name
        log.info("the link to %s has been relayed for long: it becomes one to %s", peer, relay)
        try:
            ending = self._operations.request(RequestSwap(fresh_name(), name, peer, relay))
        except ProtocolError as error:
            log.info("links do not change here: %s", error)
            self._after = 0.0
            return
        watched(self._concluded(peer, ending))

    async def _concluded(self, peer: Node, ending: Awaitable[Concluded]) -> None:
        end = await ending
        if end.refusal:
            log.info("the link to %s stays relayed: %s", peer, end.refusal)
        else:
            self._counters.relayed_replaced += 1
