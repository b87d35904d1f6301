"""How long a broker takes for a message: a time for each, and more where it has to compare filters.

A broker that tells its neighbours what others do not cover holds each subscription that comes or goes against those it
has. How long that takes depends on the implementation: PADRES, which S4 measured, goes through them, one after the
other; ours has an index. So it is a parameter of the scenario, and nothing of it is in the broker: only the size of
its table is asked for. A broker that tells its neighbours all compares nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pleach.core.messages import Install, InTable, Message, Node, Subscribe, Unsubscribe, Withdraw
from pleach.scenario.model import Routing, Scenario
from pleach.scenario.planted_bugs import BrokerMachine

# Seconds for a message whose turn it is.
Service: TypeAlias = Callable[[Message], float]

COMPARING = frozenset({Routing.COVERING, Routing.MERGING})
TABLE_WORK = (Subscribe, Unsubscribe, Install, Withdraw)


@dataclass(frozen=True)
class _Serving:
    """`per_entry`: seconds for each subscription that is looked at. A broker that starts again is another one."""

    name: Node
    brokers: Mapping[Node, BrokerMachine]
    per_message: float
    per_entry: float

    def __call__(self, message: Message) -> float:
        if not self.per_entry or not _is_table_work(message) or self.name not in self.brokers:
            return self.per_message
        return self.per_message + self.per_entry * self.brokers[self.name].router.subscription_count


def _is_table_work(message: Message) -> bool:
    """Where a broker has two tables, its neighbours say which of them they mean."""
    return isinstance(message.message if isinstance(message, InTable) else message, TABLE_WORK)


def service_of(scenario: Scenario, name: Node, brokers: Mapping[Node, BrokerMachine]) -> Service | None:
    """What a broker takes; none: it handles what arrives at once."""
    per_entry = scenario.service_per_entry if scenario.routing in COMPARING else 0.0
    return _Serving(name, brokers, scenario.service, per_entry) if scenario.service or per_entry else None
