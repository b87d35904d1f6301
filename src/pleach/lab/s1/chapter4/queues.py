"""How long events wait in the queues of a reconfiguration: from when a broker holds one until it lets it go."""

from __future__ import annotations

from collections.abc import Sequence

from pleach.core.broker import Broker
from pleach.core.effects import Effect
from pleach.core.messages import Forward, Marked, Message, Node
from pleach.sim.run import ScenarioRun


class Queues:
    """Put this beside a run before it begins."""

    def __init__(self, run: ScenarioRun) -> None:
        self.waited: list[float] = []  # seconds, of each event that was held, in the order in which they went on
        for name, broker in run.brokers.items():
            if isinstance(broker, Broker):  # those of a coloured network hold without a seam
                run.sim.add(name, _Watched(broker, self.waited))


class _Watched:
    """A broker, and since when it holds what it holds."""

    def __init__(self, broker: Broker, waited: list[float]) -> None:
        self._broker = broker
        self._waited = waited
        self._count = 0
        self._since: dict[tuple[Node, str], float] = {}

    def handle(self, sender: Node, message: Message, *, now: float) -> Sequence[Effect]:
        effects = self._broker.handle(sender, message, now=now)
        self._look(now)
        return effects

    def handle_timer(self, name: str, *, now: float) -> Sequence[Effect]:
        effects = self._broker.handle_timer(name, now=now)
        self._look(now)
        return effects

    def _look(self, now: float) -> None:
        """What is held changes by one at a time, or all of it goes: the count tells whether to look."""
        count = self._broker.seam.held_count
        if count == self._count:
            return
        self._count = count
        held = self._broker.seam.held_events()
        present = {(link, _event_of(message)) for link, messages in held.items() for message in messages}
        gone = [key for key in self._since if key not in present]
        self._waited += [now - self._since.pop(key) for key in gone]
        for key in sorted(present - self._since.keys()):
            self._since[key] = now


def _event_of(message: Message) -> str:
    match message:
        case Forward(event) | Marked(message=Forward(event)):
            return str(event.id)
        case _:
            return ""
