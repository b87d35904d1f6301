"""A covering array of features: every pair that goes together is in one of its rows.

Seed s begins with row s mod N, so that any N consecutive seeds have every pair, and draws the other features by chance,
so that triples occur. There is one array for networks without standbys, one for those with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from random import Random
from types import MappingProxyType

from support.everything.features import (
    COPIES,
    ONE_OF,
    Feature,
    Features,
    Pair,
    completed,
    goes_with,
    why_not,
)

ROW_MAX = 12  # features of a row; the others of a seed are drawn by chance
SHARES = MappingProxyType(
    {
        Feature.REBUILD: 0.03,
        Feature.REBUILD_PACED: 0.04,
        Feature.LEASES: 0.35,
        Feature.HIERARCHICAL: 0.2,
        Feature.RING: 0.2,
        Feature.SERVICE: 0.2,
        Feature.DESTROY: 0.9,
        Feature.BACKUPS: 0.1,
    }
)
SHARE_USUAL = 0.4
WITHOUT, WITH = "without standbys", "with standbys"


def world(*, standby: bool) -> tuple[Feature, ...]:
    """The features that networks with standbys, or without them, may have."""
    copies = (Feature.COPIES_2, Feature.COPIES_3) if standby else (Feature.ONE_COPY,)
    others = [feature for feature in Feature if feature not in COPIES]
    return (*copies, *(each for each in others if any(not why_not(frozenset({each, value})) for value in copies)))


def allowed_pairs(*, standby: bool) -> tuple[Pair, ...]:
    return pairs_among(world(standby=standby))


def rows(*, standby: bool) -> tuple[frozenset[Feature], ...]:
    return array_of(world(standby=standby))


@lru_cache(maxsize=8)
def pairs_among(features: tuple[Feature, ...]) -> tuple[Pair, ...]:
    """Those that go together, with nothing else than these features."""
    known = frozenset(features)
    pairs = map(frozenset, combinations(known, 2))
    return tuple(sorted((pair for pair in pairs if not why_not(pair) and completed(pair) <= known), key=sorted))


@lru_cache(maxsize=8)
def array_of(features: tuple[Feature, ...]) -> tuple[frozenset[Feature], ...]:
    """Greedy: each row begins with a pair that is missing, and takes in what brings most others that are."""
    missing = set(pairs_among(features))
    found = []
    while missing:
        row = completed(min(missing, key=sorted))
        while len(row) < ROW_MAX and (more := _best_addition(row, features, missing)):
            row = more
        found.append(row)
        missing -= set(map(frozenset, combinations(row, 2)))
    return tuple(found)


def _best_addition(row: frozenset[Feature], features: Sequence[Feature], missing: set[Pair]) -> frozenset[Feature]:
    """Empty if nothing that is missing can be brought in."""
    additions = [more for each in features if each not in row and (more := _with(row, each))]
    best = max(additions, key=lambda more: _news(more, missing), default=row)
    return best if _news(best, missing) > _news(row, missing) else frozenset()


def _news(row: frozenset[Feature], missing: set[Pair]) -> int:
    return sum(frozenset(pair) in missing for pair in combinations(row, 2))


def _with(row: frozenset[Feature], feature: Feature) -> frozenset[Feature]:
    """The row with the feature and what that needs; empty if it does not go."""
    return completed(row | {feature}) if goes_with(feature, row) else frozenset()


def drawn_features(seed: int, stream: Random, *, standby: bool, copies: int = 0) -> Features:
    """`copies`: so many for certain, and as many machines less one are lost at once; 0: as drawn."""
    array, features = rows(standby=standby), world(standby=standby)
    row = array[seed % len(array)]
    on, wanted = (_forced(copies), sorted(row)) if copies else (row, [])
    for feature in (*wanted, *_values(stream, features), *_chosen(stream, features)):
        on = _with(on, feature) or on
    return Features(on)


def with_values(row: frozenset[Feature], stream: Random, features: Sequence[Feature]) -> Features:
    """The features of a row, a value of each setting, and nothing else."""
    on = row
    for value in _values(stream, features):
        on = _with(on, value) or on
    return Features(on)


def _forced(copies: int) -> frozenset[Feature]:
    value = next(feature for feature, count in COPIES.items() if count == copies)
    return frozenset({value, Feature.DESTROY, *((Feature.TWO_AT_ONCE,) if copies > 2 else ())})


def _values(stream: Random, features: Sequence[Feature]) -> list[Feature]:
    """All values of each setting, in any order: the first that goes is taken."""
    known = [[each for each in group if each in features] for group in ONE_OF]
    return [value for group in known for value in stream.sample(group, len(group))]


def _chosen(stream: Random, features: Sequence[Feature]) -> list[Feature]:
    chosen = [feature for feature in features if stream.random() < SHARES.get(feature, SHARE_USUAL)]
    return stream.sample(chosen, len(chosen))
