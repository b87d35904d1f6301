"""What S1's cost does not charge for: how many neighbours the settling CI gives to one broker."""

from __future__ import annotations

from collections.abc import Sequence

from pleach.lab.experiment import Summary, select
from pleach.lab.improve.course import SETTLING


def hub(summaries: Sequence[Summary], **wanted: str) -> str:
    """A sentence for findings that praise it; nothing where no degrees were measured."""
    degrees = select(summaries, f"degree {SETTLING}", **wanted)
    if not degrees:
        return ""
    most = max(degree.maximum for degree in degrees)
    return f" Ours has a hub of up to {most:.0f} neighbours, which S1's cost does not charge for."
