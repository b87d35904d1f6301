"""Search for a string within ranges that fits patterns: decides whether one exists.

The conditions are small automata that read the string character by character:

- The texts of all patterns form one automaton, that of Aho and Corasick: its state is the longest end of what
  was read that begins some text, which says which texts end here. The texts found so far are kept beside it.
- Ranges are the tree of the strings at their cuts: the state is the node of the string read so far while it begins
  some cut's string; after that every continuation lies on the same side of all cuts: inside or outside.

Their product is explored breadth first. Characters that no condition mentions differ only by where they lie
between those that are mentioned: one stands for each such gap. The product is finite and the search complete,
but conditions on many or long texts can make it large: it stops after `STEPS_MAX`, and where the automata alone would
be larger, they are not made. A few likely strings are tried first, which decides most cases.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from pleach.core.events.constraint import Pattern, PatternShape
from pleach.core.events.ranges import BEFORE, CHARACTER_MAX, SURROGATES, Ranges, first_of

STEPS_MAX = 4_000  # of one search: transitions of the product, and of the automata that it is made of
GUESSED_INTERVALS = 8
GUESSED_CHARACTERS_PER_STEP = 256  # a guess is compared by machine code

# The cache of searches. An entry has at most 16 cuts and patterns (some 200 bytes each), 512 characters of their texts
# and twice as many of the word that was found (4 bytes each): 10 KB; all of them together 20 MB, usually a tenth of it.
SEARCHES_REMEMBERED = 2_048
REMEMBERED_TEXTS_MAX = 16
REMEMBERED_CHARACTERS_MAX = 512

INSIDE, OUTSIDE = -1, -2

Place: TypeAlias = int  # a node of the tree of cuts; INSIDE or OUTSIDE beyond it
State: TypeAlias = tuple[Place, int, int]  # place within the ranges, node of the texts, texts found (a bit each)


class TextSearchResult(NamedTuple):
    """`word` fits all conditions. If it is None, `complete` tells that none exists, not that the search gave up."""

    word: str | None
    complete: bool = True
    steps: int = 0  # what it has cost, or would have cost if it had not been remembered


def find_word(ranges: Ranges, patterns: tuple[Pattern, ...]) -> TextSearchResult:
    count = len(ranges.cuts) + len(patterns)
    if count <= REMEMBERED_TEXTS_MAX and _characters(ranges, patterns) <= REMEMBERED_CHARACTERS_MAX:
        return remembered_search(ranges, patterns)
    return _search(ranges, patterns)


@lru_cache(maxsize=SEARCHES_REMEMBERED)
def remembered_search(ranges: Ranges, patterns: tuple[Pattern, ...]) -> TextSearchResult:
    return _search(ranges, patterns)


def _search(ranges: Ranges, patterns: tuple[Pattern, ...]) -> TextSearchResult:
    steps = 1 + len(patterns) ** 2 // 4
    if ranges.is_empty or _contradictory(patterns):
        return TextSearchResult(None, steps=steps)
    for word in _guesses(ranges, patterns):
        steps += 1 + len(patterns) * (1 + len(word) // GUESSED_CHARACTERS_PER_STEP)
        if _lies_in(ranges, word) and all(pattern.matches(word) for pattern in patterns):
            return TextSearchResult(word, steps=steps)
    found = explore(ranges, patterns)
    return found._replace(steps=found.steps + steps)


def _characters(ranges: Ranges, patterns: tuple[Pattern, ...]) -> int:
    return sum(len(value) for value, _ in ranges.cuts) + sum(len(pattern.text) for pattern in patterns)


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
                self._ending.append(0)
            node = following
        return node

    def _link(self) -> None:
        """Let each node go on where the longest shorter end of its text goes on, and end what ends there."""
        queue = deque((child, 0) for child in self._next[0].values())
        while queue:
            node, shorter = queue.popleft()  # the shorter one is complete, because shorter ones come first
            following = self._next[shorter]
            queue.extend((child, following.get(character, 0)) for character, child in self._next[node].items())
            self._next[node] = {**following, **self._next[node]}
            self._ending[node] |= self._ending[shorter]


def _bits(patterns: tuple[Pattern, ...], shape: PatternShape, *, negated: bool) -> int:
    return sum(1 << i for i, p in enumerate(patterns) if p.shape is shape and p.negated is negated)


class Comparator:
    """The automaton of ranges: a walk down the tree of the cuts' strings."""

    def __init__(self, ranges: Ranges) -> None:
        self._inside_first = ranges.inside_first
        self._next: list[dict[str, int]] = [{}]
        self._characters: list[list[str]] = [[]]  # the keys of `_next`; sorted, like the cuts
        self._before = [0]  # per node, the cuts below its string
        self._at = [0]  # the cuts below what follows its string, without those of longer strings
        self._through = [0]  # the cuts below all that does not begin with its string and is greater
        for number, (value, side) in enumerate(ranges.cuts):
            self._insert(value, side, number)
        self.start: Place = 0 if ranges.cuts else self._side(0)

    def _insert(self, value: str, side: int, number: int) -> None:
        """Cuts come in their order, so those of a node and its descendants follow each other."""
        node = 0
        self._through[0] = number + 1
        for character in value:
            following = self._next[node].setdefault(character, len(self._next))
            if following == len(self._next):
                self._characters[node].append(character)
                self._next.append({})
                self._characters.append([])
                self._before.append(number)
                self._at.append(number)
                self._through.append(number)
            node = following
            self._through[node] = number + 1
        self._at[node] = number + 1
        if side == BEFORE:
            self._before[node] = number + 1

    def step(self, state: Place, character: str) -> Place:
        if state < 0:
            return state
        children = self._next[state]
        if character in children:
            return children[character]
        known = self._characters[state]
        lower = bisect_left(known, character)
        return self._side(self._through[children[known[lower - 1]]] if lower else self._at[state])

    def accepts(self, state: Place) -> bool:
        return (state if state < 0 else self._side(self._before[state])) == INSIDE

    def _side(self, passed: int) -> Place:
        return INSIDE if self._inside_first != bool(passed & 1) else OUTSIDE


def explore(ranges: Ranges, patterns: tuple[Pattern, ...]) -> TextSearchResult:
    """Breadth-first search for a shortest string."""
    alphabet = _alphabet(ranges, patterns)
    steps = _characters(ranges, patterns) * len(alphabet) // 8  # to make the automata: tables, copied by machine code
    if steps > STEPS_MAX:
        return TextSearchResult(None, complete=False)
    comparator, matcher = Comparator(ranges), TextMatcher(patterns)
    start: State = (comparator.start, 0, 0)
    origin: dict[State, tuple[State, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        place, node, found = state
        if comparator.accepts(place) and matcher.accepts(node, found):
            return TextSearchResult(_spelled(state, origin), steps=steps)
        steps += len(alphabet)
        if steps > STEPS_MAX:
            return TextSearchResult(None, complete=False, steps=steps)
        for character in alphabet:
            reached = _step(comparator, matcher, state, character)
            if reached is not None and reached not in origin:
                origin[reached] = (state, character)
                queue.append(reached)
    return TextSearchResult(None, steps=steps)


def _step(comparator: Comparator, matcher: TextMatcher, state: State, character: str) -> State | None:
    place, node, found = state
    texts = matcher.step(node, found, character)
    place = comparator.step(place, character)
    return None if texts is None or place == OUTSIDE else (place, *texts)


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
