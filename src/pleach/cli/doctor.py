"""`pleach doctor`: what is missing on this machine, and how to get it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

JAVA_SECONDS_MAX = 20


@dataclass(frozen=True)
class Finding:
    part: str
    needed_for: str
    found: str  # empty: missing
    remedy: str
    required: bool = False

    @property
    def ok(self) -> bool:
        return bool(self.found)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per part.")] = False,
) -> None:
    """Say which parts are here, which are missing, what for, and how to get them.

    Exits with 1 if a required part is missing. Example: `pleach doctor`
    """
    findings = [check() for check in CHECKS]
    if as_json:
        for finding in findings:
            typer.echo(msgspec.json.encode({**asdict(finding), "ok": finding.ok}).decode())
    else:
        _print(findings)
    if any(finding.required and not finding.ok for finding in findings):
        raise typer.Exit(1)


def _print(findings: list[Finding]) -> None:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("", "part", "found", "needed for", "how to get it"):
        table.add_column(column)
    for finding in findings:
        mark = "[green]✓[/]" if finding.ok else "[red]✗[/]" if finding.required else "[yellow]–[/]"
        remedy = "" if finding.ok else finding.remedy.replace("[", r"\[")
        table.add_row(mark, finding.part, finding.found or "missing", finding.needed_for, remedy)
    Console().print(table)


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3])) if sys.version_info >= (3, 11) else ""
    return Finding("python ≥ 3.11", "everything", found, "install Python 3.11 or later", required=True)


def _package(name: str, needed_for: str, remedy: str, *, required: bool = False) -> Callable[[], Finding]:
    def check() -> Finding:
        try:
            found = version(name)
        except PackageNotFoundError:
            found = ""
        return Finding(name, needed_for, found, remedy, required)

    return check


def _java() -> Finding:
    return Finding("java ≥ 17", "Spark", _java_version(), "install a Java 17 runtime, such as openjdk-17-jre-headless")


def _java_version() -> str:
    """The version, if a Java that is recent enough answers."""
    java = shutil.which("java")
    if java is None:
        return ""
    answer = subprocess.run(  # noqa: S603 - the path is the user's own java
        [java, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS_MAX, check=False
    )
    words = answer.stderr.split('"')
    major = words[1].split(".")[0] if len(words) > 1 else ""
    return words[1] if major.isdecimal() and int(major) >= 17 else ""


CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _package("msgspec", "messages", "pip install pleach", required=True),
    _package("pyarrow", "traces", "pip install 'pleach[trace]'"),
    _package("simpy", "pleach bench sim", "pip install 'pleach[bench]'"),
    _package("pyspark", "campaigns, audits of large traces", "pip install 'pleach[spark]'"),
    _java,
    _package("matplotlib", "figures", "pip install 'pleach[lab]'"),
)
