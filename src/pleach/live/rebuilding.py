"""What an operator sees of tables that are rebuilt in turn (stabilise/paced.py): rounds, and what they found wrong.

Without faults rounds rise by one every π, the last one is less than π old, and nothing is found wrong but what was just
being asked for. Where rounds stand still and musters rise, somebody is waited for: `away` in /status says whom.
"""

from __future__ import annotations

from pleach.live.metrics import Metric, Sample
from pleach.live.node import BrokerNode

COUNTED = {
    "rounds": "Rounds in which this broker has emptied a table and built it anew.",
    "missing": "Entries that a table lacked, as the other one showed once it was complete.",
    "extra": "Entries that a table had and should not have had, as the other one showed.",
    "vouched": "Times that this broker spoke for a client that was away, or late.",
    "musters": "Times that the root asked who is late in a round, as this broker heard.",
}


def rounds_of(node: BrokerNode) -> dict[str, float | None] | None:
    """None where nothing is rebuilt."""
    machine = node.rebuild
    if machine is None:
        return None
    last = machine.last_round_at
    return {
        **{key: getattr(machine, key) for key in COUNTED},
        "last_seconds_ago": None if last is None else max(node.now - last, 0.0),
    }


def rebuild_metrics(node: BrokerNode) -> list[Metric]:
    """Since the process started, with what it did again when it read its journal."""
    found = rounds_of(node) or {}
    last = found.get("last_seconds_ago")
    return [
        Metric(
            "pleach_rebuild_last_round_seconds",
            "gauge",
            "How long ago the last round began.",
            [] if last is None else [Sample(last)],
        ),
        *(
            Metric(f"pleach_rebuild_{key}_total", "counter", text, [Sample(found.get(key) or 0)])
            for key, text in COUNTED.items()
        ),
    ]
