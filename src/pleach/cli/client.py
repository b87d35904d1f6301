"""`pleach client move`: move a client to another broker, while events flow.

Exit codes: 0 done, 1 refused, 2 unusable input.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
import typer

from pleach.cli.arguments import EXIT_REFUSED, AsJson, Timeout, Via, places
from pleach.cli.terminal import Console, escape
from pleach.operate.apply import STEP_SECONDS_MAX
from pleach.operate.move import ClientMove
from pleach.operate.operation import OperationState, fresh_name
from pleach.operate.survey import settled_survey

app = typer.Typer(help="The clients of running brokers.", no_args_is_help=True)


@app.callback()
def _client() -> None:
    """A group with one command needs a callback to keep the command's name."""


@app.command("move")
def move(
    client: Annotated[str, typer.Argument(help="The name of the client.")],
    to: Annotated[str, typer.Option(help="The broker that it moves to.")],
    via: Via = None,
    delay_max: Annotated[
        float,
        typer.Option(help="Upper bound of the delay between the brokers, in seconds: neither waits longer.", min=0.0),
    ] = 0.0,
    as_json: AsJson = False,
    timeout: Timeout = STEP_SECONDS_MAX,
) -> None:
    """Move a client to another broker, as a transaction: no event is lost, doubled or out of order.

    Example: `pleach client move me --to c --via 127.0.0.1:7300`
    """
    with Console(stderr=True).status(f"{escape(client)} moves to {escape(to)}"):
        moving, state, reason = asyncio.run(_moved(places(via), client, to, delay_max, timeout))
    if as_json:
        ended = {
            "operation": moving.request.operation,
            "client": client,
            "path": moving.path,
            "state": state,
            "reason": reason,
        }
        typer.echo(msgspec.json.encode(ended).decode())
    elif state is OperationState.DONE:
        Console().print(f"{escape(client)} has moved: {' – '.join(map(escape, moving.path))}", highlight=False)
    else:
        Console(stderr=True).print(f"[red]{state}[/]: {escape(reason)}", highlight=False, soft_wrap=True)
    if state is not OperationState.DONE:
        raise typer.Exit(EXIT_REFUSED)


async def _moved(
    via: list[str], client: str, to: str, delay_max: float, seconds: float
) -> tuple[ClientMove, OperationState, str]:
    moving = ClientMove.planned(await settled_survey(via), client, to, fresh_name(), round(delay_max * 1_000))
    return moving, *await moving.carry_out(seconds_max=seconds)
