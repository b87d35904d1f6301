"""Ports that a broker has again when it is started again: others know it by them.

Where any port would do (`127.0.0.1:0`, the default), a broker with a data directory takes those that it had before, as
far as they are free. Else all brokers of a network that were stopped together would look for each other in vain.

Rule 1: an address with a port in the settings wins.
Rule 2: what is kept is written when the broker is ready: then the data directory is its own.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from pleach.errors import StoreError
from pleach.net.addresses import PORT_MAX, Address, parse_address
from pleach.server.settings import BrokerSettings
from pleach.server.standby.launch_settings import usable_port
from pleach.server.standby.registers import replace_file

FILE = "ports.json"
LISTENS = ("client_listen", "peer_listen", "admin_listen")
BYTES_MAX = 1_000

log = logging.getLogger(__name__)

Port = Annotated[int, msgspec.Meta(ge=1, le=PORT_MAX)]


def chosen_ports(settings: BrokerSettings) -> dict[str, str]:
    """Where a broker listens that is started with these settings. Raises SettingsError for an address of others."""
    kept = _read(Path(settings.data_dir) / FILE) if settings.data_dir else {}
    places = {key: parse_address(getattr(settings, key), key=key) for key in LISTENS}
    wanted = {key: place.port or kept.get(key, 0) for key, place in places.items()}
    return {
        key: str(Address(place.host, place.port or (usable_port(place.host, wanted[key]) if wanted[key] else 0)))
        for key, place in places.items()
    }


def with_ports(settings: BrokerSettings, chosen: Mapping[str, str]) -> BrokerSettings:
    """Rule 1."""
    free = {key: place for key, place in chosen.items() if not parse_address(getattr(settings, key), key=key).port}
    return msgspec.structs.replace(settings, **free)


def keep_ports(settings: BrokerSettings, places: Mapping[str, str]) -> None:
    """`places`: where it listens now; without an address, as the settings say. A full disk hinders nothing."""
    if not settings.data_dir:
        return
    told = {key: places.get(key) or getattr(settings, key) for key in LISTENS}
    ports = {key: port for key, text in told.items() if (port := parse_address(text, key=key).port)}
    file = Path(settings.data_dir) / FILE
    if ports == _read(file):
        return
    try:
        replace_file(file, msgspec.json.encode(ports))
    except StoreError as error:
        log.warning("its ports may be others after the next start: %s", error)


def _read(file: Path) -> dict[str, int]:
    """What cannot be read counts as not there: it is a convenience."""
    try:
        with file.open("rb") as opened:
            return msgspec.json.decode(opened.read(BYTES_MAX), type=dict[str, Port])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        log.warning("%s is not used: %s", file, error)
        return {}
