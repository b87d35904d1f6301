"""Certificates for tests, and brokers that use them."""

import http.client
import ssl
import time

from pleach.access.certificate_directory import CertificateDirectory
from pleach.access.certificates import KeyPair, certificate_pem, issue, key_pem, read_certificate, read_key
from pleach.access.identity import Identity, IdentityKind
from pleach.access.membership import MemberRole
from support.live.broker_process import BrokerProcess, address, eventually

ROLES = (MemberRole.BROKER,)
DAY = 86_400.0


class TlsNetwork:
    """An authority in a directory, brokers, a client and an operator."""

    def __init__(self, place, *brokers, network="acme", roles=ROLES):
        self.path = place
        self.made = CertificateDirectory.create(place, network, 10)
        for name in brokers:
            self.made.add_broker(name, ["localhost", "127.0.0.1"], roles, 10)
        self.client = self.made.add(IdentityKind.CLIENT, "alice")
        self.operator = self.made.add(IdentityKind.OPERATOR, "oscar")

    def broker(self, name):
        return self.path / "brokers" / name

    def stray(self, place, name, *, kind=IdentityKind.BROKER, network="acme", age_days=0.0, days=10):
        """Files with a certificate that the list does not know, as a client of TLS can have them."""
        authority = KeyPair(read_certificate(self.path / "authority.pem"), read_key(self.path / "authority.key.pem"))
        pair = issue(authority, Identity(network, kind, name), time.time() - age_days * DAY, days=days)
        place.mkdir()
        (place / "certificate.pem").write_bytes(certificate_pem(pair.certificate))
        (place / "key.pem").write_bytes(key_pem(pair.key))
        (place / "authority.pem").write_bytes((self.path / "authority.pem").read_bytes())
        return place

    def context(self, files):
        """Of a client that checks nothing, and shows what these files hold."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if files is not None:
            context.load_cert_chain(files / "certificate.pem", files / "key.pem")
        return context


class TlsBroker(BrokerProcess):
    """A broker whose operators' port is asked with TLS, as an operator."""

    def __init__(self, name, place, network, *arguments, **options):
        self.network = network
        super().__init__(name, place, "--tls", network.broker(name), *arguments, **options)

    def _ask(self, method, path, body=None, headers=None):
        context = self.network.context(self.network.operator)
        connection = http.client.HTTPSConnection(*address(self.ready["admin"]), timeout=60, context=context)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


def tls_chain(started, place, network, *, durable=False, extra=()):
    """a – b – c; `started`: gets each broker, to be ended by the test."""
    b = TlsBroker("b", place, network, "--neighbour", "a", "--neighbour", "c", *extra, durable=durable)
    started.append(b)
    for name in ("a", "c"):
        started.append(TlsBroker(name, place, network, "--peer", f"b={b.ready['peer']}", *extra, durable=durable))
    for broker in started:
        eventually(broker.is_ready)
    return {broker.name: broker for broker in started}
