"""Folders and files that only their owner may read, whatever the umask.

A folder that exists keeps its mode: it may be one that others use, too. The files in it are private all the same.
SQLite gives a log the mode of its database, so a database is created here before SQLite opens it.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o700, 0o600


def make_private_folder(path: Path) -> None:
    if path.is_dir():
        return
    path.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    path.chmod(FOLDER_MODE)


def open_private(path: Path) -> int:
    """A descriptor for reading and writing; the file is created where there is none."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        if os.fstat(descriptor).st_mode & 0o777 != FILE_MODE:
            os.fchmod(descriptor, FILE_MODE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_private(path: Path) -> None:
    os.close(open_private(path))


def sync_folder(path: Path) -> None:
    """The names of new files are to last as well."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
