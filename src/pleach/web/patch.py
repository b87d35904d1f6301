"""The difference of two snapshots as a JSON merge patch (RFC 7396): null deletes, tables merge, the rest is replaced.

A snapshot has no nulls of its own: `plain` leaves them out. Then `merged(old, difference(old, new)) == new`, always.
page/merge.js is `merged` for browsers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pleach.web.snapshot import Snapshot


def plain(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as JSON values, without those that are None."""
    known: dict[str, Any] = _without_nulls(msgspec.to_builtins(snapshot))
    return known


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for name, value in new.items():
        before = old.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if inner := difference(before, value):
                patch[name] = inner
        elif before != value or name not in old:
            patch[name] = value
    return patch


def merged(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a patch, as browsers do."""
    result = dict(old)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict) and isinstance(result.get(name), dict):
            result[name] = merged(result[name], value)
        else:
            result[name] = value
    return result


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
