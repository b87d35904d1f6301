"""`[access]`: where the access file and the audit log are."""

from __future__ import annotations

import msgspec


class AccessSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    file: str  # read at the start and at SIGHUP (docs/reference/access.md)
    audit: str = ""  # the audit log of operators; empty: audit.log in data_dir, or stderr where there is none
