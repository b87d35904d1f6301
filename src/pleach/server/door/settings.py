"""`[access]`: where the access file is."""

from __future__ import annotations

import msgspec


class AccessSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    file: str  # read at the start and at SIGHUP (docs/reference/access.md)
