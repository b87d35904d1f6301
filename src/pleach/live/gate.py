"""The door in front of a broker machine: counts what passes, and refuses publishes while the disk is full.

A refused publish never reaches the broker, so that nothing of it has to be undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from pleach.broker import Broker
from pleach.effects import Effect, Send
from pleach.live.config import NAME_BYTES_MAX
from pleach.live.metrics import Counters
from pleach.messages import Advertise, Deliver, Forward, Message, Node, Publish, PublishRefused, Refused, Subscribe
from pleach.runs import Passed, Run


class Gate:
    """A broker, as an endpoint drives it."""

    def __init__(self, broker: Broker, counters: Counters) -> None:
        self.broker = broker
        self.publishers: dict[Node, None] = {}  # clients that have published: who is not read from when it gets tight
        self.closed = ""  # why publishes are refused; empty: they are not
        self._counters = counters

    @property
    def name(self) -> Node:
        return self.broker.name

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        match message:
            case Publish(event) if self.closed:
                self._counters.refused += 1
                return [Send(sender, PublishRefused(event.id, self.closed))]
            case Publish():
                self.publishers[sender] = None
                return self._route(sender, message, now)
            case Forward():
                return self._route(sender, message, now)
            case Subscribe(name) | Advertise(name) if len(name.encode()) > NAME_BYTES_MAX:
                return [Send(sender, Refused(name, f"its name is longer than {NAME_BYTES_MAX} bytes"))]
            case _:
                return self.broker.handle(sender, message, now=now)

    def handle_run(self, sender: Node, run: Run) -> Passed | None:
        if run.kind is Publish:
            if self.closed:
                return None
            self.publishers[sender] = None
        started = perf_counter()
        passed = self.broker.handle_run(sender, run)
        if passed is None:
            return None
        counters = self._counters
        counters.match_seconds += perf_counter() - started
        counters.matches += run.count
        counters.deliveries += sum((span.end - span.start) * len(span.clients) for span in passed.spans)
        counters.publishes += run.count if run.kind is Publish else 0
        return passed

    def _route(self, sender: Node, message: Message, now: float) -> Sequence[Effect]:
        started = perf_counter()
        effects = self.broker.handle(sender, message, now=now)
        counters = self._counters
        counters.match_seconds += perf_counter() - started
        counters.matches += 1
        kinds = [effect.message.__class__ for effect in effects if isinstance(effect, Send)]
        counters.deliveries += kinds.count(Deliver)
        if isinstance(message, Publish):
            is_refused = kinds[-1:] == [PublishRefused]  # the answer to the publisher comes last
            counters.refused += is_refused
            counters.publishes += not is_refused
        return effects

    def peer_reborn(self, peer: Node) -> Sequence[Effect]:
        self.publishers.pop(peer, None)
        return self.broker.peer_reborn(peer)

    def is_changed_by(self, message: Message) -> bool:
        """A publish that is refused here changes nothing, and must not be handled when the journal is read again."""
        if self.closed and isinstance(message, Publish):
            return False
        return self.broker.is_changed_by(message)

    def capture(self) -> bytes:
        return self.broker.capture()

    def restore(self, data: bytes) -> None:
        self.broker.restore(data)
