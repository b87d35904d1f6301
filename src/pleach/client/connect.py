"""`pleach.connect`: checks the options and makes a client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from pleach.access.principals import full_name
from pleach.client.client import Client
from pleach.client.session_driver import ClientOptions
from pleach.core.effects import Observe
from pleach.core.events.event import Event, EventId, checked
from pleach.errors import InvalidInputError
from pleach.net.addresses import parse_addresses
from pleach.net.client_login import Entry, client_login
from pleach.net.own_tls import TlsFiles, dialling_side

PUBLISH_WINDOW = 256  # events that may wait for their confirmation
QUEUE_MAX = 1_000  # events that may wait for the application before back-pressure sets in
CONNECT_SECONDS = 5.0
HEARTBEAT_SECONDS = 1.0
PATIENCE_SECONDS = 15.0


def connect(
    addresses: str,
    *,
    name: str | None = None,
    state_dir: str | Path | None = None,
    own_events: bool = True,
    window: int = PUBLISH_WINDOW,
    queue_max: int = QUEUE_MAX,
    connect_timeout: float = CONNECT_SECONDS,
    heartbeat: float = HEARTBEAT_SECONDS,
    patience: float = PATIENCE_SECONDS,
    observer: Callable[[Observe], None] | None = None,
    tls: TlsFiles | None = None,
    tenant: str = "",
    key: str | Path | None = None,
    token: str | Callable[[], str] | None = None,
) -> Client:
    """A client, to be used with `async with`. See docs/reference/python-client.md for every option."""
    if state_dir is not None and name is None:
        raise InvalidInputError("a client with a state_dir needs a name: it is the same client after a restart")
    if window < 1 or queue_max < 1:
        raise InvalidInputError(f"window {window} and queue_max {queue_max}: 1 or more is wanted")
    if min(heartbeat, patience) <= 0 or patience < heartbeat:
        raise InvalidInputError(f"patience {patience} s: at least one heartbeat ({heartbeat} s, above 0) is wanted")
    if tls is not None:
        dialling_side(tls)  # unusable files are told at once
    entry = Entry(tls, client_login(key, token))
    name = full_name(tenant, name or f"client-{uuid4().hex[:12]}")
    checked(Event(EventId(name, 0, 1), {}))
    places = parse_addresses(addresses)
    memory = Path(state_dir) if state_dir is not None else None
    options = ClientOptions(
        places, name, memory, own_events, connect_timeout, heartbeat, patience, observer, entry, tenant
    )
    return Client(options, window=window, queue_max=queue_max)
