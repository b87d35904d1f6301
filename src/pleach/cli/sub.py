"""`pleach sub`: subscribe, and print the events that are delivered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pleach.cli.arguments import KeyOption, TenantOption, TlsOption, TokenOption, token_in
from pleach.cli.interrupt import run_until_interrupted
from pleach.client.client import Client
from pleach.client.connect import connect
from pleach.core.events.cloudevents import to_json
from pleach.core.events.event import Event
from pleach.core.events.language import parse_filter
from pleach.net.printable import printable

PAYLOAD_SHOWN_BYTES = 60
EXIT_INTERRUPTED = 130  # as shells report SIGINT


def sub(
    wanted: Annotated[
        str, typer.Argument(metavar="FILTER", help="The filter that events must match.", show_default=False)
    ],
    to: Annotated[str, typer.Option(help="Client address of the broker: HOST:PORT[,HOST:PORT…].")],
    name: Annotated[str | None, typer.Option(help="Name of the client; random by default.")] = None,
    count: Annotated[int, typer.Option(min=0, help="Stop after this many events; 0: when interrupted.")] = 0,
    state_dir: Annotated[
        Path | None, typer.Option(help="Keep the state here, and continue behind the last printed event next time.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.0, help="Seconds for a broker to answer at the start.")] = 5.0,
    tls: TlsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One CloudEvent in JSON per line.")] = False,
    tenant: TenantOption = "",
    key: KeyOption = None,
    token_file: TokenOption = None,
) -> None:
    """Print events that match a filter, until interrupted. Lost connections are restored.

    Example: `pleach sub "topic = 'trade' AND price > 100" --to localhost:7000 --json`

    Exit codes: 0 done, 130 interrupted before `--count` was reached, 2 unusable input or no broker.
    """
    parse_filter(wanted)  # before connecting
    client = connect(
        to,
        name=name,
        state_dir=state_dir,
        connect_timeout=timeout,
        tls=tls,
        tenant=tenant,
        key=key,
        token=token_in(token_file),
    )
    if not run_until_interrupted(_print_events(client, wanted, count, as_json=as_json)) and count:
        raise typer.Exit(EXIT_INTERRUPTED)


async def _print_events(client: Client, wanted: str, count: int, *, as_json: bool) -> None:
    async with client:
        subscription = await client.subscribe(wanted)
        typer.echo(f"subscribed as {client.name}: {subscription.effective.text}", err=True)
        printed = 0
        async for event in subscription:
            typer.echo(to_json(event).decode() if as_json else _line(event))
            printed += 1
            if printed == count:
                return
            await asyncio.sleep(0)  # an interrupt is seen between any two events


def _line(event: Event) -> str:
    attributes = " ".join(f"{key}={_shown(value)}" for key, value in sorted(event.attributes.items()))
    payload = f"  {event.payload[:PAYLOAD_SHOWN_BYTES]!r}" if event.payload else ""
    return printable(f"{event.id}  {attributes}{payload}")


def _shown(value: object) -> str:
    return f"x'{value.hex()}'" if isinstance(value, bytes) else msgspec.json.encode(value).decode()
