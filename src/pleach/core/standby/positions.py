"""Positions in the history of a broker's store."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """The last commit of a store. Equal positions mean equal content.

    `run` is drawn anew whenever a primary opens its store, and written with its first commit: two primaries, or two
    lives of one, never give the same position to different content.
    """

    run: int
    number: int  # of the commit
