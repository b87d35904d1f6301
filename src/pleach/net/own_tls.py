"""Who asks brokers short questions: the certificate and the token of this process, and streams that are opened with it.

A process is one party: a broker, an operator, or nobody in particular; a broker's dashboard asks for whoever is logged
in there (web/site.py). What asks brokers is called from many places
(surveys, plans, the dashboard): the context variable spares each of them a parameter that only passes through.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pleach.errors import TlsError
from pleach.net.addresses import Address
from pleach.net.dial import switch_port_in_use
from pleach.net.tls_layer import NO_FALLBACK, TlsSide, meaning

if TYPE_CHECKING:
    from pleach.access.tls import Tls

TlsFiles: TypeAlias = "Tls | str | Path"  # a text or path: the directory that `pleach certs` has made

# The token that operators' ports are asked with; called for each request, since tokens are renewed.
own_token: ContextVar[Callable[[], str] | None] = ContextVar("own_token", default=None)
# How to dial a broker: called with its name, or with nothing for any.
own_tls: ContextVar[Callable[[str], TlsSide] | None] = ContextVar("own_tls", default=None)


async def open_streams(host: str, port: int, broker: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Dial, with TLS if this process has it. Raises OSError, TlsError among them."""
    dialling = own_tls.get()
    if dialling is None:
        switch = switch_port_in_use()
        if switch is not None:
            return await asyncio.open_connection(sock=await switch.dial(Address(host, port)))
        return await asyncio.open_connection(host, port)
    side = dialling(broker)
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=side.context)
    except ssl.SSLError as error:
        raise meaning(error) from None
    except ConnectionResetError:
        raise TlsError("the connection ended during the handshake", NO_FALLBACK) from None
    try:
        side.check(writer.get_extra_info("ssl_object").getpeercert(binary_form=True), broker)
    except TlsError:
        writer.transport.abort()
        raise
    return reader, writer


def end_streams(writer: asyncio.StreamWriter) -> None:
    """The answer is there. To close TLS in good order would wait for the other side, which owes nothing more."""
    if writer.get_extra_info("ssl_object") is None:
        writer.close()
    else:
        writer.transport.abort()


def dialling_side(files: TlsFiles, broker: str = "") -> TlsSide:
    """How whoever has these files dials a broker. They are read each time: certificates are renewed.

    Raises CertificateError where they are unusable.
    """
    from pleach.access.tls import Credentials, Tls  # noqa: PLC0415 - who needs no TLS starts sooner

    found = files if isinstance(files, Tls) else Tls.directory(files)
    credentials = Credentials(found, time.time())
    return TlsSide(credentials.dialling, lambda der, node: credentials.check_broker(der, node or broker))


def speak_as(files: TlsFiles | None) -> None:
    """Ask brokers as the party with these files; None: without TLS. Raises CertificateError."""
    if files is not None:
        dialling_side(files)
        own_tls.set(lambda broker: dialling_side(files, broker))
