"""The budget of filters: how large they may be, and how many steps it may take to normalise or to compare them.

Rule 1: steps are taken from the budget before the work is done, so that no text costs more than the budget allows.
Rule 2: what is beyond a budget is refused with a FilterError that says what to do, never cut or approximated.
Rule 3: the steps of a comparison are limited as well. Where these do not suffice, `covers` says no and `overlaps` says
yes, the safe sides: more is forwarded than necessary, nothing is lost. The answer depends on the two filters alone, not
on caches, so that a replayed journal gives the same tables.
Rule 4: what one party may make, the next one accepts:

    WRITTEN    a text that a user writes; its normal form is within ASKED
    ASKED      a filter in normal form, as a client sends it
    EFFECTIVE  what a broker makes of an asked one and a second one: of both joined by AND
    CARRIED    what brokers send each other and keep on disk: an effective filter, widened by merging (PIECE_… limits)

A step is about a microsecond: one comparison of two constraints, or one transition of an automaton.
"""

from __future__ import annotations

from typing import NamedTuple

from pleach.errors import FilterError

LITERAL_BYTES_MAX = 8192  # a user's pattern of 4 KB, each character escaped
COMPARISON_STEPS_MAX = 4_000  # of one `covers` or `overlaps`

# A merged filter: all of one member but the ranges of one attribute, and these ranges, united with those of others.
# Any single range fits: two values of LITERAL_BYTES_MAX and the attribute's name, quotes doubled.
PIECE_RANGES_MAX = 128
PIECE_BYTES_MAX = 36_864


class FilterBudget(NamedTuple):
    """`predicates`, `depth` and `text_bytes` limit the text that is parsed, the others what it stands for."""

    text_bytes: int
    predicates: int  # each element of IN counts as one
    depth: int  # nesting of parentheses and NOT
    normal_bytes: int  # of the text in normal form
    conditions: int  # in normal form: intervals, single values and patterns, over all conjunctions
    steps: int  # of normalisation
    is_normal: bool = True  # only the form of `Filter.text`: parentheses around ranges of one attribute
    conjunctions: int = 64


ASKED = FilterBudget(32_768, 1_024, 1, normal_bytes=32_768, conditions=512, steps=48_000)
WRITTEN = ASKED._replace(text_bytes=4_096, predicates=64, depth=32, steps=24_000, is_normal=False)
EFFECTIVE = ASKED._replace(text_bytes=49_152, predicates=1_280, normal_bytes=49_152, conditions=640)
CARRIED = EFFECTIVE._replace(
    text_bytes=EFFECTIVE.text_bytes + PIECE_BYTES_MAX,
    predicates=EFFECTIVE.predicates + 2 * PIECE_RANGES_MAX,
    normal_bytes=EFFECTIVE.normal_bytes + PIECE_BYTES_MAX,
    conditions=EFFECTIVE.conditions + PIECE_RANGES_MAX,
    steps=96_000,
)


class Steps:
    """The steps that a comparison has left."""

    __slots__ = ("left",)

    def __init__(self, left: int = COMPARISON_STEPS_MAX) -> None:
        self.left = left

    def take(self, count: int) -> bool:
        """Spend steps; False where none are left."""
        self.left -= count
        return self.left >= 0


class NormalisationSteps(Steps):
    """The steps that a normalisation has left; it ends with an error where they do not suffice."""

    __slots__ = ()

    def take(self, count: int) -> bool:
        if not super().take(count):
            raise FilterError(
                "the filter costs too much to normalise: it has too many alternatives or too entangled patterns; "
                "use several subscriptions, IN for alternatives of one attribute, fewer patterns on one attribute"
            )
        return True
