"""Components in a soak: running sums, which tell after each event which one it was and how many there have been.

    publisher ──▶ component, inside a broker, which moves ──▶ `sums`, `count`, `of` ──▶ a client that listens here

The judge sees what clients see, and a component is none. What it publishes is therefore heard by clients of their own,
and checked here: each event of the publisher once and in order, and each sum once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pleach.client.client import Client
from pleach.client.connect import connect
from pleach.core.effects import Observe, Observed
from pleach.core.events.event import Event, EventId
from pleach.core.messages import Node
from pleach.errors import LiveError
from pleach.harness.network import LiveNetwork
from pleach.net.http_client import ask
from pleach.soak.settings import COMPONENT

KIND = "running-sum"
START_SECONDS_MAX = 60.0
FAILED_MAX = 10_000  # publications that were refused, and that a sum may lack


@dataclass
class SumAudit:
    """What one component has told, against what its publisher has published. Sequences of events begin with 1."""

    component: Node
    count: int = 0
    sequence: int = 0  # of the last event that was summed
    published: int = 0  # the last sequence
    failed: set[int] = field(default_factory=set)
    skipped: set[int] = field(default_factory=set)  # not summed, and not known to have failed: that may be on its way

    def heard(self, count: int, of: EventId) -> str:
        """What is wrong with a sum; empty if nothing is."""
        expected, self.count = self.count + 1, count
        self.skipped.update(n for n in range(self.sequence + 1, of.sequence) if n not in self.failed)
        again, self.sequence = of.sequence <= self.sequence, max(self.sequence, of.sequence)
        if count != expected:
            return f"component {self.component}: sum {count} came, and {expected} was next"
        if of.sequence in self.failed:
            return f"component {self.component}: event {of} was summed, and its publication had failed"
        return f"component {self.component}: event {of} was summed again, or out of order" if again else ""

    def failed_to_publish(self, sequence: int) -> None:
        self.skipped.discard(sequence)
        if sequence > self.sequence and len(self.failed) < FAILED_MAX:
            self.failed.add(sequence)

    def missing(self) -> str:
        """What is wrong once all is quiet."""
        later = {n for n in range(self.sequence + 1, self.published + 1) if n not in self.failed}
        missing = sorted(self.skipped | later)
        if not missing:
            return ""
        return f"component {self.component}: {len(missing)} events were not summed, the first of them {missing[0]}"


class SoakComponents:
    """`topics`: what is summed up, each the name of a broker, whose publisher is `p-` and that name."""

    def __init__(self, network: LiveNetwork, topics: tuple[Node, ...], wrong: Callable[[str], None]) -> None:
        self._network = network
        self._wrong = wrong
        self.audits = {f"p-{topic}": SumAudit(f"{COMPONENT}{topic}") for topic in topics}
        self._listeners: list[Client] = []

    async def start(self) -> None:
        """Before anything is published."""
        for publisher, audit in self.audits.items():
            topic = audit.component.removeprefix(COMPONENT)
            await self._listen(audit, topic)
            body = {"name": audit.component, "kind": KIND, "subscribe": [f"topic = '{topic}'"]}
            admin = self._network.directory.admin[topic]
            answer = await ask(admin, "/components", body, seconds_max=START_SECONDS_MAX)
            if not answer.is_ok:
                raise LiveError(f"{topic} hosts no component for {publisher}: {answer.value}")

    async def _listen(self, audit: SumAudit, topic: Node) -> None:
        name = f"a-{topic}"
        address = f"pleach://{self._network.client_address(topic)}"
        client = await self._network.switch.dialling_as(name, lambda: connect(address, name=name))
        self._listeners.append(client)

        def heard(event: Event) -> None:
            reason = audit.heard(int(event.attributes["count"]), EventId.parse(str(event.attributes["of"])))
            if reason:
                self._wrong(reason)

        await client.subscribe(f"sums = '{audit.component}'", callback=heard)

    def observe(self, publisher: Node, seen: Observe) -> None:
        """A publication, or that one was refused."""
        audit = self.audits[publisher]
        event = seen.event.id if seen.event else EventId.parse(seen.event_id)
        if seen.kind is Observed.PUBLISH:
            audit.published = event.sequence
        else:
            audit.failed_to_publish(event.sequence)

    def check(self) -> None:
        """Once all is quiet."""
        for audit in self.audits.values():
            if reason := audit.missing():
                self._wrong(reason)

    async def close(self) -> None:
        for client in self._listeners:
            await client.close()
