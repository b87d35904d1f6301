"""Service times of brokers, and queues of messages that wait for service.

Without a service time a node handles any number of messages at once, so a flood costs no time. With one, messages wait
while the node is busy, as they do at real brokers. With covering and merging a broker also compares each subscription
that comes or goes with those it has. The time for this depends on the implementation: PADRES, which S4 measured, scans
its table; ours has an index. So it is a parameter of the scenario, and the broker contributes only the size of its
table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pleach.core.messages import Install, InTable, Message, Node, Subscribe, Unsubscribe, Withdraw
from pleach.scenario.model import Routing, Scenario
from pleach.scenario.planted_bugs import BrokerMachine
from pleach.sim.links import SimLink

# Calls a function that many seconds from now.
Later = Callable[[float, Callable[[], None]], None]


@dataclass
class ServiceQueue:
    """`seconds`: the service time of a message."""

    seconds: Callable[[Message], float]
    later: Later
    hand_over: Callable[[SimLink, Message], None]
    _waiting: deque[tuple[SimLink, Message]] = field(default_factory=deque)
    _is_busy: bool = False

    def take(self, link: SimLink, message: Message) -> None:
        self._waiting.append((link, message))
        if not self._is_busy:
            self._serve_next()

    def _serve_next(self) -> None:
        self._is_busy = True
        _, message = self._waiting[0]
        self.later(self.seconds(message), self._handle)

    def _handle(self) -> None:
        self._is_busy = False
        if not self._waiting:  # it was removed meanwhile
            return
        link, message = self._waiting.popleft()
        if self._waiting:
            self._serve_next()
        if link.blocked:  # the node is down or the link is cut: the message has not arrived
            link.kept.append(message)
        else:
            self.hand_over(link, message)

    def has_waiting(self, link: SimLink) -> bool:
        return any(over is link for over, _ in self._waiting)

    def take_away(self, link: SimLink) -> list[Message]:
        """Remove the messages of a link that still wait; returns them in order."""
        found = [message for over, message in self._waiting if over is link]
        self._waiting = deque((over, message) for over, message in self._waiting if over is not link)
        return found


# Seconds of work for a message.
Service: TypeAlias = Callable[[Message], float]

COMPARING = frozenset({Routing.COVERING, Routing.MERGING})
TABLE_WORK = (Subscribe, Unsubscribe, Install, Withdraw)


@dataclass(frozen=True)
class _Serving:
    """`per_entry`: seconds per subscription that is compared. Restarts replace the machine in `brokers`."""

    name: Node
    brokers: Mapping[Node, BrokerMachine]
    per_message: float
    per_entry: float

    def __call__(self, message: Message) -> float:
        if not self.per_entry or not _is_table_work(message) or self.name not in self.brokers:
            return self.per_message
        return self.per_message + self.per_entry * self.brokers[self.name].router.subscription_count


def _is_table_work(message: Message) -> bool:
    """Brokers with two tables wrap messages in the table that they are for."""
    return isinstance(message.message if isinstance(message, InTable) else message, TABLE_WORK)


def service_of(scenario: Scenario, name: Node, brokers: Mapping[Node, BrokerMachine]) -> Service | None:
    """The service time of a broker; None if it takes no time."""
    per_entry = scenario.service_per_entry if scenario.routing in COMPARING else 0.0
    return _Serving(name, brokers, scenario.service, per_entry) if scenario.service or per_entry else None
