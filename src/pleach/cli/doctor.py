"""`pleach doctor`: which optional parts are installed, how to install the missing ones, and whether data is sound."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from pleach.cli.terminal import Console
from pleach.errors import MissingPartError
from pleach.spark.java import OLDEST_JAVA, REMEDY, find_java

JAVA_PART = f"java ≥ {OLDEST_JAVA}"
JAVA_USE = "Spark"


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
    data_dir: Annotated[
        Path | None, typer.Option(help="Check this data directory of a stopped broker for damage, and nothing else.")
    ] = None,
) -> None:
    """List the parts that are installed or missing, what they are needed for, and how to install them.

    Exits with 1 if a required part is missing, with 2 if the data directory is damaged. Example: `pleach doctor`
    """
    if data_dir is not None:
        _check_data(data_dir, as_json=as_json)
        return
    findings = [check() for check in CHECKS]
    if as_json:
        for finding in findings:
            typer.echo(msgspec.json.encode({**asdict(finding), "ok": finding.ok}).decode())
    else:
        _print(findings)
    if any(finding.required and not finding.ok for finding in findings):
        raise typer.Exit(1)


def _check_data(directory: Path, *, as_json: bool) -> None:
    from pleach.server.storage.database import inspect_store  # noqa: PLC0415 - only here

    found = inspect_store(directory)
    if as_json:
        typer.echo(msgspec.json.encode({"ok": True, **found._asdict()}).decode())
    else:
        waiting = f"{found.waiting:,} payloads wait in it" if found.waiting else "nothing waits in it"
        typer.echo(f"{directory} is sound: broker {found.name}, {found.commits:,} commits, {waiting}")


def _print(findings: list[Finding]) -> None:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("", "part", "found", "needed for", "how to install"):
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
    try:
        java = find_java()
    except MissingPartError:
        return Finding(JAVA_PART, JAVA_USE, "", REMEDY)
    return Finding(JAVA_PART, JAVA_USE, f"{java.version} ({java.origin})", REMEDY)


CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _package("msgspec", "messages", "pip install pleach", required=True),
    _package("pyarrow", "traces", "pip install 'pleach[trace]'"),
    _package("simpy", "pleach bench sim", "pip install 'pleach[bench]'"),
    _package("pyspark", "campaigns, audits of large traces, streams", "pip install 'pleach[spark]'"),
    _package("pandas", "Spark", "pip install 'pleach[spark]'"),
    _java,
    _package("matplotlib", "figures", "pip install 'pleach[lab]'"),
)
