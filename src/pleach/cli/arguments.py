"""Options and arguments that several commands share, and how their texts are read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import typer
import typer.main

from pleach.core.messages import Node
from pleach.core.overlay.choice import CHOICES
from pleach.core.overlay.plans import Link, Topology
from pleach.errors import InvalidInputError
from pleach.net.own_tls import own_token, speak_as

EXIT_REFUSED = 1
VIA = "PLEACH_VIA"
STDIN = "-"

Via: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(envvar=VIA, help="Admin address (HOST:PORT) of any broker, or a directory with ready lines."),
]
TLS = "PLEACH_TLS"
TlsOption: TypeAlias = Annotated[
    Path | None, typer.Option(envvar=TLS, help="Connect with TLS: a directory that `pleach certs` has made.")
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Timeout: TypeAlias = Annotated[float, typer.Option(help="Seconds for each step.", min=1.0, max=3_600.0)]
Protocol: TypeAlias = Annotated[
    str, typer.Option(help=f"One of {', '.join(CHOICES)}; by default that of the broker's settings.")
]
DetachAbsent: TypeAlias = Annotated[
    bool, typer.Option("--detach-absent", help="End the sessions of clients that are not connected.")
]
TenantOption: TypeAlias = Annotated[str, typer.Option("--tenant", help="Tenant of the client, where there are such.")]
KeyOption: TypeAlias = Annotated[
    Path | None, typer.Option("--key", envvar="PLEACH_KEY", help="Ed25519 key in PEM form, to log in with.")
]
TokenOption: TypeAlias = Annotated[
    Path | None, typer.Option("--token-file", envvar="PLEACH_TOKEN_FILE", help="File with a token, to log in with.")
]


def token_in(file: Path | None) -> Callable[[], str] | None:
    """Reads the file for each connection: whoever renews the token writes it there."""
    return None if file is None else lambda: read_input(file).decode().strip()


def _ask_as(_context: Any, _option: Any, file: Path | None) -> None:
    if file is None:
        return

    def token() -> str:
        text = read_input(file).decode(errors="replace").strip()
        if not text.isascii() or not text.isprintable() or " " in text or not text:
            raise InvalidInputError(f"--token-file: {file} has no token; a signed JWT is wanted, and nothing else")
        return text

    token()
    own_token.set(token)


def _speak_as(_context: Any, _option: Any, tls: Path | None) -> None:
    speak_as(tls)


def _carrier(tls: TlsOption = None, token_file: TokenOption = None) -> None:
    """Typer makes options for functions only."""


def login_options() -> list[Any]:
    """The options `--tls` and `--token-file` of a command that asks brokers.

    Who this process is to them is set when they are read.
    """
    app = typer.Typer()
    app.command()(_carrier)
    acts = {"tls": _speak_as, "token_file": _ask_as}
    options = [each for each in typer.main.get_command(app).params if each.name in acts]
    for option in options:
        option.expose_value, option.callback = False, acts[str(option.name)]
    return options


def places(via: list[str] | None) -> list[str]:
    """The values of --via, of which one is required."""
    if not via:
        raise InvalidInputError(f"missing --via HOST:PORT: the admin address of any broker; or set {VIA}")
    return via


def check_protocol(name: str) -> None:
    if name and name not in CHOICES:
        raise InvalidInputError(f"--protocol: unknown protocol {name!r}; choose one of {', '.join(CHOICES)}")


def parse_link(text: str, brokers: tuple[Node, ...]) -> Link:
    """`X-Y`. Names may contain dashes, so that the split counts whose parts are both brokers."""
    parts = text.split("-")
    splits = [("-".join(parts[:i]), "-".join(parts[i:])) for i in range(1, len(parts))]
    known = [(x, y) for x, y in splits if x in brokers and y in brokers]
    if not splits:
        raise InvalidInputError(f"{text!r} is not a link; write X-Y, the names of two brokers")
    if len(known) > 1:
        raise InvalidInputError(f"{text!r} is ambiguous: {len(known)} ways to split it; write a plan file instead")
    return known[0] if known else splits[0]


def parse_tree(text: str, brokers: set[Node]) -> Topology:
    """A file with a list of links, or `a-b,b-c,…`."""
    path = Path(text)
    if path.suffix == ".json" or path.is_file():
        try:
            links = msgspec.json.decode(read_input(path), type=list[tuple[str, str]])
        except msgspec.DecodeError as error:
            raise InvalidInputError(f'{text}: not a list of links: {error}; write [["a", "b"], ["b", "c"]]') from None
        return Topology.of(links)
    known = tuple(sorted(brokers))
    return Topology.of([parse_link(part.strip(), known) for part in text.split(",")])


def read_input(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == STDIN else file.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror}") from None
