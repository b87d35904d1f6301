"""What must hold between brokers whenever nothing is under way, beside what clients can see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pleach.core.messages import Layer, Node
from pleach.scenario.planted_bugs import BrokerMachine

TABLES_DISAGREE = "tables disagree"
NEVER_ANSWERED = "never answered"
NEVER_ENDED = "never ended"
STILL_LOCKED = "still locked"


FLAWS = (TABLES_DISAGREE, NEVER_ANSWERED, NEVER_ENDED, STILL_LOCKED)


def check(
    brokers: Mapping[Node, BrokerMachine], under_way: Sequence[str] = (), *, is_waiting: bool = False
) -> dict[str, str]:
    """What does not hold, by kind, with an explanation; empty if all is well.

    The two ends of a link agree on what was told over it, every request has been answered, no operation is stuck, and
    nobody is locked for one that has ended. `is_waiting`: a timer is set, so that nothing is stuck.
    """
    found: dict[str, str] = {}
    if under_way and not is_waiting:
        found[NEVER_ENDED] = f"operation {under_way[0]} neither ends nor waits for a timer"
    for name in sorted(brokers):
        operation = brokers[name].operation
        if operation and not under_way:
            found.setdefault(STILL_LOCKED, f"{name} stays locked for operation {operation}, which has ended")
        disagreement = _disagreement(brokers, name)
        if disagreement:
            found.setdefault(TABLES_DISAGREE, disagreement)
        waiting = _unanswered(brokers[name])
        if waiting:
            found.setdefault(NEVER_ANSWERED, waiting)
    return found


def _disagreement(brokers: Mapping[Node, BrokerMachine], name: Node) -> str:
    router = brokers[name].router
    for neighbour in router.neighbours:
        for layer in Layer:
            told = router.told(layer, neighbour)
            known = frozenset(brokers[neighbour].router.received_from(layer, name))
            if told != known:
                missing = ", ".join(e.filter.text for e in sorted(told - known)) or "nothing"
                stale = ", ".join(e.filter.text for e in sorted(known - told)) or "nothing"
                where = f"{layer.name.lower()} told by {name} to {neighbour}"
                return f"{where}: {neighbour} does not know {missing} and should have forgotten {stale}"
    return ""


def _unanswered(broker: BrokerMachine) -> str:
    state = broker.router.capture()
    for layer in (state.subscriptions, state.advertisements):
        for neighbour, numbers in sorted(layer.unanswered.items()):
            if numbers:
                return f"{broker.name} waits for ever for {neighbour} to confirm install {numbers[0]}"
        if layer.waits:
            return f"{broker.name} never confirms {layer.waits[0][0].token!r} to {layer.waits[0][0].requester}"
    return ""
