"""A connection that a broker node has taken over, and whether it is read from just now (pressure.py)."""

from __future__ import annotations

from dataclasses import dataclass

from pleach.server.committer import Wire


@dataclass
class Link:
    wire: Wire
    is_dialled: bool
    is_paused: bool = False
    breath_until: float = 0.0  # not paused before
