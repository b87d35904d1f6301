"""`pleach overlay heal`: start a stand-in for a broker that will not return.

Exit codes: 0 a stand-in serves, 1 refused or not in time, 2 unusable input.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
import typer

from pleach.cli.arguments import EXIT_REFUSED, AsJson, Timeout, Via, places
from pleach.cli.terminal import Console, escape
from pleach.errors import SurveyError
from pleach.net.http_client import ask
from pleach.operate.survey import Survey, survey

SECONDS_MAX = 60.0
ASK_SECONDS_MAX = 10.0
LOOK_SECONDS = 0.25


def heal(
    broker: Annotated[str, typer.Argument(help="The broker that will not return.")],
    via: Via = None,
    as_json: AsJson = False,
    timeout: Timeout = SECONDS_MAX,
) -> None:
    """Start a stand-in for a broker that will not return, without waiting for `after` of the settings.

    Refused if the broker answers.

    Example: `pleach overlay heal c --via 127.0.0.1:7300`
    """
    with Console(stderr=True).status(f"starting a stand-in for {escape(broker)}"):
        refusal, guardian = asyncio.run(_healed(broker, places(via), timeout))
    if as_json:
        told = {"broker": broker, "complete": not refusal, "stand_in_at": guardian, "reason": refusal}
        typer.echo(msgspec.json.encode(told).decode())
    else:
        end = f"not done: {refusal}" if refusal else f"a stand-in for {broker} serves, started by {guardian}"
        Console().print(end, highlight=False, markup=False, soft_wrap=True)
    if refusal:
        raise typer.Exit(EXIT_REFUSED)


async def _healed(broker: str, via: list[str], seconds_max: float) -> tuple[str, str]:
    """Why it was not done (empty if it was), and the broker that was asked."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + seconds_max
    found = await survey(via)
    if broker in found.found:
        return f"{broker} answers: it is alive; `pleach overlay remove {broker}` takes it out", ""
    guardian = _guardian(found, broker)
    answer = await ask(found.admin[guardian], "/overlay/heal", {"broker": broker}, seconds_max=ASK_SECONDS_MAX)
    if not answer.is_ok:
        return str(answer.value.get("error", answer.code)), guardian
    while clock() < deadline:
        status = (await survey(list(found.admin.values()))).found.get(broker)
        if status is not None and status.ready and status.neighbours:
            return "", guardian
        await asyncio.sleep(LOOK_SECONDS)
    return f"no stand-in serves within {seconds_max:g} s; see the log of {guardian}", guardian


def _guardian(found: Survey, broker: str) -> str:
    """The first of its neighbours that answers; raises SurveyError where there is none."""
    neighbours = [name for name, status in sorted(found.found.items()) if broker in status.neighbours]
    if not neighbours:
        raise SurveyError(f"no broker that answers has a neighbour {broker!r}", "give the address of one with --via")
    return neighbours[0]
