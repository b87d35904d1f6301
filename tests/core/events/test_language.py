"""The filter language: what it reads, and how it refuses what it cannot read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleach.core.events import predicates as p
from pleach.core.events.budget import ASKED, WRITTEN
from pleach.core.events.language import parse_asked, parse_filter, parse_internal
from pleach.errors import FilterError
from support.events.algebra_domain import examples
from support.events.filters import filter_of

READ = [
    ("x = 5", {"x": p.equals(5)}),
    ("x=-5", {"x": p.equals(-5)}),
    ("x = +5", {"x": p.equals(5)}),
    ("x = .5", {"x": p.equals(0.5)}),
    ("x = 5.", {"x": p.equals(5)}),
    ("x = 1e3", {"x": p.equals(1000)}),
    ("x = 25E-1", {"x": p.equals(2.5)}),
    ("x != 5", {"x": p.differs(5)}),
    ("5 < x", {"x": p.greater(5)}),
    ("5 >= x", {"x": p.at_most(5)}),
    ("'a' = x", {"x": p.equals("a")}),
    ("TRUE = x", {"x": p.equals(True)}),
    ("false <> x", {"x": p.differs(False)}),
    ("x = 'it''s'", {"x": p.equals("it's")}),
    ("x = ''", {"x": p.equals("")}),
    ("x = X''", {"x": p.equals(b"")}),
    ("x = x'0aFF'", {"x": p.equals(b"\x0a\xff")}),
    ("x In (1,2 , 3)", {"x": p.one_of([1, 2, 3])}),
    ("x not in ('a')", {"x": p.differs("a")}),
    ("x BETWEEN 1 AND 2 AND y = 1", {"x": p.between(1, 2), "y": p.equals(1)}),
    ("x NOT BETWEEN 'a' AND 'b'", {"x": p.opposite(p.between("a", "b"))}),
    ("x LIKE 'a%'", {"x": p.prefix("a")}),
    ("x LIKE '%a'", {"x": p.suffix("a")}),
    ("x LIKE '%a%'", {"x": p.contains("a")}),
    ("x LIKE 'a'", {"x": p.equals("a")}),
    ("x LIKE ''", {"x": p.equals("")}),
    ("x LIKE '\\%\\_\\\\%'", {"x": p.prefix("%_\\")}),
    ("x NOT LIKE '%a'", {"x": p.opposite(p.suffix("a"))}),
    ("exists x", {"x": p.exists()}),
    ("x IS NULL", {"x": p.absent()}),
    ("x IS NOT NULL", {"x": p.exists()}),
    ('"x" = 1', {"x": p.equals(1)}),
    ('"is ""it""" = 1', {'is "it"': p.equals(1)}),
    ("a.b_1 = 1", {"a.b_1": p.equals(1)}),
    ("NOT NOT x = 1", {"x": p.equals(1)}),
    ("NOT (x LIKE 'a%')", {"x": p.opposite(p.prefix("a"))}),
    ("\n x\t=\r\n1 ", {"x": p.equals(1)}),
    ("x = 9223372036854775807", {"x": p.equals(2**63 - 1)}),
    ("x = -9223372036854775808", {"x": p.equals(-(2**63))}),
    ("x = 1e19", {"x": p.equals(1e19)}),
]


@pytest.mark.parametrize(("text", "constraints"), READ)
def test_reads(text, constraints):
    assert parse_filter(text) == filter_of(constraints)


def test_and_binds_tighter_than_or_and_not_tightest():
    assert parse_filter("NOT a = 1 AND b = 1 OR c = 1") == parse_filter("((a <> 1) AND (b = 1)) OR (c = 1)")


def test_names_are_case_sensitive_and_keywords_are_not():
    assert parse_filter("X = 1") != parse_filter("x = 1")
    assert parse_filter("x = 1 aNd y = 1") == parse_filter("x = 1 AND y = 1")


BAD = [
    ("", "found the end of the text, wanted a condition", 1),
    ("   ", "wanted a condition", 4),
    ("x", "found the end of the text, wanted a comparison", 2),
    ("x =", "wanted a literal after =", 4),
    ("x = y", "strings are quoted", 5),
    ("x == 5", "found =, wanted a literal", 4),
    ("x = 5 y = 6", "found y, wanted AND, OR or the end", 7),
    ("x = 5 AND", "wanted a condition", 10),
    ("x = 5 OR OR y = 6", "found OR, wanted a condition", 10),
    ("(x = 5", "found the end of the text, wanted AND, OR or )", 7),
    ("x = 5)", "found ), wanted AND, OR or the end", 6),
    ("()", "found ), wanted a condition", 2),
    ("5", "wanted a comparison after the literal", 2),
    ("5 < 6", "found 6, wanted an attribute name", 5),
    ("5 IN x", "found IN, wanted a comparison", 3),
    ("5 < AND", "wanted an attribute name on the other side", 5),
    ("x < TRUE", "TRUE and FALSE have no order", 5),
    ("FALSE < x", "TRUE and FALSE have no order", 1),
    ("x BETWEEN TRUE AND FALSE", "no order", 11),
    ("x BETWEEN 1 AND 'b'", "found 'b', a string, beside a number", 17),
    ("x BETWEEN 1 OR 2", "found OR, wanted AND between", 13),
    ("x IN ()", "found ), wanted a literal in the list", 7),
    ("x IN (1, 'a')", "found 'a', a string, beside a number", 10),
    ("x IN (1, TRUE)", "a boolean, beside a number", 10),
    ("x IN (X'00', 'a')", "a string, beside bytes", 14),
    ("x IN (1 2)", "found 2, wanted , or )", 9),
    ("x IN 1", "found 1, wanted ( after IN", 6),
    ("x NOT 5", "wanted IN, BETWEEN or LIKE after NOT", 7),
    ("x IS 5", "wanted NULL or NOT NULL", 6),
    ("x IS NOT 5", "wanted NULL", 10),
    ("x = NULL", "found NULL, wanted a literal", 5),
    ("EXISTS 5", "found 5, wanted an attribute name after EXISTS", 8),
    ("EXISTS", "wanted an attribute name after EXISTS", 7),
    ("x LIKE 5", "LIKE takes a string", 8),
    ("x LIKE 'a_'", "_ is no wildcard", 8),
    ("x LIKE 'a%b'", "% may stand at the ends", 8),
    ("x LIKE '%a%b%'", "% may stand at the ends", 8),
    ("x LIKE 'a%%'", "% may stand at the ends", 8),
    ("x LIKE 'a\\b'", "a backslash in a pattern stands before", 8),
    ("x LIKE 'a\\'", "a backslash in a pattern stands before", 8),
    ("x = 'abc", "this string never ends", 5),
    ('"abc = 1', "this quoted name never ends", 1),
    ('"" = 1', "cannot be empty", 1),
    (f"{'a' * 257} = 1", "at most 256 bytes", 1),
    ("x = X'0'", "pairs of hexadecimal digits", 5),
    ("x = X'0g'", "pairs of hexadecimal digits", 5),
    ("x = 9223372036854775808", "integers have 64 bits", 5),
    ("x = " + "9" * 2000, "integers have 64 bits", 5),
    ("x = -9223372036854775809", "integers have 64 bits", 5),
    ("x = 1e999", "beyond all floats", 5),
    ("x = -1e999", "beyond all floats", 5),
    ("x = 5abc", "neither a number nor a name", 5),
    ("x = 1.2.3", "neither a number nor a name", 5),
    ("x = 5 ; y", "';' means nothing here", 7),
    ("x & y", "'&' means nothing here", 3),
    ("größe = 1", "write it in double quotes", 3),
    ("x = '\ud800'", "a lone surrogate", 6),
    ("x = 'a' OR y = '" + "b" * 4096 + "'", "at most 4,096 are possible", 4097),
    ("NOT " * 33 + "x = 1", "nested deeper than 32", 129),
    ("(" * 33 + "x = 1" + ")" * 33, "nested deeper than 32", 33),
    (" OR ".join(["x = 1"] * 65), "more than 64 predicates", 64 * 9 + 1),
    (f"x IN ({', '.join(['1'] * 65)})", "more than 64 predicates", 7 + 64 * 3),
    (f"x = 1 OR x IN ({', '.join(['1'] * 64)})", "more than 64 predicates", 16 + 63 * 3),
]


@pytest.mark.parametrize(("text", "reason", "column"), BAD)
def test_refuses_with_reason_and_column(text, reason, column):
    with pytest.raises(FilterError) as caught:
        parse_filter(text)
    assert reason in caught.value.reason
    assert caught.value.column == column
    assert caught.value.text == text
    assert f"(column {column})" in str(caught.value) or not text


def test_limits_are_reached_and_not_crossed():
    assert parse_filter("(" * 32 + "x = 1" + ")" * 32) == parse_filter("x = 1")
    assert parse_filter(f"x IN ({', '.join(map(str, range(64)))})").matches({"x": 63})
    fitting = "x = '" + "b" * (WRITTEN.text_bytes - 6) + "'"
    assert len(fitting) == WRITTEN.text_bytes
    assert parse_filter(fitting).matches({"x": "b" * 4090})


def test_the_deepest_nesting_and_the_longest_text_end_quickly_in_an_error():
    for text in ("(" * 4096, "NOT " * 1024, "x IN (" * 600):
        with pytest.raises(FilterError):
            parse_filter(text)


def test_internal_texts_may_be_longer_than_users_may_write():
    text = f"x IN ({', '.join(map(str, range(700)))})"
    with pytest.raises(FilterError):
        parse_filter(text)
    assert parse_internal(text).text == text


@examples(400)
@given(
    st.lists(
        st.sampled_from(
            [
                *"()x=5,%",
                "'a'",
                "AND",
                "OR",
                "NOT",
                "IN",
                "BETWEEN",
                "LIKE",
                "IS",
                "NULL",
                "EXISTS",
                "TRUE",
                "<",
                "X'",
            ]
        ),
        max_size=12,
    )
)
def test_any_text_is_read_or_refused_at_a_place_within_it(words):
    text = " ".join(words)
    made = error = None
    try:
        made = parse_filter(text)
    except FilterError as raised:
        error = raised
    if error is not None:
        assert 1 <= error.column <= len(text) + 1
    else:
        assert parse_internal(made.text) == made


# On the wire -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        " AND ".join(f"(a{n} = 1 OR b{n} = 2)" for n in range(32)),
        " AND ".join(f"(a = {n} OR a = 'x{n}')" for n in range(32)),
        " OR ".join(f"a{n} = {n}" for n in range(ASKED.conjunctions + 1)),
        "((a = 1))",
        "NOT (a = 1 OR a = 3)",
        "(a = 1 OR EXISTS a)",
    ],
    ids=["several attributes", "several types", "too many", "nested", "negated", "any value"],
)
@pytest.mark.parametrize("parse", [parse_asked, parse_internal])
def test_what_no_normal_form_is_is_refused_before_it_costs_anything(parse, text):
    with pytest.raises(FilterError):
        parse(text)


def test_a_clients_filter_has_limits_that_a_merged_one_has_not():
    for text in (" AND ".join(f"a LIKE '%{n}%'" for n in range(129)), "a = '" + "x" * 1_100_000 + "'"):
        with pytest.raises(FilterError):
            parse_asked(text)
    merged = f"a IN ({', '.join(str(2 * n) for n in range(600))})"
    assert parse_internal(merged).text == merged
    with pytest.raises(FilterError, match="conditions in normal form"):
        parse_asked(merged)


def test_the_longest_filter_that_a_user_can_write_is_one_that_a_client_can_send():
    pairs = " AND ".join(f"(a{n} = {n} OR b{n} = {n})" for n in range(6))
    wanted = parse_filter(f"{pairs} AND c = '{'x' * 250}'")
    assert len(wanted.conjunctions) == ASKED.conjunctions
    assert parse_asked(wanted.text) == wanted


def test_long_texts_are_not_remembered():
    text = "a = '" + "x" * 5_000 + "'"
    assert parse_asked(text) is not parse_asked(text)
    assert parse_asked("a = 'x'") is parse_asked("a = 'x'")
