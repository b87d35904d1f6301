"""The version of the code: that of the package, and a digest of its sources."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

DIGITS = 12
ROOT = Path(__file__).parents[1]


@cache
def code_version() -> str:
    """Equal for equal sources: "0.1.0+3f2a…"."""
    digest = sha256()
    for path in sorted(ROOT.rglob("*.py")):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    return f"{version('pleach')}+{digest.hexdigest()[:DIGITS]}"
