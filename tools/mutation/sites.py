"""Where a module can be changed, and into what: one operator for each kind of mistake.

Rule 1: a change replaces a piece of text and keeps the number of lines, so that functions stay where they were.
Rule 2: left out is what no test should have to notice: annotations, texts, logging, assertions, and numbers with a name
        in capitals or of a field's default (of two limits, neither is wrong).
Rule 3: left out is what every test would notice: a local name that nobody assigned, a tuple that does not unpack.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
TWINS = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOGGING = ("log.", "self._log.", "logging.", "assert_never", "isinstance", "cast", "TypeVar")
TEXTS = ("__repr__", "__str__")
UNSEEN_FIELDS = {"annotation", "returns", "decorator_list", "bases", "type_comment", "format_spec"}


@dataclass(frozen=True, slots=True)
class Site:
    """One possible change. Scope, texts and `nth` find it again when the file has changed elsewhere."""

    path: str
    scope: str
    operator: str
    line: int
    start: int
    end: int
    before: str
    after: str
    nth: int = 0

    @property
    def key(self) -> tuple[str, str, str, str, str, int]:
        return self.path, self.scope, self.operator, self.before, self.after, self.nth

    def applied(self, source: str) -> str:
        raw = source.encode()
        lost = self.before.count("\n") - self.after.count("\n")
        return (raw[: self.start] + (self.after + "\n" * lost).encode() + raw[self.end :]).decode()

    def compiles(self, source: str) -> bool:
        try:
            compile(self.applied(source), self.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class _Change:
    operator: str
    first: ast.expr | ast.stmt | ast.pattern
    after: str
    last: ast.expr | ast.stmt | ast.pattern | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """What is around a node."""

    scope: str = ""
    parent: ast.AST | None = None
    in_function: bool = False

    def inside(self, node: ast.AST) -> _Place:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                return _Place(f"{self.scope}.{name}".lstrip("."), node, in_function=True)
            case ast.ClassDef(name=name):
                return _Place(f"{self.scope}.{name}".lstrip("."), node)
            case _:
                return replace(self, parent=node)


def sites(path: str, source: str) -> list[Site]:
    """All changes of a module, in the order of its text; a few of them do not compile."""
    text = _Text(source)
    found = list[Site]()
    same = Counter[tuple[str, ...]]()
    for place, change in _walk(ast.parse(source), _Place(), text):
        start, end = text.span(change.first, change.last or change.first)
        before = text.between(start, end)
        site = Site(path, place.scope, change.operator, change.first.lineno, start, end, before, change.after)
        if before != change.after:
            alike = (site.scope, site.operator, before, site.after)
            found.append(replace(site, nth=same[alike]))
            same[alike] += 1
    return sorted(found, key=lambda each: (each.start, each.operator, each.after))


class _Text:
    """Texts of nodes; `ast` counts columns in bytes."""

    def __init__(self, source: str) -> None:
        self._raw = source.encode()
        self._lines = [0, *(at + 1 for at, byte in enumerate(self._raw) if byte == ord("\n"))]

    def span(self, first: ast.AST, last: ast.AST) -> tuple[int, int]:
        start = self._lines[first.lineno - 1] + first.col_offset  # type: ignore[attr-defined]
        return start, self._lines[last.end_lineno - 1] + last.end_col_offset  # type: ignore[attr-defined]

    def between(self, start: int, end: int) -> str:
        return self._raw[start:end].decode()

    def of(self, node: ast.AST) -> str:
        return self.between(*self.span(node, node))

    def joined(self, operands: list[ast.expr], old: str, new: str) -> str:
        """The operands with another operator between them. What else is between them stays: brackets, ends of lines."""
        spans = [self.span(each, each) for each in operands]
        gaps = [self.between(end, start) for (_, end), (start, _) in pairwise(spans)]
        return self.of(operands[0]) + "".join(
            gap.replace(old, new, 1) + self.of(each) for gap, each in zip(gaps, operands[1:], strict=True)
        )


def _walk(node: ast.AST, place: _Place, text: _Text) -> Iterator[tuple[_Place, _Change]]:
    inner = place.inside(node)
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and field not in UNSEEN_FIELDS and not _is_unseen(child):
                yield from ((inner, change) for change in _changes(child, inner, text))
                if not isinstance(child, ast.Raise):  # what an error says is a text
                    yield from _walk(child, inner, text)


def _is_unseen(node: ast.AST) -> bool:
    """Rule 2."""
    match node:
        case ast.FunctionDef(name=name):
            return name in TEXTS
        case ast.AnnAssign(annotation=annotation):
            return "TypeAlias" in ast.unparse(annotation)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call() as call):
            return _is_unseen(call)
        case ast.Call(func=function):
            return ast.unparse(function).startswith(LOGGING)
        case _:
            return isinstance(node, ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Global)


def _changes(node: ast.AST, place: _Place, text: _Text) -> Iterator[_Change]:
    match node:
        case ast.expr():
            yield from _of_expression(node, place, text)
        case ast.stmt():
            yield from _of_statement(node, place, text)
        case ast.comprehension(ifs=conditions):
            yield from (_Change("negate", each, f"(not ({text.of(each)}))") for each in conditions)
        case ast.match_case():
            yield from _of_case(node, text)
        case ast.MatchOr(patterns=patterns):
            for left_out in patterns:
                kept = [text.of(each) for each in patterns if each is not left_out]
                yield _Change("element", node, f"({' | '.join(kept)})")


def _of_statement(node: ast.stmt, place: _Place, text: _Text) -> Iterator[_Change]:
    match node:
        case ast.If(test=condition) | ast.While(test=condition):
            if not isinstance(condition, ast.Constant):
                yield _Change("negate", condition, f"(not ({text.of(condition)}))")
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()) | ast.AugAssign() | ast.Delete() | ast.Raise():
            yield _Change("drop", node, "pass")
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) if place.in_function:
            yield _Change("drop", node, "pass")
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield _Change("return", value, "None")
        case ast.Break():
            yield _Change("loop", node, "continue")
        case ast.Continue():
            yield _Change("loop", node, "break")


def _of_expression(node: ast.expr, place: _Place, text: _Text) -> Iterator[_Change]:
    match node:
        case ast.IfExp(test=condition):
            yield _Change("negate", condition, f"(not ({text.of(condition)}))")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _Change("negate", node, f"({text.of(operand)})")
        case ast.Constant(value=bool(value)):
            yield _Change("constant", node, str(not value))
        case ast.Constant(value=int(value)) if place.in_function:
            yield from (_Change("constant", node, str(other)) for other in (value - 1, value + 1) if other >= 0)
        case ast.Call(func=ast.Name(id=name)) if name in TWINS:
            yield _Change("twin", node.func, TWINS[name])
        case ast.Call(args=[first, second, *_]) if not isinstance(second, ast.Starred):
            between = text.between(text.span(first, first)[1], text.span(second, second)[0])
            yield _Change("arguments", first, f"{text.of(second)}{between}{text.of(first)}", second)
        case ast.Compare() | ast.BoolOp() | ast.BinOp():
            yield from _of_operator(node, text)
        case ast.Set() | ast.List() | ast.Tuple() | ast.Dict():
            yield from _of_display(node, place, text)


def _of_operator(node: ast.Compare | ast.BoolOp | ast.BinOp, text: _Text) -> Iterator[_Change]:
    match node:
        case ast.Compare(left=left, ops=[operator, *_], comparators=[right, *_]):
            yield _Change("compare", left, text.joined([left, right], *COMPARISONS[type(operator)]), right)
        case ast.BoolOp(op=operator, values=values):
            words = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
            yield _Change("and/or", values[0], text.joined(values, *words), values[-1])
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            signs = ("+", "-") if isinstance(operator, ast.Add) else ("-", "+")
            yield _Change("arithmetic", left, text.joined([left, right], *signs), right)


def _of_display(node: ast.expr, place: _Place, text: _Text) -> Iterator[_Change]:
    match node:
        case ast.Set(elts=elements) | ast.List(elts=elements, ctx=ast.Load()) if len(elements) > 1:
            yield from _without_one(node, elements, text)
        case ast.Tuple(elts=elements, ctx=ast.Load()) if len(elements) > 1 and _is_enumerated(place):
            yield from _without_one(node, elements, text)
        case ast.Dict(keys=keys, values=values) if len(keys) > 1:
            yield from _without_entry(node, keys, values, text)


def _is_enumerated(place: _Place) -> bool:
    """Whether a tuple stands where it may have any length (rule 3)."""
    return isinstance(place.parent, ast.Compare | ast.For)


def _without_one(node: ast.expr, elements: list[ast.expr], text: _Text) -> Iterator[_Change]:
    opening, closing = {ast.Set: "{}", ast.List: "[]", ast.Tuple: "()"}[type(node)]
    for left_out in elements:
        kept = [text.of(each) for each in elements if each is not left_out]
        yield _Change("element", node, f"{opening}{', '.join(kept)},{closing}")


def _without_entry(
    node: ast.Dict, keys: list[ast.expr | None], values: list[ast.expr], text: _Text
) -> Iterator[_Change]:
    for left_out in keys:
        rest = [(key, value) for key, value in zip(keys, values, strict=True) if key is not left_out]
        rows = [f"{text.of(key)}: {text.of(value)}" if key else f"**{text.of(value)}" for key, value in rest]
        yield _Change("element", node, "{" + ", ".join(rows) + "}")


def _of_case(node: ast.match_case, text: _Text) -> Iterator[_Change]:
    """A case that never applies; not the one that type checkers ask for."""
    if not any(_is_unseen(each) for each in node.body):
        if node.guard is None:
            yield _Change("case", node.pattern, f"{text.of(node.pattern)} if False")
        else:
            yield _Change("case", node.guard, "False")
            yield _Change("negate", node.guard, f"not ({text.of(node.guard)})")
