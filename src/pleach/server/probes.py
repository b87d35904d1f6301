"""Detection of cycles: each broker sends a probe over each of its links; in a tree none ever comes back.

    a ── b      a's probe over b comes back over c: the path says which links make up the cycle. All of its brokers find
     ╲   │      the same one, so the one with the smallest name acts, and the others only log it: it closes its link to
       ─ c      the larger of its two neighbours there, and keeps it closed. What is queued for that link stays queued.

Rule 1: a probe is a frame, neither numbered by a session nor kept: one that is lost is sent again a little later.
Rule 2: a broker that has relayed a probe relays only later ones of the same sender, so that none circulates for ever.
        Of two that meet in a cycle, one from either side, the later one passes and comes back.
Rule 3: a reconfiguration makes its brokers a cycle for a moment. So a probe counts only if its sender has taken part
        in none since it was sent; brokers that only relay it do not matter, by rule 2.

docs/decisions/0009-cycles.md tells why.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pleach.core.links.frames import PROBE_PATH_MAX, ByeReason, Frame, Hello, Probe
from pleach.core.messages import Node
from pleach.server.feature import Feature, HelloRefusal
from pleach.server.links import Port
from pleach.server.parts import NodeParts

PROBE_SECONDS = 10.0  # between rounds of probes; and one whenever other links are up
FOUND_SECONDS = 3 * PROBE_SECONDS  # a cycle that was not found again for this long is none any more
SEEN_MAX = 10_000  # brokers whose last probe is remembered

log = logging.getLogger(__name__)


class Probes(Feature):
    frames = (Probe,)

    def __init__(self, parts: NodeParts, *, number: int) -> None:
        """`number`: higher than those of former processes of this broker."""
        self._broker, self._links, self._operations = parts.broker, parts.links, parts.operations
        self._number = number
        self._sent_at = 0.0
        self._sent: dict[int, Node] = {}  # the probes of the last round
        self._states_seen = 0  # of reconfigurations, when they were sent
        self._seen: dict[Node, int] = {}  # the last probe of each other broker
        self._found_at = 0.0
        self.cycle: tuple[Node, ...] = ()
        self.closed: Node | None = None  # the neighbour to which there must be no link

    def why_closed(self, peer: Node) -> str:
        """Why there must be no link to a broker; empty: there may be one."""
        if peer != self.closed:
            return ""
        return f"the links {spelled(self.cycle)} are a cycle: take one of them out of the settings"

    def refuse_hello(self, hello: Hello, port: Port) -> HelloRefusal | None:
        reason = self.why_closed(hello.node)
        return HelloRefusal(ByeReason.REFUSED, reason) if reason else None

    def unready(self) -> str:
        return f"a cycle of links: {spelled(self.cycle)}" if self.cycle else ""

    def tick(self, now: float) -> None:
        if self.cycle and self.closed is None and now - self._found_at > FOUND_SECONDS:
            log.warning("the links %s are no cycle any more", spelled(self.cycle))
            self.cycle = ()
        up = self._links_up()
        if self._is_quiet() and (now - self._sent_at >= PROBE_SECONDS or up != sorted(self._sent.values())):
            self._sent_at, self._sent, self._states_seen = now, {}, self._operations.states_seen
            for neighbour in up:
                self._number += 1
                self._sent[self._number] = neighbour
                self._send(neighbour, Probe(self._number, [self._broker.name]))

    def frame_received(self, peer: Node, frame: Frame, now: float) -> None:
        if isinstance(frame, Probe):
            self.probe_received(peer, frame, now)

    def probe_received(self, peer: Node, probe: Probe, now: float) -> None:
        sender = probe.path[0]
        if peer not in self._broker.router.neighbours or probe.path[-1] != peer:
            return
        if sender == self._broker.name:
            self._returned(peer, probe, now)
        elif self._seen.get(sender, 0) < probe.number and len(probe.path) < PROBE_PATH_MAX:
            self._relay(peer, probe)

    def _relay(self, peer: Node, probe: Probe) -> None:
        if len(self._seen) >= SEEN_MAX:
            self._seen.clear()
        self._seen[probe.path[0]] = probe.number
        for neighbour in self._links_up():
            if neighbour != peer:
                self._send(neighbour, Probe(probe.number, [*probe.path, self._broker.name]))

    def _returned(self, peer: Node, probe: Probe, now: float) -> None:
        over = self._sent.get(probe.number)
        is_settled = {peer, over} <= {*self._sent.values()} and self._links_up() == sorted(self._sent.values())
        is_settled = is_settled and self._states_seen == self._operations.states_seen
        if over is None or over == peer or not is_settled or not self._is_quiet():
            return
        self._found_at = now
        if self.cycle:
            return
        self.cycle = tuple(probe.path)
        log.critical("%s; events would run round in it: take one of them out of the settings", self.unready())
        if self._broker.name == min(self.cycle):
            self._close(max(peer, over))

    def _close(self, neighbour: Node) -> None:
        self.closed = neighbour
        log.critical("the link to %s is closed, and stays closed until a restart", neighbour)
        self._links[neighbour].wire.close(self.why_closed(neighbour))

    def _links_up(self) -> list[Node]:
        return [n for n in sorted(self._broker.router.neighbours) if self._links.is_up(n) and n in self._links]

    def _is_quiet(self) -> bool:
        return self._broker.seam.is_idle and not self._broker.operation

    def _send(self, neighbour: Node, probe: Probe) -> None:
        self._links[neighbour].wire.send(probe)


def spelled(cycle: Sequence[Node]) -> str:
    return " – ".join((*cycle, cycle[0]))
