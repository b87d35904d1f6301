"""The difference of two pictures as a JSON merge patch (RFC 7396): null takes away, tables merge, the rest is replaced.

A picture has no nulls of its own: `plain` leaves them out. Then `merged(old, difference(old, new)) == new`, always.
page/merge.js is `merged` for browsers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pleach.web.picture import Picture


def plain(picture: Picture) -> dict[str, Any]:
    """A picture as JSON values, without what is not known."""
    known: dict[str, Any] = _without_nulls(msgspec.to_builtins(picture))
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
    """What a browser does with a patch."""
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
