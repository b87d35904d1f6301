"""The search for a string: it finds one exactly if there is one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events import text_automaton
from pleach.core.events.constraint import Pattern, PatternShape
from pleach.core.events.ranges import EVERYTHING, above, below, intersection, prefixed
from pleach.core.events.text_automaton import TextMatcher, explore, find_word
from support.events.algebra_domain import NULS, WORDS, examples, patterns, string_constraints


def contains(text, *, negated=False):
    return Pattern(PatternShape.CONTAINS, text, negated)


def suffix(text, *, negated=False):
    return Pattern(PatternShape.SUFFIX, text, negated)


@examples(600)
@given(string_constraints)
def test_a_string_is_found_exactly_if_there_is_one(constraint):
    for search in (find_word, explore):
        word, complete, _ = search(constraint.ranges, constraint.patterns)
        assert complete, "these are far below the bound"
        if word is None:
            assert not any(map(constraint.admits, WORDS + NULS))
        else:
            assert constraint.admits(word)


@examples(300)
@given(st.lists(patterns, max_size=4).map(tuple))
def test_the_matcher_agrees_with_the_patterns(chosen):
    matcher = TextMatcher(chosen)
    for word in WORDS:
        state = (0, 0)
        for character in word:
            state = state and matcher.step(*state, character)
        accepted = state is not None and matcher.accepts(*state)
        assert accepted == all(pattern.matches(word) for pattern in chosen), word


def test_texts_overlap_in_the_string_where_they_must():
    short = below("abb", inclusive=True)
    narrow = intersection(above("ab", inclusive=True), short)  # 'ab…' up to 'abb'
    assert find_word(narrow, (contains("abb"), suffix("bb"))).word == "abb"
    assert find_word(prefixed("ab"), (contains("b", negated=True),)).word is None


def test_characters_at_the_rim():
    last = "\U0010ffff"
    assert explore(above(last, inclusive=False), (suffix(last),)).word == last * 2
    assert find_word(below("\0", inclusive=False), (suffix("\0"),)).word is None
    gap = intersection(above("\ud7ff", inclusive=False), below("\ue000", inclusive=False))
    word = find_word(gap, (suffix("\ud7ff", negated=True),)).word
    assert word is not None
    assert word.startswith("\ud7ff")
    word.encode()  # no lone surrogate


def test_characters_that_nothing_mentions():
    neither = (suffix("a", negated=True), suffix("b", negated=True), suffix("\0", negated=True))
    assert explore(above("b", inclusive=False), neither).word == "c"
    between = intersection(above("a", inclusive=False), below("c", inclusive=False))
    assert explore(between, (contains("a", negated=True),)).word == "b"
    assert explore(below("a", inclusive=False), (contains("\0", negated=True), contains("z"))).word == "\x01z"


def test_a_search_that_grows_too_large_gives_up(monkeypatch):
    hard = (contains("abcabcabcabcabc"), suffix("cab"))
    assert explore(EVERYTHING, hard).word == "abcabcabcabcabcab"
    monkeypatch.setattr(text_automaton, "STEPS_MAX", 20)
    assert explore(EVERYTHING, hard)[:2] == (None, False)
