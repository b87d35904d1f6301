"""`pleach pub`: publish events from the command line or from standard input."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import typer

from pleach.cli.arguments import KeyOption, TenantOption, TlsOption, TokenOption, token_in
from pleach.cli.interrupt import run_until_interrupted
from pleach.client.client import Client
from pleach.client.connect import connect
from pleach.core.events.cloudevents import from_json
from pleach.core.events.event import EventId, Value, check_attributes
from pleach.core.events.tokens import Sort, Token, tokens_of
from pleach.errors import EventError, FilterError, InvalidInputError, PublishRefusedError, UnknownOutcomeError

EXIT_REFUSED = 1
EXIT_INTERRUPTED = 130
END = b""  # of standard input; a line has at least its newline
LINES_AHEAD_MAX = 256  # of standard input, read before they are published


class Job(msgspec.Struct, frozen=True):
    attributes: dict[str, Value]
    payload: bytes
    repeat: int
    every: float
    lines: bool
    as_json: bool


class Tally(msgspec.Struct):
    published: int = 0
    refused: int = 0


def pub(
    to: Annotated[str, typer.Option(help="Client address of the broker: HOST:PORT[,HOST:PORT…].")],
    pairs: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE…", help="The attributes of the event.", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the client; random by default.")] = None,
    advertise: Annotated[
        str | None, typer.Option(help="Advertise this filter first (required in networks with advertisements).")
    ] = None,
    payload_file: Annotated[Path | None, typer.Option(help="The payload of the event.", exists=True)] = None,
    repeat: Annotated[int, typer.Option(min=1, help="How often to publish the event.")] = 1,
    every: Annotated[float, typer.Option(min=0.0, help="Seconds between two events.")] = 0.0,
    lines: Annotated[
        bool,
        typer.Option("--json-lines", help="Read events from standard input, one JSON object of attributes per line."),
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.0, help="Seconds for a broker to answer at the start.")] = 5.0,
    tls: TlsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per event.")] = False,
    tenant: TenantOption = "",
    key: KeyOption = None,
    token_file: TokenOption = None,
) -> None:
    """Publish events, and print the id of each when the broker has accepted it.

    Values are written like the literals of filters: `price=5` is an integer, `price=5.0` a float, `flag=true` a
    boolean, `raw=x'0aff'` bytes; everything else is text, and so is anything in single quotes.

    Example: `pleach pub topic=trade price=120 --to localhost:7000 --repeat 10 --every 0.5`

    Exit codes: 0 all published, 1 some were refused, 130 interrupted, 2 unusable input or no broker.
    """
    if lines == bool(pairs):
        raise InvalidInputError("give either KEY=VALUE pairs or --json-lines: pleach pub price=5 --to HOST:PORT")
    attributes = parse_attributes(pairs or [])
    check_attributes(attributes)
    payload = payload_file.read_bytes() if payload_file else b""
    client = connect(
        to, name=name, connect_timeout=timeout, tls=tls, tenant=tenant, key=key, token=token_in(token_file)
    )
    job, tally = Job(attributes, payload, repeat, every, lines, as_json), Tally()
    is_done = run_until_interrupted(_publish(job, tally, client, advertise))
    if tally.refused:
        raise typer.Exit(EXIT_REFUSED)
    if not is_done:
        raise typer.Exit(EXIT_INTERRUPTED)


async def _publish(job: Job, tally: Tally, client: Client, advertise: str | None) -> None:
    async with client:
        if advertise is not None:
            await client.advertise(advertise)
        under_way: deque[asyncio.Future[EventId]] = deque()
        try:
            async for attributes, payload in _events(job):
                if job.every and (under_way or tally.published or tally.refused):
                    await asyncio.sleep(job.every)
                under_way.append(await client.publish_windowed(attributes, payload))
                while under_way and under_way[0].done():
                    await _report(under_way.popleft(), job, tally)
        finally:
            while under_way:
                await _report(under_way.popleft(), job, tally)


async def _report(future: asyncio.Future[EventId], job: Job, tally: Tally) -> None:
    try:
        event_id = str(await future)
    except (PublishRefusedError, UnknownOutcomeError) as error:
        tally.refused += 1
        _print({"error": str(error)}, str(error), job, err=True)
    else:
        tally.published += 1
        _print({"id": event_id}, event_id, job, err=False)


def _print(fields: dict[str, str], text: str, job: Job, *, err: bool) -> None:
    typer.echo(msgspec.json.encode(fields).decode() if job.as_json else text, err=err and not job.as_json)


# Events ---------------------------------------------------------------------------------------------


async def _events(job: Job) -> AsyncIterator[tuple[dict[str, Any], bytes]]:
    if not job.lines:
        for _ in range(job.repeat):
            yield job.attributes, job.payload
        return
    number = 0
    async for line in _standard_input():
        number += 1
        if line.strip():
            attributes, payload = _parse_line(line, number)
            yield attributes, payload or job.payload


def _parse_line(line: bytes, number: int) -> tuple[dict[str, Any], bytes]:
    """A flat object of attributes; or a CloudEvent as `pleach sub --json` prints it, published under our name."""
    try:
        members = msgspec.json.decode(line)
        if isinstance(members, dict) and "specversion" in members:
            event = from_json(line)
            return event.attributes, event.payload
        if not isinstance(members, dict):
            raise EventError("not a JSON object of attributes")  # noqa: TRY301 - named with its line below
        check_attributes(members)
    except (msgspec.DecodeError, EventError) as error:
        raise EventError(f"line {number}: {error}") from None
    return members, b""


async def _standard_input() -> AsyncIterator[bytes]:
    """Lines, from a daemon thread: a read that never returns must not keep the command from ending."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes] = asyncio.Queue(LINES_AHEAD_MAX)

    def read(lines: BinaryIO) -> None:
        # The loop may end before the input, and the input may be closed.
        with contextlib.suppress(RuntimeError, CancelledError, ValueError):
            for line in itertools.chain(lines, [END]):
                asyncio.run_coroutine_threadsafe(queue.put(line), loop).result()

    threading.Thread(target=read, args=(sys.stdin.buffer,), daemon=True).start()
    while (line := await queue.get()) != END:
        yield line


# Attributes on the command line ------------------------------------------------------------------------------------


def parse_attributes(pairs: Sequence[str]) -> dict[str, Value]:
    attributes: dict[str, Value] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise EventError(f"{pair!r} is not an attribute; write KEY=VALUE, as in price=5")
        if key in attributes:
            raise EventError(f"attribute {key!r} is given twice")
        attributes[key] = parse_value(text)
    return attributes


def parse_value(text: str) -> Value:
    """5 is an integer, 5.0 a float, true a boolean, x'0aff' bytes, '5' and everything else text."""
    try:
        tokens = tokens_of(text)
    except FilterError:
        return text  # not a literal: a path, an address, a sentence
    match tokens:
        case [Token(Sort.LITERAL, value, shown), _] if shown == text:
            # A filter compares numbers by value and has 5.0 as 5; an attribute keeps the type that was written.
            was_float = isinstance(value, int) and not text.lstrip("+-").isdecimal()
            literal: Value = float(text) if was_float else value
            return literal
        case [Token(Sort.KEYWORD, "TRUE" | "FALSE" as word, shown), _] if shown == text:
            return bool(word == "TRUE")
        case _:
            return text
