"""The bounds of S1 §4.5 as printed, for comparison with those that hold (core/overlay/coloured/bounds.py)."""

from __future__ import annotations

from pleach.core.overlay.coloured.bounds import ColouredConfig


def printed_timeout(colouring: ColouredConfig) -> float:
    """S1 (4.1)."""
    return colouring.period + colouring.height * (colouring.high - colouring.low)


def printed_period_min(colouring: ColouredConfig) -> float:
    """S1 (4.2)."""
    return colouring.refresh + 2 * colouring.height * colouring.high


def printed_stabilisation(colouring: ColouredConfig) -> float:
    """S1 (4.3)."""
    return 4 * colouring.period + colouring.height * (2 * colouring.high - colouring.low)
