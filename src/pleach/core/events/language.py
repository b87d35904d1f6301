"""The filter language: texts such as `topic = 't1' AND price > 50` become filters.

    filter      := term { OR term }
    term        := factor { AND factor }
    factor      := NOT factor | ( filter ) | TRUE | FALSE | EXISTS name | predicate
    predicate   := name comparison literal | literal comparison name
                 | name IS [NOT] NULL | name [NOT] IN ( literal {, literal} )
                 | name [NOT] BETWEEN literal AND literal | name [NOT] LIKE pattern
    comparison  := = | <> | != | < | <= | > | >=
    literal     := 'text' | 5 | -2.5e3 | TRUE | FALSE | X'0aff'

Keywords may be written in any case, names are case-sensitive. Within a text '' stands for a quote, within a
quoted name "" does. In a pattern % stands for any characters, at its ends only; \\% \\_ \\\\ for themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

from pleach.core.events import predicates
from pleach.core.events.budget import ASKED, CARRIED, WRITTEN, FilterBudget
from pleach.core.events.constraint import Constraint, TypeConstraint
from pleach.core.events.expression import And, Constant, Expression, Not, Or, Predicate
from pleach.core.events.filter import Filter
from pleach.core.events.normalise import normalise
from pleach.core.events.predicates import kind_of
from pleach.core.events.sized_cache import SizedCache
from pleach.core.events.tokens import Sort, Token, shown, tokens_of
from pleach.errors import FilterError

REMEMBERED_CHARACTERS_MAX = 1024  # longer texts are not cached
# Without patterns, 64 predicates in 8 conjunctions are 512 conditions at most, and far from the limit of steps.
PLAIN_CHARACTERS_MAX, PLAIN_CONJUNCTIONS_MAX = 512, 8

# A filter takes at most some 100 bytes of memory for each character of its normal form (the densest: `a = 1 OR b = 1`),
# so that each of the two caches holds at most 25 MB; with texts of 40 characters, 3,200 and 6,400 filters.
FILTER_CHARACTERS_REMEMBERED = 262_144
_filters: SizedCache[tuple[str, FilterBudget], Filter] = SizedCache(FILTER_CHARACTERS_REMEMBERED)
_interned: SizedCache[Filter, Filter] = SizedCache(FILTER_CHARACTERS_REMEMBERED)  # the first of equal filters

COMPARISONS: MappingProxyType[str, Callable[[Any], Constraint]] = MappingProxyType(
    {
        "=": predicates.equals,
        "<>": predicates.differs,
        "<": predicates.less,
        "<=": predicates.at_most,
        ">": predicates.greater,
        ">=": predicates.at_least,
    }
)
FLIPPED = MappingProxyType({"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="})
KIND_NAMES = MappingProxyType(
    {
        TypeConstraint.NUMBER: "a number",
        TypeConstraint.STRING: "a string",
        TypeConstraint.BOOLEAN: "a boolean",
        TypeConstraint.BYTES: "bytes",
    }
)


def parse_filter(text: str) -> Filter:
    """The filter of a user's text; raises FilterError."""
    return _parsed(text, WRITTEN)


def check_filter(text: str) -> None:
    """Raises FilterError where `parse_filter` would; quicker, as a plain filter is not normalised: that cannot fail."""
    _check_text(text, WRITTEN)
    expression = _Parser(text, WRITTEN).whole()
    is_short = len(text) <= PLAIN_CHARACTERS_MAX and "LIKE" not in text.upper()
    if not is_short or _conjunctions_max(expression, is_negated=False) > PLAIN_CONJUNCTIONS_MAX:
        parse_filter(text)


def _conjunctions_max(expression: Expression, *, is_negated: bool) -> int:
    """How many conjunctions the normal form has at most."""
    match expression:
        case Not(part):
            return _conjunctions_max(part, is_negated=not is_negated)
        case And(parts) | Or(parts):
            counts = [_conjunctions_max(part, is_negated=is_negated) for part in parts]
            is_sum = isinstance(expression, Or) is not is_negated
            return sum(counts) if is_sum else math.prod(counts)
        case _:
            return 1


def parse_asked(text: str) -> Filter:
    """For the `Filter.text` of a user's filter, as a client sends it."""
    return _parsed(text, ASKED)


def parse_internal(text: str) -> Filter:
    """For any `Filter.text` that a broker makes: effective, or merged."""
    return _parsed(text, CARRIED)


def _parsed(text: str, budget: FilterBudget) -> Filter:
    if len(text) > REMEMBERED_CHARACTERS_MAX:
        return _read(text, budget)
    made = _filters.get((text, budget))
    if made is None:
        made = _read(text, budget)
        size = len(made.text)
        if size > REMEMBERED_CHARACTERS_MAX:
            return made
        made = _interned.setdefault(made, made, size)
        _filters.setdefault((text, budget), made, len(text) + size)
    return made


def _read(text: str, budget: FilterBudget) -> Filter:
    _check_text(text, budget)
    expression = _Parser(text, budget).whole()
    try:
        return normalise(expression, budget)
    except FilterError as error:
        raise FilterError(error.reason, text=text) from None


def _check_text(text: str, budget: FilterBudget) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        reason = "the text is not valid Unicode: a lone surrogate"
        raise FilterError(reason, text=text, column=error.start + 1) from None
    if size > budget.text_bytes:
        fitting = len(text.encode()[: budget.text_bytes].decode(errors="ignore"))
        reason = f"the text has {size:,} bytes, at most {budget.text_bytes:,} are possible"
        raise FilterError(reason, text=text, column=fitting + 1)


def _subjects(expression: Expression) -> Iterator[object]:
    """The attributes of a flat expression with the kinds of their values; constants as they are."""
    match expression:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _subjects(part)
        case Predicate(attribute, constraint):
            yield attribute, constraint.kind
        case _:
            yield expression


class _Parser:
    """Recursive descent; only parentheses and NOT descend, and `FilterBudget.depth` bounds them."""

    def __init__(self, text: str, budget: FilterBudget) -> None:
        self._text = text
        self._budget = budget
        self._tokens = tokens_of(text)
        self._position = 0
        self._predicates = 0
        self._depth = 0

    def whole(self) -> Expression:
        expression = self._either()
        if self._next.sort is not Sort.END:
            raise self._found("AND, OR or the end of the text")
        return expression

    def _either(self) -> Expression:
        parts = [self._together()]
        while self._take("OR"):
            parts.append(self._together())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _together(self) -> Expression:
        parts = [self._factor()]
        while self._take("AND"):
            parts.append(self._factor())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _factor(self) -> Expression:
        token = self._next
        match token.sort, token.value:
            case Sort.KEYWORD, "NOT":
                return Not(self._deeper(self._factor))
            case Sort.MARK, "(":
                return self._deeper(self._parenthesised)
            case Sort.KEYWORD, "EXISTS":
                self._count(self._advance())
                return Predicate(self._name("after EXISTS"), predicates.exists())
            case Sort.KEYWORD, "TRUE" | "FALSE" if self._tokens[self._position + 1].sort is not Sort.OPERATOR:
                return Constant(self._advance().value == "TRUE")
            case Sort.NAME, name:
                self._count(self._advance())
                return Predicate(name, self._asked_of_name())
            case (Sort.LITERAL, _) | (Sort.KEYWORD, "TRUE" | "FALSE"):
                return self._flipped()
            case _:
                raise self._found("a condition (such as price > 50)")

    def _deeper(self, parse: Callable[[], Expression]) -> Expression:
        opening = self._advance()
        if self._depth == self._budget.depth:
            raise self._error(f"parentheses and NOT are nested deeper than {self._budget.depth} levels", opening)
        self._depth += 1
        expression = parse()
        self._depth -= 1
        return expression

    def _parenthesised(self) -> Expression:
        opening = self._tokens[self._position - 1]
        expression = self._either()
        self._expect(")", "AND, OR or )")
        if self._budget.is_normal and len({*_subjects(expression)}) > 1:
            raise self._error("in normal form parentheses hold alternatives of one attribute and one type", opening)
        return expression

    def _flipped(self) -> Expression:
        """A literal on the left: `5 < x` is `x > 5`."""
        literal = self._next
        self._count(literal)
        value = self._literal("on the left")
        operator = self._operator("a comparison after the literal")
        if self._next.sort is Sort.LITERAL:
            raise self._found("an attribute name (one side of a comparison is an attribute)")
        name = self._name("on the other side of the literal")
        return Predicate(name, self._compared(FLIPPED[operator.value], value, literal))

    def _asked_of_name(self) -> Constraint:
        if self._next.sort is Sort.OPERATOR:
            operator = self._advance()
            literal = self._next
            return self._compared(operator.value, self._literal("after " + operator.shown), literal)
        if self._take("IS"):
            constraint = predicates.exists() if self._take("NOT") else predicates.absent()
            self._expect("NULL", "NULL or NOT NULL after IS")
            return constraint
        negated = self._take("NOT")
        constraint = self._listed_ranged_or_like(negated=negated)
        return predicates.opposite(constraint) if negated else constraint

    def _listed_ranged_or_like(self, *, negated: bool) -> Constraint:
        if self._take("IN"):
            return self._in()
        if self._take("BETWEEN"):
            return self._between()
        if self._take("LIKE"):
            return self._like()
        choice = "IN, BETWEEN or LIKE"
        raise self._found(f"{choice} after NOT" if negated else f"a comparison, {choice} or IS [NOT] NULL")

    def _compared(self, operator: str, value: Any, literal: Token) -> Constraint:
        if operator not in ("=", "<>"):
            self._check_ordered(value, literal)
        return COMPARISONS[operator](value)

    def _in(self) -> Constraint:
        self._expect("(", "( after IN")
        values = [self._literal("in the list of IN")]
        while self._take(","):
            element = self._next
            self._count(element)
            values.append(self._literal("in the list of IN"))
            self._check_same_kind(values[0], values[-1], element)
        self._expect(")", ", or ) in the list of IN")
        return predicates.one_of(values)

    def _between(self) -> Constraint:
        first = self._next
        low = self._literal("after BETWEEN")
        self._check_ordered(low, first)
        self._expect("AND", "AND between the ends of BETWEEN")
        second = self._next
        high = self._literal("as the upper end of BETWEEN")
        self._check_same_kind(low, high, second)
        return predicates.between(low, high)

    def _like(self) -> Constraint:
        token = self._next
        pattern = self._literal("after LIKE")
        if not isinstance(pattern, str):
            raise self._error(f"LIKE takes a string such as 'ab%', found {shown(token)}", token)
        return self._pattern(pattern, token)

    def _pattern(self, pattern: str, token: Token) -> Constraint:
        pieces = self._pieces(pattern, token)
        match pieces:
            case [text]:
                return predicates.equals(text)
            case [text, ""]:
                return predicates.prefix(text)
            case ["", text]:
                return predicates.suffix(text)
            case ["", text, ""]:
                return predicates.contains(text)
            case _:
                raise self._error("% may stand at the ends of a pattern only: 'ab%', '%ab' or '%ab%'", token)

    def _pieces(self, pattern: str, token: Token) -> list[str]:
        """The pattern split at its percent signs, escapes resolved."""
        pieces: list[list[str]] = [[]]
        characters = iter(pattern)
        for character in characters:
            match character:
                case "%":
                    pieces.append([])
                case "_":
                    raise self._error("_ is no wildcard here: % alone is possible, and \\_ for an underscore", token)
                case "\\":
                    pieces[-1].append(self._escaped(next(characters, ""), token))
                case _:
                    pieces[-1].append(character)
        return ["".join(piece) for piece in pieces]

    def _escaped(self, character: str, token: Token) -> str:
        if character not in ("%", "_", "\\"):
            raise self._error("a backslash in a pattern stands before %, _ or another backslash only", token)
        return character

    def _name(self, where: str) -> str:
        if self._next.sort is not Sort.NAME:
            raise self._found(f"an attribute name {where}")
        name: str = self._advance().value
        return name

    def _operator(self, wanted: str) -> Token:
        if self._next.sort is not Sort.OPERATOR:
            raise self._found(wanted)
        return self._advance()

    def _literal(self, where: str) -> Any:
        token = self._next
        match token.sort, token.value:
            case Sort.LITERAL, value:
                self._advance()
                return value
            case Sort.KEYWORD, "TRUE" | "FALSE":
                self._advance()
                return token.value == "TRUE"
            case Sort.NAME, _:
                raise self._error(
                    f"found {shown(token)}, wanted a literal {where}: strings are quoted like 'this'", token
                )
            case _:
                raise self._found(f"a literal {where}")

    def _check_ordered(self, value: Any, token: Token) -> None:
        if isinstance(value, bool):
            raise self._error("TRUE and FALSE have no order: compare them by = or <>", token)

    def _check_same_kind(self, first: Any, other: Any, token: Token) -> None:
        if kind_of(first) is not kind_of(other):
            wanted, found = KIND_NAMES[kind_of(first)], KIND_NAMES[kind_of(other)]
            raise self._error(f"found {shown(token)}, {found}, beside {wanted}: literals of one type are wanted", token)

    def _count(self, token: Token) -> None:
        self._predicates += 1
        if self._predicates > self._budget.predicates:
            limit = self._budget.predicates
            raise self._error(f"more than {limit} predicates (each element of IN is one): use several filters", token)

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _advance(self) -> Token:
        token = self._next
        self._position += 1
        return token

    def _take(self, word: str) -> bool:
        """Step over `word`, a keyword or mark, if it comes next."""
        token = self._next
        if token.value != word or token.sort not in (Sort.KEYWORD, Sort.MARK):
            return False
        self._position += 1
        return True

    def _expect(self, word: str, wanted: str) -> None:
        if not self._take(word):
            raise self._found(wanted)

    def _found(self, wanted: str) -> FilterError:
        return self._error(f"found {shown(self._next)}, wanted {wanted}", self._next)

    def _error(self, reason: str, token: Token) -> FilterError:
        return FilterError(reason, text=self._text, column=token.column)
