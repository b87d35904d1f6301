"""Writing the files of a new network.

    DIR/README.md                              the commands
    DIR/b1/broker.toml   DIR/b2/broker.toml …  a directory for each broker: all that its machine needs
    DIR/b1/tls/  DIR/b1/access.toml            with certificates
    DIR/certs/                                 the authority, and files of clients and operators: stays here

Rule 1: nothing is written into a directory in which there is something, so that no authority and no data is lost.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from pleach.access.certificate_directory import CertificateDirectory
from pleach.access.certificates import AUTHORITY_DAYS, CERTIFICATE_DAYS
from pleach.access.identity import IdentityKind
from pleach.access.membership import MemberRole
from pleach.errors import FoundingError
from pleach.founding.broker_files import ACCESS, APPLICATION, OPERATOR, SETTINGS, TLS, access_file, settings_file
from pleach.founding.layout import BrokerPlace, NewNetwork
from pleach.founding.readme import readme

README, CERTIFICATES = "README.md", "certs"


def write_network(network: NewNetwork, place: Path, *, told: Callable[[str], None] = lambda _: None) -> None:
    """`told`: is given each broker's name when its files are there. Raises FoundingError."""
    try:
        _check_empty(place)
        issued = _certificates(network, place / CERTIFICATES) if network.is_secured else None
        for broker in network.brokers:
            _write_broker(network, broker, place / broker.name, issued)
            told(broker.name)
        (place / README).write_text(readme(network), encoding="utf-8")
    except OSError as error:
        raise FoundingError(str(place), error.strerror or str(error), "give a directory that can be written") from None


def _check_empty(place: Path) -> None:
    if place.exists() and not place.is_dir():
        raise FoundingError(str(place), "there is a file of this name", "give a directory that is empty or new")
    if place.is_dir() and (found := sorted(entry.name for entry in place.iterdir())):
        raise FoundingError(str(place), f"{found[0]} is in it", "give a directory that is empty or new")
    place.mkdir(parents=True, exist_ok=True)


def _certificates(network: NewNetwork, place: Path) -> CertificateDirectory:
    """With all brokers on the list before it is copied anywhere."""
    made = CertificateDirectory.create(place, network.name, AUTHORITY_DAYS)
    for broker in network.brokers:
        made.add_broker(broker.name, [broker.client.host], (MemberRole.BROKER,), CERTIFICATE_DAYS)
    made.add(IdentityKind.CLIENT, APPLICATION)
    made.add(IdentityKind.OPERATOR, OPERATOR)
    return made


def _write_broker(network: NewNetwork, broker: BrokerPlace, place: Path, issued: CertificateDirectory | None) -> None:
    place.mkdir(mode=0o700)
    (place / SETTINGS).write_text(settings_file(network, broker), encoding="utf-8")
    if issued is not None:
        shutil.copytree(issued.place(IdentityKind.BROKER, broker.name), place / TLS)
        (place / ACCESS).write_text(access_file(), encoding="utf-8")
