"""The search for a string: it finds one exactly if there is one."""

from __future__ import annotations

import pytest
from algebra_domain import NULS, WORDS, examples, string_constraints
from hypothesis import given

from pleach.events import text_automaton
from pleach.events.constraint import Pattern, Shape
from pleach.events.ranges import EVERYTHING, above, below, intersection, prefixed
from pleach.events.text_automaton import _explore, _Matcher, find_word


def contains(text, *, negated=False):
    return Pattern(Shape.CONTAINS, text, negated)


def suffix(text, *, negated=False):
    return Pattern(Shape.SUFFIX, text, negated)


@examples(600)
@given(string_constraints)
def test_a_string_is_found_exactly_if_there_is_one(constraint):
    for search in (find_word, _explore):
        word, complete = search(constraint.ranges, constraint.patterns)
        assert complete, "these are far below the bound"
        if word is None:
            assert not any(map(constraint.admits, WORDS + NULS))
        else:
            assert constraint.admits(word)


@pytest.mark.parametrize("text", ["a", "aa", "ab", "aab", "abab", "aabaa", "abcab"])
@pytest.mark.parametrize("shape", Shape)
def test_matchers_agree_with_the_patterns(text, shape):
    for negated in (False, True):
        pattern = Pattern(shape, text, negated)
        matcher = _Matcher(pattern)
        for word in WORDS:
            state = 0
            for character in word:
                state = matcher.step(state, character)
            assert matcher.accepts(state) == pattern.matches(word), (pattern, word)


def test_texts_overlap_in_the_string_where_they_must():
    short = below("abb", inclusive=True)
    narrow = intersection(above("ab", inclusive=True), short)  # 'ab…' up to 'abb'
    assert find_word(narrow, (contains("abb"), suffix("bb"))).word == "abb"
    assert find_word(prefixed("ab"), (contains("b", negated=True),)).word is None


def test_characters_at_the_rim():
    last = "\U0010ffff"
    assert _explore(above(last, inclusive=False), (suffix(last),)).word == last * 2
    assert find_word(below("\0", inclusive=False), (suffix("\0"),)).word is None
    gap = intersection(above("\ud7ff", inclusive=False), below("\ue000", inclusive=False))
    word = find_word(gap, (suffix("\ud7ff", negated=True),)).word
    assert word is not None
    assert word.startswith("\ud7ff")
    word.encode()  # no lone surrogate


def test_a_search_that_grows_too_large_gives_up(monkeypatch):
    monkeypatch.setattr(text_automaton, "PRODUCT_STATES_MAX", 10)
    impossible = (contains("abcabcabcabc"), suffix("ab", negated=True), contains("bc", negated=True))
    assert _explore(EVERYTHING, impossible).word is None
    hard = (contains("abcabcabcabcabc"), suffix("cab"))
    assert _explore(EVERYTHING, hard) == (None, False)
