"""The difference between a planned tree and an actual one."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pleach.core.messages import Node
from pleach.core.overlay.plans.topology import Link, Topology

SHOWN_MAX = 5  # of each kind, in a message


class TreeDifference(msgspec.Struct, frozen=True):
    """All sorted. Links include those of missing and extra brokers."""

    links_missing: tuple[Link, ...]  # planned, and not there
    links_extra: tuple[Link, ...]  # there, and not planned
    brokers_missing: tuple[Node, ...]
    brokers_extra: tuple[Node, ...]

    @classmethod
    def of(cls, *, planned: Topology, found: Topology) -> TreeDifference:
        return cls(
            tuple(sorted({*planned.links} - {*found.links})),
            tuple(sorted({*found.links} - {*planned.links})),
            tuple(sorted({*planned.brokers} - {*found.brokers})),
            tuple(sorted({*found.brokers} - {*planned.brokers})),
        )

    def __str__(self) -> str:
        """One line: `planned and not there: link a–b; there and not planned: link a–c, broker x`."""
        missing = _things(self.brokers_missing, self.links_missing)
        extra = _things(self.brokers_extra, self.links_extra)
        parts = (
            f"planned and not there: {missing}" if missing else "",
            f"there and not planned: {extra}" if extra else "",
        )
        return "; ".join(filter(None, parts)) or "no difference"


def _things(brokers: tuple[Node, ...], links: tuple[Link, ...]) -> str:
    kinds = (_listed("broker", brokers), _listed("link", (f"{a}–{b}" for a, b in links)))
    return ", ".join(filter(None, kinds))


def _listed(kind: str, names: Iterable[str]) -> str:
    shown = [f"{kind} {name}" for name in names]
    more = f", {len(shown) - SHOWN_MAX} more" if len(shown) > SHOWN_MAX else ""
    return ", ".join(shown[:SHOWN_MAX]) + more
