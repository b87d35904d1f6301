"""The version of a measurement: a digest of every module of the package that it imports, directly or indirectly.

Results of two versions of the code must not be mixed, while a change elsewhere, as in a command, must not invalidate
hours of measurements. Comments and layout do not count: the syntax trees are digested.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pleach
from pleach.lab.experiment import Experiment

PACKAGE = pleach.__name__
DIGITS = 12
# Imported by experiments for their figures and findings only.
PRESENTATION = frozenset(f"{PACKAGE}.lab.{name}" for name in ("findings", "figure_style", "trends"))


def code_version(experiment: Experiment) -> str:
    """Equal if nothing has changed that the measurement could depend on: "0.1.0+3f2a…"."""
    measure = getattr(experiment.measure, "func", experiment.measure)  # of a partial
    return f"{pleach.__version__}+{_digest(sorted(_reached_from(measure.__module__)))}"


def _digest(modules: Sequence[str]) -> str:
    digest = sha256()
    for name in modules:
        digest.update(f"{name}\n{ast.dump(_parsed(name))}\n".encode())
    return digest.hexdigest()[:DIGITS]


def _reached_from(module: str) -> set[str]:
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in reached | PRESENTATION:
            reached.add(name)
            waiting.extend(_imported_by(name))
    return reached


@cache
def _imported_by(module: str) -> frozenset[str]:
    """Modules of ours; what is imported within a function or for types counts, too."""
    return frozenset(
        name for node in ast.walk(_parsed(module)) for name in _names(node) if name.partition(".")[0] == PACKAGE
    )


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            yield module
            yield from filter(_source, (f"{module}.{alias.name}" for alias in names))


@cache
def _source(module: str) -> Path | None:
    """The file of a module; None where the name is none of a module, but of something in one."""
    try:
        spec = find_spec(module) if module.partition(".")[0] == PACKAGE else None
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec and spec.origin else None


@cache
def _parsed(module: str) -> ast.Module:
    path = _source(module)
    return ast.parse(path.read_bytes() if path else b"")
