"""`pleach soak`: brokers with everything on, for hours, and a monkey."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from pleach.cli.interrupt import run_until_interrupted
from pleach.cli.terminal import Console, escape
from pleach.errors import InvalidInputError
from pleach.soak.actions import told as told_action
from pleach.soak.export import exported
from pleach.soak.log import Began, Ended, Entry, Finished, Header, Minute, Wrong, read_log, settings_in
from pleach.soak.monkey import Monkey
from pleach.soak.replay import Replay
from pleach.soak.report import SoakResult, write_report
from pleach.soak.run import SoakFiles
from pleach.soak.run import soak as run_soak
from pleach.soak.settings import WEIGHTS, SoakSettings

HOUR = 3_600.0
BROKERS_MIN, BROKERS_MAX = 3, 50
EXIT_WRONG, EXIT_INTERRUPTED = 1, 130


def soak(
    hours: Annotated[float, typer.Option(help="How long.", min=0.001)] = 0.5,
    seed: Annotated[int, typer.Option(help="Of the tree, the clients and the monkey.")] = 1,
    brokers: Annotated[int, typer.Option(help="At the beginning.", min=BROKERS_MIN, max=BROKERS_MAX)] = 9,
    per_second: Annotated[float, typer.Option(help="Events of all clients together, with answers.", min=1)] = 500.0,
    every: Annotated[float, typer.Option(help="Seconds between two actions, on average.", min=0.1)] = 4.0,
    patience: Annotated[
        float, typer.Option(help="Brokers wait so many times as long before they take others for dead.", min=0.5)
    ] = 1.0,
    only: Annotated[
        list[str] | None,
        typer.Option(help=f"Actions of this kind, and no others; again and again: {', '.join(WEIGHTS)}."),
    ] = None,
    out: Annotated[Path, typer.Option(help="For the log, the report, and what machines leave.")] = Path("build/soak"),
    replay: Annotated[
        Path | None, typer.Option(help="Do what this log says, at its times and with its settings: only --out counts.")
    ] = None,
    scenario: Annotated[
        Path | None, typer.Option(help="Write the log of --replay as a scenario for `pleach sim`, and run nothing.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write the report of this log into --out, and run nothing.")
    ] = None,
) -> None:
    """Run brokers with everything on for hours, under load, and do to them what happens in months.

    A seeded monkey re-weaves the tree, moves clients and brokers, kills processes, destroys machines, cuts links, stops
    and restarts, fills disks. A judge follows all events; each minute has a verdict, and memory, open files, disk and
    latency are watched for growth. Ends with a report, and with exit code 1 if anything was wrong.

    Example: `pleach soak --hours 2 --out build/a`, and the same again:
    `pleach soak --replay build/a/soak.jsonl --out build/b`
    """
    console = Console()
    if report is not None:
        raise typer.Exit(_reported(console, report, out))
    if scenario is not None:
        _export(console, replay, scenario)
        return
    wanted = SoakSettings(
        seed=seed,
        seconds=hours * HOUR,
        brokers=brokers,
        per_second=per_second,
        every=every,
        patience=patience,
    )
    raise typer.Exit(_run(console, replay, _only(wanted, only or []), out))


def _only(settings: SoakSettings, kinds: Sequence[str]) -> SoakSettings:
    for kind in kinds:
        if kind not in WEIGHTS:
            raise InvalidInputError(f"--only {kind!r}: there is no such action; {', '.join(WEIGHTS)} are known")
    return replace(settings, weights=dict.fromkeys(kinds, 1.0)) if kinds else settings


def _run(console: Console, replay: Path | None, settings: SoakSettings, out: Path) -> int:
    out.mkdir(parents=True, exist_ok=True)
    log = SoakFiles(out).log
    if log.exists():
        raise InvalidInputError(f"{log} is there already, of another soak: give another --out, or remove that folder")
    chooser: Monkey | Replay = Monkey(settings)
    if replay is not None:
        entries = read_log(replay)
        settings, chooser = settings_in(entries), Replay(entries)
    is_whole = run_until_interrupted(run_soak(settings, chooser, out, Show(console)), cancels=2)
    code = _reported(console, log, out)
    return code if is_whole else EXIT_INTERRUPTED


def _reported(console: Console, log: Path, out: Path) -> int:
    entries = read_log(log)
    result = SoakResult(entries)
    out.mkdir(parents=True, exist_ok=True)
    for growth in result.growths:
        if growth.is_growing:
            told = f"{growth.what}: {growth.first:.2f}, then {growth.last:.2f}"
            console.print(f"[bold red]grows[/] {told}", highlight=False)
    console.print(f"report: [bold]{escape(str(write_report(entries, out)))}[/]", highlight=False, soft_wrap=True)
    return 0 if result.is_good else EXIT_WRONG


def _export(console: Console, log: Path | None, path: Path) -> None:
    if log is None:
        raise InvalidInputError("--scenario writes the log of a soak as a scenario: name the log by --replay")
    path.write_text(exported(read_log(log)), encoding="utf-8")
    console.print(f"pleach sim {escape(str(path))}", highlight=False, soft_wrap=True)


class Show:
    """A line for each action, and a verdict for each minute."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._actions: dict[int, str] = {}

    def __call__(self, entry: Entry) -> None:
        match entry:
            case Header(settings=settings):
                self._say(
                    f"{settings.brokers} brokers, {settings.per_second:g} events/s, {settings.seconds / 60:g} minutes"
                )
            case Began(n=n, action=action):
                self._actions[n] = told_action(action)
            case Ended(at=at, n=n, outcome=outcome, seconds=seconds):
                colour = "green" if outcome == "done" else "yellow"
                what = f"{n:4} {escape(self._actions.pop(n))}"
                self._say(f"{clock(at)}  {what}: [{colour}]{escape(outcome)}[/] after {seconds:.1f} s")
            case Minute():
                self._say(f"{clock(entry.at)}  [bold]{_minute(entry)}[/]")
            case Wrong(at=at, what=what):
                self._say(f"{clock(at)}  [bold red]wrong[/] {escape(what)}")
            case Finished(at=at, outcome=outcome):
                found = ", ".join(f"{number} {rule}" for rule, number in entry.found.items())
                self._say(f"{clock(at)}  verdict: [bold]{outcome}[/]" + (f" ({found})" if found else ""))

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


def _minute(entry: Minute) -> str:
    flow, used = entry.flow, entry.used
    found = ", ".join(f"{number} {rule}" for rule, number in flow.found.items()) or "clean"
    return (
        f"{found}; {flow.published:,} published, {flow.deliveries:,} delivered, {flow.waiting} on their way"
        f" (oldest {flow.oldest:.1f} s); p50 {flow.latency_p50 * 1e3:.0f} ms, p99 {flow.latency_p99 * 1e3:.0f} ms;"
        f" {used.processes} processes on {used.machines} machines: {used.memory_bytes / 1e6:.0f} MB,"
        f" {used.files} files, {used.disk_bytes / 1e6:.0f} MB of disk"
    )


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
