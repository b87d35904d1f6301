"""Agreement of neighbours on the settings of their network: brokers that differ refuse each other, and say in what.

A broker counts on what its neighbours do with subscriptions and events. One that tells them to its parent only and one
that tells everybody, for example, would link, and no event would come through. So each Hello between brokers has the
settings (`BrokerSettings.agreed`), and whoever reads one that differs refuses the link.

Leases are added to a network broker by broker: who has none takes renewals, and renews nothing, so that nothing of it
expires at its neighbours. So brokers with and without them link (`TOGETHER`).

What only one of two brokers tells is not compared: the other one is of a release that does not know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pleach.core.messages import Node
from pleach.net.printable import printable

TOGETHER = MappingProxyType({"stabilise": frozenset(("none", "leases"))})  # values of a setting that need not be equal


def disagreement(own: tuple[Node, Mapping[str, str]], other: tuple[Node, Mapping[str, str]]) -> str:
    """In which settings two brokers differ, in the same words on either side; empty: in none."""
    (first, values), (second, others) = sorted((own, other), key=lambda each: each[0])
    differing = [
        f"{first} has {key} = {printable(values[key])}, {second} has {printable(others[key])}"
        for key in sorted(values.keys() & others.keys())
        if values[key] != others[key] and not {values[key], others[key]} <= TOGETHER.get(key, frozenset())
    ]
    if not differing:
        return ""
    return f"{'; '.join(differing)}: brokers of one network have the same (docs/how-to/troubleshooting.md)"
