"""The package on its way to executors: a zip of its sources, which Spark copies to whoever runs a task."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import pleach
from pleach.lake.manifest import write_whole
from pleach.spark.java import cache_folder

SHIPPED_SUFFIXES = frozenset({".py", ".toml", ".properties"})
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the earliest date that a zip can name: equal sources give equal bytes


def package_zip() -> Path:
    """A zip with this package, named after its content; made once per version of the sources."""
    root = Path(pleach.__file__).parent
    content = _zipped(root)
    path = cache_folder() / f"sources-{hashlib.sha256(content).hexdigest()[:16]}" / "pleach-sources.zip"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    return path


def _zipped(root: Path) -> bytes:
    sources = sorted(path for path in root.rglob("*") if path.suffix in SHIPPED_SUFFIXES)
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sources:
            name = (Path(root.name) / path.relative_to(root)).as_posix()
            archive.writestr(zipfile.ZipInfo(name, LONG_AGO), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return memory.getvalue()
