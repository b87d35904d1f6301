"""Settings of a broker that was promoted on another machine: its own, as far as they do not depend on the machine.

What belongs to the machine is its host's: where it listens (on free ports), its zone, the authority and the membership
list, the access file, and how it logs: who is taken out of them is out of all brokers of the machine. Certificate and
key are the broker's, and lie in its folder; so does its access file, where its host has none.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import msgspec

from pleach.access.access_file import token_keys_file
from pleach.disk.private_files import make_private_folder
from pleach.errors import SettingsError
from pleach.net.addresses import Address, BrokerAddresses, is_loopback, parse_address
from pleach.server.door.settings import AccessSettings
from pleach.server.door.tls_settings import TlsSettings
from pleach.server.settings import AddressSettings, BrokerSettings
from pleach.server.standby.messages import BrokerFiles
from pleach.server.standby.registers import replace_file

SETTINGS, DATA, ACCESS, CERTIFICATE, KEY = "broker.json", "data", "access.toml", "certificate.pem", "key.pem"
PORTS = (("client_listen", "client_advertise"), ("peer_listen", "advertise"), ("admin_listen", "admin_advertise"))
ANY_PORT = AddressSettings("").client_listen  # where a process listens that was told nothing
OF_THE_HOST = ("zone", "insecure", "log_level", "json_logs")
REMEDY = "the machines of a network need the same release of Pleach"


def broker_settings(files: BrokerFiles, host: BrokerSettings, folder: Path) -> BrokerSettings:
    """Those of a broker on its host's machine; files that they name are written. Raises SettingsError."""
    own = decode_settings(files.settings, "the files of the broker")
    make_private_folder(folder)
    changed: dict[str, Any] = {key: getattr(host, key) for key in OF_THE_HOST}
    changed |= {"data_dir": str(folder / DATA), "access": None, "tls": None}
    if own.access is not None:
        changed["access"] = AccessSettings(str(_access(files, host, folder)))
    if own.tls is not None:
        changed["tls"] = _tls(files, host, folder)
    return msgspec.structs.replace(own, **changed, **_addresses(own, host, _former(folder)))


def _access(files: BrokerFiles, host: BrokerSettings, folder: Path) -> Path:
    if host.access is not None:
        return Path(host.access.file).absolute()
    replace_file(folder / ACCESS, files.access)
    if token_keys := token_keys_file(folder / ACCESS):
        replace_file(folder / token_keys.name, files.token_keys)
    return folder / ACCESS


def _tls(files: BrokerFiles, host: BrokerSettings, folder: Path) -> TlsSettings:
    if host.tls is None:
        remedy = "give the host [tls] of the same network"
        raise SettingsError("tls", f"the broker has it, and its host {host.name} has not", remedy)
    replace_file(folder / CERTIFICATE, files.certificate)
    replace_file(folder / KEY, files.key)
    authority, members = host.tls.path("authority"), host.tls.path("members")
    return TlsSettings("", str(folder / CERTIFICATE), str(folder / KEY), authority, members)


def _addresses(own: BrokerSettings, host: BrokerSettings, former: BrokerSettings | None) -> dict[str, str]:
    """Ports that the broker had here before, if it had some, else free ones; on addresses of its host."""
    found = {}
    for listens, advertises in PORTS:
        place = parse_address(_listening(listens, own, host), key=listens)
        port = parse_address(getattr(former, listens), key=listens).port if former else 0
        port = usable_port(place.host, port)
        told = getattr(host, advertises) or host.advertise
        found[listens] = str(Address(place.host, port))
        found[advertises] = str(Address(parse_address(told, key=advertises).host, port)) if told else ""
    return found


def _listening(key: str, own: BrokerSettings, host: BrokerSettings) -> str:
    """A host without a broker may have been given nothing but where it listens for peers: all ports are there then, but
    those that the broker had on the loopback interface only.
    """
    given: str = getattr(host, key)
    return host.peer_listen if given == ANY_PORT and not is_loopback(getattr(own, key)) else given


def beside_peers(host: BrokerSettings) -> BrokerSettings:
    """The settings of a host without a broker: clients ask it for brokers where peers do, if nothing else was given."""
    if host.client_listen != ANY_PORT:
        return host
    place = parse_address(host.peer_listen, key="peer_listen")
    port = usable_port(place.host, 0)
    told = str(Address(parse_address(host.advertise, key="advertise").host, port)) if host.advertise else ""
    listens = str(Address(place.host, port))
    return msgspec.structs.replace(host, client_listen=listens, client_advertise=host.client_advertise or told)


def with_usable_ports(settings: BrokerSettings) -> BrokerSettings:
    """The same settings, unless one of the ports was taken by others meanwhile."""
    return msgspec.structs.replace(settings, **_addresses(settings, settings, settings))


def addresses_in(settings: BrokerSettings) -> BrokerAddresses:
    """Where a broker with these settings is found."""
    return BrokerAddresses(*(getattr(settings, told) or getattr(settings, listens) for listens, told in PORTS))


def usable_port(host: str, wanted: int) -> int:
    """The wanted port where it is free, else another one that is."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in (wanted, 0):
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if port == 0:
                    raise SettingsError("peer_listen", f"{host}: {error.strerror}", "give an address of ours") from None
                continue
            free: int = probe.getsockname()[1]
            return free
    raise AssertionError("there is always a port, or an error")


# Files -----------------------------------------------------------------------------------------------------------


def write_settings(settings: BrokerSettings, folder: Path) -> None:
    replace_file(folder / SETTINGS, msgspec.json.encode(settings))


def read_settings(folder: Path) -> BrokerSettings:
    """Raises SettingsError."""
    try:
        return decode_settings((folder / SETTINGS).read_bytes(), str(folder / SETTINGS))
    except OSError as error:
        remedy = "delete the folder: the broker's primary fills a new copy"
        raise SettingsError("", f"{folder / SETTINGS}: {error.strerror}", remedy) from None


def _former(folder: Path) -> BrokerSettings | None:
    return read_settings(folder) if (folder / SETTINGS).exists() else None


def decode_settings(data: bytes, source: str) -> BrokerSettings:
    """Raises SettingsError."""
    try:
        return msgspec.json.decode(data, type=BrokerSettings)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingsError("", str(error), REMEDY, source=source) from None
