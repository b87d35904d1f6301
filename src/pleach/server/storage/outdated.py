"""The mark of a data directory that was put back from an old copy: a file with the reason, which keeps it closed.

A neighbour knows more of such a broker than the broker itself (core/links/session.py, rule 9), and the process ends.
Started again and again, it would number new payloads in the moments before it meets a neighbour, until the numbers are
as high as the neighbour's, and nobody could tell any more. So the directory is not opened again, until it is replaced:
by a fill, which takes the mark away (`settle_fill`), or by an operator.
"""

from __future__ import annotations

import os
from pathlib import Path

from pleach.disk.private_files import open_private, sync_folder
from pleach.errors import OutdatedStoreError

OUTDATED = "pleach.outdated"
REASON_BYTES_MAX = 4_096


def mark_outdated(folder: Path, reason: str) -> None:
    descriptor = open_private(folder / OUTDATED)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, reason.encode()[:REASON_BYTES_MAX])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(folder)


def refuse_outdated(folder: Path) -> None:
    """Raises OutdatedStoreError where there is a mark."""
    mark = folder / OUTDATED
    if mark.exists():
        raise OutdatedStoreError(folder, mark.read_text(encoding="utf-8", errors="replace"))
