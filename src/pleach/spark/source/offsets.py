"""A stream's offsets, as they stand in Spark's checkpoint: a place in each partition's session.

    {"version": 1}                                                          the beginning: nobody has subscribed yet
    {"version": 1, "0": {"filter": "f3c1…", "place": {"broker": "a", "at": 57, …}}, "1": …}

A place says in which life of client and broker it is, so that it never stands for anything else later on. The filter
is remembered by a digest: a session has the subscription that it was begun with, whatever the options say now.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pleach.client.reader import ReadPosition
from pleach.errors import SettingsError
from pleach.spark.source.options import FORMAT, Share

VERSION = 1
BEGINNING: Mapping[str, Any] = {"version": VERSION}
DIGEST_CHARACTERS = 16


class PartitionOffset(msgspec.Struct, frozen=True):
    filter: str
    place: ReadPosition


def digest(share: Share) -> str:
    return hashlib.sha256(share.filter.text.encode()).hexdigest()[:DIGEST_CHARACTERS]


def offset_of(shares: Sequence[Share], places: Sequence[ReadPosition]) -> dict[str, Any]:
    parts = (PartitionOffset(digest(share), place) for share, place in zip(shares, places, strict=True))
    return {**BEGINNING, **{str(number): msgspec.to_builtins(part) for number, part in enumerate(parts)}}


def places_in(offset: Mapping[str, Any], shares: Sequence[Share]) -> list[ReadPosition] | None:
    """The place in each partition; None at the beginning. Raises SettingsError where the options are others by now."""
    if offset.get("version") != VERSION:
        raise _wrong(f"the checkpoint is of version {offset.get('version')}; this Pleach knows {VERSION}")
    if len(offset) == 1:
        return None
    try:
        parts = [msgspec.convert(offset[str(number)], PartitionOffset) for number in range(len(offset) - 1)]
    except (KeyError, msgspec.ValidationError) as error:
        raise _wrong(f"the checkpoint holds no offset of ours ({error})") from None
    if [part.filter for part in parts] != [digest(share) for share in shares]:
        raise _wrong("filter or split are not those that the checkpoint was made with")
    return [part.place for part in parts]


def is_same_session(one: ReadPosition, other: ReadPosition) -> bool:
    return (one.broker, one.life, one.epoch) == (other.broker, other.life, other.epoch)


def _wrong(reason: str) -> SettingsError:
    remedy = "use the options that it was made with, or another checkpointLocation and another name"
    return SettingsError("checkpointLocation", reason, remedy, source=FORMAT)
