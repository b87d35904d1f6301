"""Links between brokers that are refused for a reason which goes away by no retry: an operator is told on both sides.

Rule 1: a reason is known until the two link, or are neighbours no more. The broker is not ready meanwhile.
Rule 2: of a neighbour that is connected nothing is said: somebody else was refused who has its name.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import ClassVar

from pleach.core.links.frames import Bye, ByeReason, Frame, Hello
from pleach.core.messages import Node
from pleach.net.printable import printable
from pleach.server.feature import Feature, HelloRefusal
from pleach.server.metrics import MetricSample
from pleach.server.parts import NodeParts

FOR_OPERATORS = (ByeReason.DIFFERENT, ByeReason.REPLACED)
REASON_CHARACTERS_MAX = 1_000  # of what a neighbour says

log = logging.getLogger(__name__)


class RefusedLinks(Feature):
    frames: ClassVar[tuple[type[Frame], ...]] = (Hello, Bye)

    def __init__(self, parts: NodeParts) -> None:
        self._name, self._directory, self._links = parts.broker.name, parts.directory, parts.links
        self._reasons: dict[Node, str] = {}  # by neighbour

    def refused(self, peer: Node, refusal: HelloRefusal) -> None:
        """This broker has refused one."""
        if refusal.why in FOR_OPERATORS:
            self._note(peer, refusal.reason)

    def frame_received(self, peer: Node, frame: Frame, now: float) -> None:
        """A Hello that is handed on is one that is let in."""
        if isinstance(frame, Bye) and frame.why in FOR_OPERATORS:
            self._note(peer, printable(frame.reason[:REASON_CHARACTERS_MAX]))
        elif isinstance(frame, Hello) and self._reasons.pop(peer, ""):
            log.info("%s and %s link again", self._name, peer)

    def _note(self, peer: Node, reason: str) -> None:
        if self._directory.is_broker(peer) and self._reasons.get(peer) != reason:
            log.error("no link to %s: %s", peer, reason)
            self._reasons[peer] = reason

    def unready(self) -> str:
        return "; ".join(self._current().values())

    def status(self) -> dict[str, object]:
        return {"refused": self._current()}

    def gauges(self) -> dict[str, Sequence[MetricSample]]:
        return {"pleach_link_refused": [MetricSample(1, peer) for peer in self._current()]}

    def _current(self) -> dict[Node, str]:
        down = (peer for peer in self._reasons if self._directory.is_linked(peer) and not self._links.is_up(peer))
        return {peer: self._reasons[peer] for peer in down}
