"""Search for a string within ranges that fits patterns: decides whether one exists.

The conditions are small automata that read the string character by character:

- The texts of all patterns form one automaton, that of Aho and Corasick: its state is the longest end of what
  was read that begins some text, which says which texts end here. The texts found so far are kept beside it.
- Ranges are the tree of the strings at their cuts: the state is the string read so far while it begins some
  cut's string; after that every continuation lies on the same side of all cuts: inside or outside.

Their product is explored breadth first. Characters that no condition mentions differ only by where they lie
between those that are mentioned: one stands for each such gap. The product is finite and the search complete,
but conditions on many texts can make it large: it stops after `STEPS_MAX`. A few likely strings are tried first,
which decides most cases.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from pleach.core.events.constraint import Pattern, PatternShape
from pleach.core.events.ranges import BEFORE, CHARACTER_MAX, SURROGATES, Ranges, first_of

STEPS_MAX = 100_000  # transitions of the product: some 50 ms
SEARCHES_REMEMBERED = 8192
GUESSED_INTERVALS = 8

Place: TypeAlias = str | bool
State: TypeAlias = tuple[Place, int, int]  # place within the ranges, node of the texts, texts found (a bit each)


class TextSearchResult(NamedTuple):
    """`word` fits all conditions. If it is None, `complete` tells that none exists, not that the search gave up."""

    word: str | None
    complete: bool = True


@lru_cache(maxsize=SEARCHES_REMEMBERED)
def find_word(ranges: Ranges, patterns: tuple[Pattern, ...]) -> TextSearchResult:
    if ranges.is_empty or _contradictory(patterns):
        return TextSearchResult(None)
    for word in _guesses(ranges, patterns):
        if _lies_in(ranges, word) and all(pattern.matches(word) for pattern in patterns):
            return TextSearchResult(word)
    return explore(ranges, patterns)


def _contradictory(patterns: tuple[Pattern, ...]) -> bool:
    """True if one pattern implies a text that another forbids."""
    forbidden = [pattern for pattern in patterns if pattern.negated]
    return any(p.finds(q) for p in patterns if not p.negated for q in forbidden)


def _lies_in(ranges: Ranges, word: Any) -> bool:
    return word in ranges


class TextMatcher:
    """The automaton of Aho and Corasick for the texts of all patterns. Node 0 is the start."""

    def __init__(self, patterns: tuple[Pattern, ...]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._fallback = [0]
        self._ending = [0]  # per node the patterns whose text ends there, a bit each
        for number, pattern in enumerate(patterns):
            self._ending[self._node(pattern.text)] |= 1 << number
        self._link()
        self._wanted = _bits(patterns, PatternShape.CONTAINS, negated=False)
        self._forbidden = _bits(patterns, PatternShape.CONTAINS, negated=True)
        self._wanted_last = _bits(patterns, PatternShape.SUFFIX, negated=False)
        self._forbidden_last = _bits(patterns, PatternShape.SUFFIX, negated=True)

    def step(self, node: int, found: int, character: str) -> tuple[int, int] | None:
        """The state after `character`; None where nothing that follows can be accepted."""
        while node and character not in self._next[node]:
            node = self._fallback[node]
        node = self._next[node].get(character, 0)
        ending = self._ending[node]
        return None if ending & self._forbidden else (node, found | ending & self._wanted)

    def accepts(self, node: int, found: int) -> bool:
        ending = self._ending[node]
        missing = self._wanted_last & ~ending
        return found == self._wanted and not missing and not ending & self._forbidden_last

    def _node(self, text: str) -> int:
        node = 0
        for character in text:
            following = self._next[node].setdefault(character, len(self._next))
            if following == len(self._next):
                self._next.append({})
                self._fallback.append(0)
                self._ending.append(0)
            node = following
        return node

    def _link(self) -> None:
        """Let each node fall back to the longest shorter end of its text that is a node, and end what ends there."""
        queue = deque(self._next[0].values())
        while queue:
            node = queue.popleft()
            for character, child in self._next[node].items():
                shorter = self._fallback[node]
                while shorter and character not in self._next[shorter]:
                    shorter = self._fallback[shorter]
                self._fallback[child] = self._next[shorter].get(character, 0)
                queue.append(child)
            self._ending[node] |= self._ending[self._fallback[node]]


def _bits(patterns: tuple[Pattern, ...], shape: PatternShape, *, negated: bool) -> int:
    return sum(1 << i for i, p in enumerate(patterns) if p.shape is shape and p.negated is negated)


class Comparator:
    """The automaton of ranges: a walk down the tree of the cuts' strings."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self._stems = {value[:length] for value, _ in ranges.cuts for length in range(len(value) + 1)}
        self.start: Place = "" if ranges.cuts else ranges.inside_first

    def step(self, state: Place, character: str) -> Place:
        if isinstance(state, bool):
            return state
        longer = state + character
        return longer if longer in self._stems else _lies_in(self.ranges, longer)

    def accepts(self, state: Place) -> bool:
        return state if isinstance(state, bool) else _lies_in(self.ranges, state)


def explore(ranges: Ranges, patterns: tuple[Pattern, ...]) -> TextSearchResult:
    """Breadth-first search for a shortest string."""
    comparator, matcher = Comparator(ranges), TextMatcher(patterns)
    alphabet = _alphabet(ranges, patterns)
    start: State = (comparator.start, 0, 0)
    origin: dict[State, tuple[State, str] | None] = {start: None}
    queue = deque([start])
    states_left = STEPS_MAX // len(alphabet)
    while queue:
        state = queue.popleft()
        place, node, found = state
        if comparator.accepts(place) and matcher.accepts(node, found):
            return TextSearchResult(_spelled(state, origin))
        if not states_left:
            return TextSearchResult(None, complete=False)
        states_left -= 1
        for character in alphabet:
            reached = _step(comparator, matcher, state, character)
            if reached is not None and reached not in origin:
                origin[reached] = (state, character)
                queue.append(reached)
    return TextSearchResult(None)


def _step(comparator: Comparator, matcher: TextMatcher, state: State, character: str) -> State | None:
    place, node, found = state
    texts = matcher.step(node, found, character)
    place = comparator.step(place, character)
    return None if texts is None or place is False else (place, *texts)


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
    needed = [p.text for p in patterns if p.shape is PatternShape.CONTAINS and not p.negated]
    ends = sorted((p.text for p in patterns if p.shape is PatternShape.SUFFIX and not p.negated), key=len)
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
