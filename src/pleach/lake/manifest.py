"""What is known of a run without opening its files, kept beside them."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from pleach.errors import LakeError

FILE_NAME = "_manifest.json"  # a leading underscore: Spark and others leave it alone
FOLDER_PREFIX = "run="
FORMAT = 1


class Part(msgspec.Struct, frozen=True):
    """One Parquet file."""

    name: str
    rows: int
    bytes: int


class Manifest(msgspec.Struct, frozen=True):
    """`about` says where the rows come from: scenario, seed, code. A run that is not `complete` may still grow."""

    table: str
    run: str
    columns: dict[str, str]
    parts: tuple[Part, ...] = ()
    about: dict[str, str | int | float | bool] = {}
    complete: bool = False
    format: int = FORMAT

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


def run_folder(table: Path, run: str) -> Path:
    """Names are escaped as Spark escapes them in partition folders, so that any text can name a run."""
    if not run:
        raise LakeError(f"{table}: a run needs a name")
    return table / (FOLDER_PREFIX + quote(run, safe=" +,-.@_~()!"))


def load_manifest(folder: Path) -> Manifest | None:
    """The manifest of a run's folder; None where there is none."""
    path = folder / FILE_NAME
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise LakeError(f"{path}: is no manifest ({error}); {remedy(folder)}") from None
    if manifest.format != FORMAT:
        raise LakeError(f"{path}: is of format {manifest.format}, this version knows {FORMAT}; update pleach")
    return manifest


def save_manifest(folder: Path, manifest: Manifest) -> None:
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    write_whole(folder / FILE_NAME, content)


def write_whole(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Nobody ever sees half of the file, also after a power failure, whoever else writes it at the same time."""
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    Path(unfinished).chmod(mode)
    Path(unfinished).replace(path)


def remedy(folder: Path) -> str:
    return f"make the run anew, or leave it out by removing {folder}"


def columns_of(schema: Any) -> dict[str, str]:
    """The columns of a file as a table declares them; what Arrow calls `element` or `item` in lists is one."""
    return {field.name: _type_name(field.type) for field in schema}


def _type_name(found: Any) -> str:
    inner = getattr(found, "value_type", None)
    return f"list<{_type_name(inner)}>" if inner is not None and str(found).startswith("list<") else str(found)
