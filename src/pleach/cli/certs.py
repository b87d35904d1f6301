"""`pleach certs`: a network's authority, the certificates that it issues, and its membership list."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from pleach.access.certificate_directory import CertificateDirectory, IssuedCertificate
from pleach.access.certificates import AUTHORITY_DAYS, CERTIFICATE_DAYS
from pleach.access.identity import IdentityKind
from pleach.access.membership import MemberRole
from pleach.access.tls import SECONDS_PER_DAY

app = typer.Typer(
    help="Make and revoke the certificates of a network.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)

Directory: TypeAlias = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the authority.")]
Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The name in the certificate.")]
Days: TypeAlias = Annotated[int, typer.Option(min=1, help="Days until it expires.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def init(
    directory: Directory,
    network: Annotated[str, typer.Option(help="Name of the network: a–z, 0–9, dots and hyphens.")],
    days: Days = AUTHORITY_DAYS,
    as_json: AsJson = False,
) -> None:
    """Make the authority of a network, and an empty membership list.

    Example: `pleach certs init certs --network acme`
    """
    made = CertificateDirectory.create(directory, network, days)
    _say(as_json, {"directory": str(directory), "network": made.network}, f"{directory}: authority of {made.network}")


@app.command()
def broker(
    directory: Directory,
    name: Name,
    host: Annotated[list[str] | None, typer.Option(help="Host name or address, for browsers and curl.")] = None,
    role: Annotated[list[MemberRole] | None, typer.Option(help="Role on the membership list.")] = None,
    days: Days = CERTIFICATE_DAYS,
    as_json: AsJson = False,
) -> None:
    """Issue a broker's certificate, put the broker on the membership list, and sign the list.

    Example: `pleach certs broker certs a --host a.example.org`, then `pleach broker a --tls certs/brokers/a`
    """
    made = CertificateDirectory(directory)
    place = made.add_broker(name, host or (), role or (MemberRole.BROKER,), days)
    values = {"path": str(place), "network": made.network, "list": made.members.number}
    _say(as_json, values, f"{place}: broker {name}; membership list number {made.members.number}")


@app.command()
def client(
    directory: Directory,
    name: Name,
    days: Days = CERTIFICATE_DAYS,
    is_key: Annotated[bool, typer.Option("--key", help="An Ed25519 key instead, for the access file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Issue a client's certificate, or make a key for a client that logs in without one.

    Example: `pleach certs client certs alice`, then
    `pleach sub "TRUE" --to localhost:7100 --name alice --tls certs/clients/alice`
    """
    made = CertificateDirectory(directory)
    if is_key:
        place, public = made.add_challenge_key(name)
        _say(as_json, {"path": str(place), "public_key": public}, public)
        return
    place = made.add(IdentityKind.CLIENT, name, days)
    _say(as_json, {"path": str(place), "network": made.network}, f"{place}: client {name}")


@app.command()
def operator(directory: Directory, name: Name, days: Days = CERTIFICATE_DAYS, as_json: AsJson = False) -> None:
    """Issue an operator's certificate.

    Example: `pleach certs operator certs oscar`, then `pleach overlay show --tls certs/operators/oscar …`
    """
    made = CertificateDirectory(directory)
    place = made.add(IdentityKind.OPERATOR, name, days)
    _say(as_json, {"path": str(place), "network": made.network}, f"{place}: operator {name}")


@app.command()
def revoke(
    directory: Directory,
    which: Annotated[str, typer.Argument(metavar="NAME|SERIAL", help="A name, KIND/NAME, or serial number.")],
    as_json: AsJson = False,
) -> None:
    """Revoke a certificate by the membership list; a broker is taken off the list, too.

    Example: `pleach certs revoke certs alice`; copy members.json and members.json.sig to the brokers, and send SIGHUP.
    """
    made = CertificateDirectory(directory)
    found = made.revoke(which)
    values = {"revoked": [each.serial for each in found] or [which], "list": made.members.number}
    text = ", ".join(f"{each.kind} {each.name}" for each in found) or f"serial {which}"
    _say(as_json, values, f"revoked: {text}; membership list number {made.members.number}")


@app.command()
def show(directory: Directory, as_json: AsJson = False) -> None:
    """List the certificates that were issued, and when they expire.

    Example: `pleach certs show certs`
    """
    made = CertificateDirectory(directory)
    issued = list(made.issued())
    if as_json:
        rows = [each._asdict() for each in issued]
        content = {"network": made.network, "list": made.members.number, "certificates": rows}
        typer.echo(msgspec.json.encode(content).decode())
        return
    table = Table("kind", "name", "roles", title=f"{made.network}, list {made.members.number}")
    table.add_column("expires", no_wrap=True)
    table.add_column("serial", overflow="fold")
    for each in issued:
        table.add_row(each.kind, each.name, ", ".join(each.roles), _expiry(each), each.serial)
    Console(highlight=False).print(table)


def _expiry(issued: IssuedCertificate) -> str:
    if issued.is_revoked:
        return "revoked"
    days = (issued.expires - time.time()) / SECONDS_PER_DAY
    date = datetime.fromtimestamp(issued.expires, UTC).date().isoformat()
    return f"{date} (in {days:.0f} days)" if days > 0 else f"{date} (expired)"


def _say(as_json: bool, values: dict[str, object], text: str) -> None:
    typer.echo(msgspec.json.encode(values).decode() if as_json else text)
