"""What long runs print: lines at once, and the command that runs one failing seed again."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def replay_command(area: str, seed: int, *options: str) -> str:
    return " ".join([f"python tests/long_run.py {area} --first {seed} --seeds 1", *options])


def explained(command: str, flaws: Sequence[str], *, where: str = "") -> str:
    """The command, and below it what did not hold."""
    return "\n".join([f"replay: {command}" + (f"   ({where})" if where else ""), *(f"  {flaw}" for flaw in flaws)])
