"""One script out of the blocks of a page, and a folder for it to run in."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from random import Random

import pleach
from support.docs.blocks import ROOT

PORTS_OF_A_TENS = 10
TRIES_MAX = 1_000
SAID = "said-{}"  # where a console block leaves what it prints
RUNNER = """\
import ast, asyncio, inspect, sys
code = compile(open(sys.argv[1]).read(), sys.argv[1], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
if code.co_flags & inspect.CO_COROUTINE:
    async def main():
        await eval(code, {"__name__": "__main__"})
    asyncio.run(main())
else:
    exec(code, {"__name__": "__main__"})
"""


def script_of(blocks, place):
    """Python blocks between two others are one program; it is left in `place`."""
    lines, program = ["set -e"], []
    for number, block in enumerate([*blocks, None]):
        if block is not None and block.language == "python":
            program.append(block.text)
            continue
        if program:
            file = place / f"program-{number}.py"
            file.write_text(with_ports("\n".join(program), place))
            lines.append(f"python {place / 'runner.py'} {file}")
            program = []
        if block is not None:
            lines.append(_shell(block, number))
    return with_ports("\n".join(lines), place) + "\n"


def _shell(block, number):
    if block.language == "sh":
        return block.text
    said = SAID.format(number)
    asked = [f"{{ {c}; }} >> {said} 2>&1 || echo $? > {said}.code" for c in console_commands(block.text)]
    return "\n".join(asked)


def console_commands(text):
    return [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]


def console_lines(text):
    """What the page says is printed, without the commands."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("$ ")]


def missing_lines(shown, said):
    """Lines of a page that were not printed in this order. `…` stands for anything, also for lines."""
    rest, missing = [_even(line) for line in said.splitlines()], []
    for line in shown:
        wanted = re.compile(".*".join(re.escape(part) for part in _even(line).split("…")))
        at = next((i for i, printed in enumerate(rest) if wanted.fullmatch(printed)), None)
        if at is None:
            missing.append(line)
        else:
            rest = rest[at + 1 :]
    return missing


def _even(line):
    return " ".join(line.split())


def with_ports(text, place):
    """Ports of pages are 7NNx: every tens becomes one whose ports are all free, and the same for the whole page."""
    chosen = _PORTS.setdefault(place, {})
    for tens in sorted(set(re.findall(r"127\.0\.0\.1:(7\d\d)", text))):
        if tens not in chosen:
            chosen[tens] = _free_tens(chosen.values())
    return re.sub(r"127\.0\.0\.1:(7\d\d)", lambda found: f"127.0.0.1:{chosen[found[1]]}", text)


_PORTS = {}


def _free_tens(taken):
    rng = Random()
    return next(t for _ in range(TRIES_MAX) if (t := rng.randrange(2_000, 3_000)) not in taken and _is_free(t))


def _is_free(tens):
    with contextlib.ExitStack() as opened:
        try:
            for last in range(PORTS_OF_A_TENS):
                opened.enter_context(socket.create_server(("127.0.0.1", 10 * tens + last)))
        except OSError:
            return False
    return True


def furnish(place):
    """What a reader has at the root of the repository, and `pleach` and `python` on the path."""
    tools = place / "bin"
    tools.mkdir()
    pleach_tool = tools / "pleach"
    pleach_tool.write_text(f"#!{sys.executable}\nfrom pleach.cli.main import run\nrun()\n")
    pleach_tool.chmod(0o755)
    python_tool = tools / "python"
    python_tool.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python_tool.chmod(0o755)
    (place / "runner.py").write_text(RUNNER)
    for folder in ("examples", "deploy", "tests"):
        (place / folder).symlink_to(ROOT / folder)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PLEACH_")}
    environment["PATH"] = f"{tools}:{environment['PATH']}"
    environment["PYTHONPATH"] = str(Path(pleach.__file__).parents[1])
    environment["COLUMNS"] = "160"
    return environment


def run(script, place, environment, *, seconds_max):
    """Runs it in a session of its own, of which nothing is left afterwards."""
    with (place / "stdout").open("w") as out, (place / "stderr").open("w") as err:
        process = subprocess.Popen(
            ["bash", "-c", script],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    try:
        return process.wait(seconds_max)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
