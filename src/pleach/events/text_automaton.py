"""Is there a string within these ranges that fits these patterns? Decided by a search, with a proof.

Every condition is a tiny automaton that reads the string character by character:

- a pattern (suffix, contains) is the automaton of Knuth, Morris and Pratt: its state is how much of the
  pattern's text the characters read so far end with;
- ranges are the tree of the strings at their cuts: the state is the string read so far while it begins some
  cut's string; after that every continuation lies on the same side of all cuts: inside or outside.

Their product is explored breadth first. Characters that no condition mentions differ only by where they lie
between those that are mentioned: one stands for each such gap. The product is finite and the search complete,
but conditions on many texts can make it large: it stops at `PRODUCT_STATES_MAX`. Before that a few likely
strings are tried, because most questions have an easy answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from pleach.events.constraint import Pattern, Shape
from pleach.events.ranges import BEFORE, CHARACTER_MAX, SURROGATES, Ranges, first_of

PRODUCT_STATES_MAX = 20_000
SEARCHES_REMEMBERED = 4096
GUESSED_INTERVALS = 8

RangeState: TypeAlias = str | bool
State: TypeAlias = tuple[RangeState, tuple[int, ...]]


class Search(NamedTuple):
    """`word` fits all conditions. Without one, `complete` says that there is none, not that we gave up."""

    word: str | None
    complete: bool = True


@lru_cache(maxsize=SEARCHES_REMEMBERED)
def find_word(ranges: Ranges, patterns: tuple[Pattern, ...]) -> Search:
    if ranges.is_empty:
        return Search(None)
    for word in _guesses(ranges, patterns):
        if _lies_in(ranges, word) and all(pattern.matches(word) for pattern in patterns):
            return Search(word)
    return _explore(ranges, patterns)


def _lies_in(ranges: Ranges, word: Any) -> bool:
    return word in ranges


class _Matcher:
    """The Knuth-Morris-Pratt automaton of one pattern."""

    def __init__(self, pattern: Pattern) -> None:
        self.text = pattern.text
        self.length = len(pattern.text)
        self.stays = pattern.shape is Shape.CONTAINS  # once found, found for good
        self.negated = pattern.negated
        self._fallback = self._fallbacks()

    def step(self, state: int, character: str) -> int:
        if state == self.length:
            if self.stays:
                return state
            state = self._fallback[state]
        while state and self.text[state] != character:
            state = self._fallback[state]
        return state + (self.text[state] == character)

    def accepts(self, state: int) -> bool:
        return (state == self.length) != self.negated

    def is_dead(self, state: int) -> bool:
        return self.stays and self.negated and state == self.length

    def _fallbacks(self) -> list[int]:
        """For each matched length the next shorter one that the same characters end with."""
        fallback = [0, 0]
        for index in range(1, self.length):
            state = fallback[index]
            while state and self.text[state] != self.text[index]:
                state = fallback[state]
            fallback.append(state + (self.text[state] == self.text[index]))
        return fallback


class _Comparator:
    """The automaton of ranges: a walk down the tree of the cuts' strings."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self._stems = {value[:length] for value, _ in ranges.cuts for length in range(len(value) + 1)}
        self.start: RangeState = "" if ranges.cuts else ranges.inside_first

    def step(self, state: RangeState, character: str) -> RangeState:
        if isinstance(state, bool):
            return state
        longer = state + character
        return longer if longer in self._stems else _lies_in(self.ranges, longer)

    def accepts(self, state: RangeState) -> bool:
        return state if isinstance(state, bool) else _lies_in(self.ranges, state)


def _explore(ranges: Ranges, patterns: tuple[Pattern, ...]) -> Search:
    comparator = _Comparator(ranges)
    matchers = [_Matcher(pattern) for pattern in patterns]
    alphabet = _alphabet(ranges, patterns)
    start: State = (comparator.start, (0,) * len(matchers))
    origin: dict[State, tuple[State, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        place, progress = state
        if comparator.accepts(place) and all(m.accepts(s) for m, s in zip(matchers, progress, strict=True)):
            return Search(_spelled(state, origin))
        for character in alphabet:
            reached: State = (
                comparator.step(place, character),
                tuple(m.step(s, character) for m, s in zip(matchers, progress, strict=True)),
            )
            if reached in origin or _is_dead(reached, matchers):
                continue
            if len(origin) >= PRODUCT_STATES_MAX:
                return Search(None, complete=False)
            origin[reached] = (state, character)
            queue.append(reached)
    return Search(None)


def _is_dead(state: State, matchers: list[_Matcher]) -> bool:
    place, progress = state
    return place is False or any(m.is_dead(s) for m, s in zip(matchers, progress, strict=True))


def _spelled(state: State, origin: dict[State, tuple[State, str] | None]) -> str:
    characters = []
    step = origin[state]
    while step is not None:
        state, character = step
        characters.append(character)
        step = origin[state]
    return "".join(reversed(characters))


def _alphabet(ranges: Ranges, patterns: tuple[Pattern, ...]) -> list[str]:
    """The characters mentioned, and one for each gap between, below and above them."""
    mentioned = _mentioned(ranges, patterns)
    codes = [-1, *map(ord, mentioned), ord(CHARACTER_MAX) + 1]
    return mentioned + [chr(code) for low, high in pairwise(codes) for code in _gap(low, high)]


def _mentioned(ranges: Ranges, patterns: tuple[Pattern, ...]) -> list[str]:
    texts = [value for value, _ in ranges.cuts] + [pattern.text for pattern in patterns]
    return sorted(set().union(*texts))


def _gap(low: int, high: int) -> Iterator[int]:
    """One code point strictly between two, if there is any that a valid text may hold."""
    code = low + 1
    if code in SURROGATES:
        code = SURROGATES.stop
    if code < high:
        yield code


def _guesses(ranges: Ranges, patterns: tuple[Pattern, ...]) -> Iterator[str]:
    """Likely strings: all texts that must occur, after a beginning that lies within the ranges.

    They are joined by a character that no condition mentions, so that no unwanted text arises between them.
    """
    filler = _filler(ranges, patterns)
    needed = [p.text for p in patterns if p.shape is Shape.CONTAINS and not p.negated]
    ends = sorted((p.text for p in patterns if p.shape is Shape.SUFFIX and not p.negated), key=len)
    tail = filler.join(["", *needed, ends[-1] if ends else ""])
    for beginning in _beginnings(ranges):
        yield beginning + tail
        yield beginning + filler + tail
        yield beginning


def _filler(ranges: Ranges, patterns: tuple[Pattern, ...]) -> str:
    mentioned = set(_mentioned(ranges, patterns))
    usual = (character for character in "abcdefghijklmnopqrstuvwxyz" if character not in mentioned)
    return next(usual, "-")


def _beginnings(ranges: Ranges) -> Iterator[str]:
    """Strings at and shortly above the lower ends of the first few intervals."""
    for _, (low, high) in zip(range(GUESSED_INTERVALS), ranges.intervals(), strict=False):
        first = "" if low is None else first_of(low)
        yield first
        if high is not None and high[1] == BEFORE and high[0] and ord(high[0][-1]) - 1 not in SURROGATES:
            # just below an open end: 'az' where 'b' ends the interval
            yield high[0][:-1] + chr(ord(high[0][-1]) - 1)
