"""The README's quick start, as a newcomer takes it: `python tools/newcomer.py --write`.

    clone ──▶ set-up (make .venv/.installed) ──▶ the commands of the README, one by one, in one shell ──▶ times

The HOME is empty, the clone and its .venv are new, and the commands are those of the README, as they stand there. One
that fails fails all; so does one in the background, and an event that is not delivered. `--write` puts the table into
docs/explanation/first-five-minutes.md. Exit codes: 0 all went well, and in time; 1 not; 2 it could not be tried.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "first-five-minutes.md"
PLACE = re.compile(r"(<!-- begin measured -->\n).*?(<!-- end measured -->)", re.DOTALL)
HEADINGS = ("Pleach", "A first run", "Brokers of your own")  # the first block of shell commands under each
LEFT_OUT = {"make test": "checks the code, which takes as long as it takes"}
DELIVERED = re.compile(r"/\d+\s+price=130\b")  # the event that the last of the commands publishes, as `sub` prints it
SET_UP = "make .venv/.installed"  # the part of `make demo` that is done once
SECONDS_BAR = 300.0  # after set-up
SECONDS_MAX = 1_800.0  # then something hangs
SAID_SHOWN = 4_000  # characters, where something went wrong
SETTLE_SECONDS = 20  # for what is in the background to end, where it ends by itself
NOT_A_NEWCOMERS = re.compile(r"HOME|VIRTUAL_ENV|PYTHON.*|PLEACH_.*|XDG_.*|GIT_.*|MAKE.*|PWD|OLDPWD")


class Command(NamedTuple):
    """`heading`: the part of the README that has it."""

    heading: str
    text: str

    @property
    def bare(self) -> str:
        """Without what is said about it."""
        return re.sub(r"\s+#\s.*$", "", self.text)


class Step(NamedTuple):
    command: Command
    seconds: float
    code: int


class Trial(NamedTuple):
    """`said`: all that the commands printed; `why`: what went wrong; empty: nothing."""

    steps: list[Step]
    said: str
    why: str

    @property
    def seconds(self) -> float:
        """After set-up."""
        return sum(step.seconds for step in self.steps if step.command.bare != SET_UP)

    @property
    def is_ok(self) -> bool:
        return not self.why and self.seconds <= SECONDS_BAR


# What there is to do ---------------------------------------------------------------------------------------------


def commands_of(readme: str) -> list[Command]:
    """Those of the first shell block under each of the headings, one per line."""
    parts = re.split(r"^#+ (.+)$", readme, flags=re.MULTILINE)
    under = dict(zip(parts[1::2], parts[2::2], strict=True))
    found = []
    for heading in HEADINGS:
        block = re.search(r"^```sh\n(.*?)^```$", under.get(heading, ""), re.MULTILINE | re.DOTALL)
        if block is None:
            raise ValueError(f"the README has no commands under {heading!r}: there should be a block of `sh`")
        lines = block[1].replace("\\\n", " ").splitlines()
        found += [Command(heading, line.strip()) for line in lines if line.strip() and not line.startswith("#")]
    return [command for command in found if command.bare not in LEFT_OUT]


def script_of(commands: Sequence[Command]) -> str:
    """Each command on a line of its own, as it stands; between them is noted, on channel 3, how they went."""
    lines = ["background=()"]
    for number, command in enumerate(commands):
        lines += [
            f'echo "began {number} $EPOCHREALTIME" >&3',
            command.text,
            f'code=$?; echo "ended {number} $EPOCHREALTIME $code" >&3; [ $code = 0 ] || exit $code',
        ]
        if command.bare.endswith("&"):
            lines.append(f'background+=("{number} $!")')
    # The broker goes on; the subscriber ends by itself, once it has got what it wanted. Whoever has ended was well.
    lines.append(f"""\
for attempt in $(seq {10 * SETTLE_SECONDS}); do
  [ ${{#background[@]}} -lt 2 ] || [ $(jobs -rp | wc -l) -lt ${{#background[@]}} ] && break
  sleep 0.1
done
for entry in "${{background[@]}}"; do
  read -r number job <<< "$entry"
  if ! kill -0 $job 2> /dev/null; then wait $job; echo "left $number $?" >&3; fi
done""")
    return "\n".join(lines) + "\n"


# Doing it --------------------------------------------------------------------------------------------------------


def environment_of(home: Path) -> dict[str, str]:
    """As after logging in for the first time. How pip reaches the package index is the machine's business."""
    kept = {name: value for name, value in os.environ.items() if not NOT_A_NEWCOMERS.fullmatch(name)}
    settings = Path.home() / ".config" / "pip" / "pip.conf"
    pip = {"PIP_CONFIG_FILE": str(settings)} if settings.is_file() else {}
    return {**kept, **pip, "HOME": str(home), "PATH": _path_without_venv(kept.get("PATH", os.defpath))}


def _path_without_venv(path: str) -> str:
    return os.pathsep.join(part for part in path.split(os.pathsep) if not (Path(part).parent / "pyvenv.cfg").exists())


def follow(commands: Sequence[Command], place: Path, environment: Mapping[str, str], seconds_max: float) -> Trial:
    """In `place`, in one shell; of what was started there nothing is left afterwards."""
    notes, said = place / ".newcomer-notes", place / ".newcomer-said"
    script = f"exec 3> {shlex.quote(str(notes))}\n{script_of(commands)}"
    with said.open("w") as out:
        shell = subprocess.Popen(  # noqa: S603 - the README's own commands
            ["/bin/bash", "-c", script],
            cwd=place,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    why = ""
    try:
        with _shown(commands) as progress:
            why = _watched(shell, notes, seconds_max, progress)
    finally:
        _end(shell)
    steps, reason = read_notes(commands, notes.read_text() if notes.exists() else "")
    return Trial(steps, said.read_text(errors="replace"), why or reason)


def _shown(commands: Sequence[Command]) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task("as a newcomer", total=len(commands))
    return progress


def _watched(shell: subprocess.Popen[bytes], notes: Path, seconds_max: float, progress: Progress) -> str:
    """Until it has ended. Returns why it had to be stopped; empty: it had not."""
    pause, waited = 0.5, 0.0
    while waited < seconds_max:
        try:
            shell.wait(pause)
        except subprocess.TimeoutExpired:
            waited += pause
            progress.update(progress.task_ids[0], completed=notes.read_text().count("ended ") if notes.exists() else 0)
        else:
            return ""
    return f"it was not over within {seconds_max:g} s"


def _end(shell: subprocess.Popen[bytes]) -> None:
    """Also what it has left in the background, which is in its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()


def read_notes(commands: Sequence[Command], notes: str) -> tuple[list[Step], str]:
    """The steps that were taken, and what was wrong with one of them."""
    began: dict[int, float] = {}
    steps: list[Step] = []
    why = ""
    for line in notes.splitlines():
        match line.split():
            case ["began", number, at]:
                began[int(number)] = float(at)
            case ["ended", number, at, code]:
                steps.append(Step(commands[int(number)], float(at) - began[int(number)], int(code)))
                why = why or _fault(commands[int(number)], int(code))
            case ["left", number, code]:
                why = why or _fault(commands[int(number)], int(code))
    return steps, why or ("" if len(steps) == len(commands) else f"it ended after {len(steps)} commands")


def _fault(command: Command, code: int) -> str:
    return f"`{command.bare}` ended with {code}" if code else ""


def try_it(readme: str, place: Path) -> Trial:
    """A clone of what is committed here, and all that the README says."""
    clone, home = place / "pleach", place / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)  # noqa: S603, S607 - of this repository
    commands = [Command("set-up", SET_UP), *commands_of(readme)]
    trial = follow(commands, clone, environment_of(home), SECONDS_MAX)
    if trial.why or DELIVERED.search(trial.said):
        return trial
    return trial._replace(why="the event that was published has not been delivered")


# Telling it ------------------------------------------------------------------------------------------------------


def told(trial: Trial) -> str:
    """As a table, with the time since set-up."""
    return "\n".join(["| part | command | seconds | since set-up |", "|---|---|---|---|", *_rows(trial.steps)]) + "\n"


def _rows(steps: Sequence[Step]) -> Iterator[str]:
    since = 0.0
    for step in steps:
        is_setup = step.command.bare == SET_UP
        since += 0.0 if is_setup else step.seconds
        when = "" if is_setup else f"{since:.0f} s"
        yield f"| {step.command.heading} | `{step.command.bare}` | {step.seconds:.1f} | {when} |"


def as_json(trial: Trial) -> str:
    steps = [{**step.command._asdict(), "seconds": round(step.seconds, 1), "code": step.code} for step in trial.steps]
    return json.dumps({"ok": trial.is_ok, "why": trial.why, "seconds": round(trial.seconds, 1), "steps": steps})


def write(trial: Trial) -> None:
    load = f"{len(os.sched_getaffinity(0))} cores, with a load of {os.getloadavg()[2]:.1f} meanwhile"
    about = f"Python {platform.python_version()}, {load}:"
    PAGE.write_text(PLACE.sub(lambda found: f"{found[1]}{about}\n\n{told(trial)}{found[2]}", PAGE.read_text()))


def main() -> int:
    example = "Example: python tools/newcomer.py --json"
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form, epilog=example)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="newcomer-", ignore_cleanup_errors=True) as place:
            trial = try_it((ROOT / "README.md").read_text(), Path(place))
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"it could not be tried: {error}\n")
        return 2
    after = f"{trial.seconds:.0f} s after set-up, of {SECONDS_BAR:g}"
    sys.stdout.write(f"{as_json(trial)}\n" if options.json else f"{told(trial)}\n{after}\n")
    if trial.why:
        sys.stderr.write(f"{trial.said[-SAID_SHOWN:]}\n{trial.why}\n")
    elif options.write:
        write(trial)
    return 0 if trial.is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
