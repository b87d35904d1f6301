"""Service times of brokers: a constant per message, and a time per table entry where filters are compared.

With covering and merging a broker compares each subscription that comes or goes with those it has. The time for this
depends on the implementation: PADRES, which S4 measured, scans its table; ours has an index. So it is a parameter of
the scenario, and the broker contributes only the size of its table. Other policies compare nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pleach.core.messages import Install, InTable, Message, Node, Subscribe, Unsubscribe, Withdraw
from pleach.scenario.model import Routing, Scenario
from pleach.scenario.planted_bugs import BrokerMachine

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
