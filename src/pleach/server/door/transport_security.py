"""TLS of a broker process: its credentials, read again by SIGHUP, and the check of whoever is at the other end.

Rule 1: new connections use the newest credentials. Those that are open are checked again when credentials were read:
        who is not on the membership list any more, or has a revoked certificate, is disconnected (daemon.py).
Rule 2: files that are unusable are refused as a whole: the old ones stay in use.
Rule 3: the number of the newest list is kept in the data directory, so that an older one is refused after a restart,
        too.
"""

from __future__ import annotations

import base64
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.serialization import Encoding

from pleach.core.links.frames import ByeReason, Hello
from pleach.core.messages import Node
from pleach.errors import CertificateError, TlsError
from pleach.net.tls_layer import TlsSide
from pleach.server.door.tls_settings import TlsSettings
from pleach.server.feature import Feature, HelloRefusal
from pleach.server.links import Port
from pleach.server.metrics import MetricSample
from pleach.server.settings import BrokerSettings

if TYPE_CHECKING:
    from pleach.access.tls import Credentials

NUMBER = "members.number"
WARNING_DAYS = 30.0
WARNED_SECONDS = 86_400.0  # between two warnings

log = logging.getLogger(__name__)


class TransportSecurity(Feature):
    def __init__(self, settings: Callable[[], BrokerSettings], tls: TlsSettings) -> None:
        """Raises CertificateError where the files are unusable."""
        self._settings = settings
        self._tls = tls
        self._warned_at = 0.0
        self.credentials = _loaded(tls, settings(), _known_number(settings()))
        self._warn()

    def own_certificate(self) -> bytes:
        """DER."""
        certificate = self.credentials.certificate
        assert certificate is not None
        return certificate.public_bytes(Encoding.DER)

    # Connections ---------------------------------------------------------------------------------------------

    def listening(self, port: Port) -> TlsSide:
        """Brokers must have certificates; clients, and operators likewise, may have other ways to say who they are."""
        match port:
            case Port.PEERS:
                return TlsSide(self.credentials.listening(ssl.CERT_REQUIRED), self._check_broker, is_server=True)
            case Port.CLIENTS:
                return TlsSide(self.credentials.listening(ssl.CERT_OPTIONAL), self._check_client, is_server=True)

    def dialling(self, peer: Node = "") -> TlsSide:
        """`peer`: the broker that is expected there; empty: any."""

        def check(der: bytes | None, node: str) -> None:
            if peer and node not in ("", peer):
                raise TlsError(f"{node} answers there, not {peer}", "correct the address of the peer")
            self._check_broker(der, node or peer)

        return TlsSide(self.credentials.dialling, check)

    def _check_broker(self, der: bytes | None, node: str) -> None:
        self.credentials.check_broker(der, node)

    def _check_client(self, der: bytes | None, node: str) -> None:
        self.credentials.check_other(der, node)

    def refuse_hello(self, hello: Hello, port: Port) -> HelloRefusal | None:
        """Names of brokers are not for clients, wherever in the network those brokers are (decision 36)."""
        members = self.credentials.members
        if port is not Port.CLIENTS or members is None or hello.node not in members.brokers:
            return None
        return HelloRefusal(ByeReason.REFUSED, f"{hello.node!r} is the name of a broker: choose another one")

    # Reloading -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._keep_number()

    def settings_applied(self) -> None:
        """SIGHUP: the files may be others."""
        try:
            credentials = _loaded(self._tls, self._settings(), self._number)
        except CertificateError as error:
            log.error("certificates and membership list stay as they are: %s", error)  # noqa: TRY400 - it says it all
            return
        self.credentials = credentials
        self._keep_number()
        log.info("certificates read again; membership list number %d", self._number)
        self._warned_at = 0.0
        self._warn()

    @property
    def _number(self) -> int:
        return self.credentials.members.number if self.credentials.members else 0

    def _keep_number(self) -> None:
        """Rule 3."""
        if self._settings().data_dir:
            path = Path(self._settings().data_dir) / NUMBER
            partial = path.with_name(f"{NUMBER}.new")
            partial.write_text(f"{self._number}\n")
            partial.replace(path)

    def tick(self, now: float) -> None:
        self._warn()

    def _warn(self) -> None:
        now = time.time()
        days = self.credentials.days_left(now) or 0.0
        if days < WARNING_DAYS and now - self._warned_at > WARNED_SECONDS:
            self._warned_at = now
            name = self._settings().name
            log.warning("the certificate of %s expires in %.1f days: renew it with `pleach certs broker`", name, days)

    # What operators see --------------------------------------------------------------------------------------

    def status(self) -> dict[str, object]:
        credentials = self.credentials
        shown = {
            "network": credentials.network,
            "identity": str(credentials.identity),
            "expires_days": credentials.days_left(time.time()),
            "members": self._number,
        }
        return {"tls": shown}

    def gauges(self) -> dict[str, Sequence[MetricSample]]:
        days = self.credentials.days_left(time.time()) or 0.0
        return {"pleach_certificate_expiry_days": [MetricSample(days)]}


def _known_number(settings: BrokerSettings) -> int:
    """Of the newest list that this broker has had (rule 3)."""
    try:
        return int((Path(settings.data_dir) / NUMBER).read_text()) if settings.data_dir else 0
    except (OSError, ValueError):
        return 0


def _loaded(tls: TlsSettings, settings: BrokerSettings, known_number: int) -> Credentials:
    from pleach.access.certificates import public_bytes  # noqa: PLC0415
    from pleach.access.identity import IdentityKind  # noqa: PLC0415 - brokers without TLS start sooner
    from pleach.access.tls import Credentials, Tls  # noqa: PLC0415

    files = Tls(tls.path("authority"), tls.path("certificate"), tls.path("key"), tls.path("members"))
    credentials = Credentials(files, time.time(), known_number=known_number)
    identity = credentials.identity
    if identity is None or credentials.key is None or identity.kind is not IdentityKind.BROKER:
        raise CertificateError(files.certificate, f"of {identity}, not of a broker", "give that of this broker")
    node = settings.name
    if credentials.members is None:
        raise CertificateError(files.members, "missing", "copy it from the authority's directory")
    if reason := credentials.members.why_not(identity.name, node):
        remedy = f"give the files of {node}, and a list that it is on"
        raise CertificateError(files.certificate, f"{node} may not use it: {reason}", remedy)
    own = credentials.members.brokers[identity.name].key
    if base64.b64decode(own) != public_bytes(credentials.key):
        raise CertificateError(files.members, f"the list has another key of {identity.name}", "copy the newest list")
    for wanted in (ssl.CERT_REQUIRED, ssl.CERT_OPTIONAL):
        credentials.listening(wanted)  # now: the files may be others when somebody comes
    return credentials
