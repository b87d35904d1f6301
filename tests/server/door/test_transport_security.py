"""The certificate of a broker that expires soon: when operators are told of it."""

import logging
import time

import pytest

from pleach.access.certificate_directory import CertificateDirectory
from pleach.access.membership import MemberRole
from pleach.server.door.tls_settings import TlsSettings
from pleach.server.door.transport_security import WARNED_SECONDS, TransportSecurity
from pleach.server.settings import BrokerSettings

DAYS = 10


@pytest.fixture
def security(tmp_path):
    """Of broker a, whose certificate has DAYS left."""
    network = CertificateDirectory.create(tmp_path / "certs", "acme", DAYS)
    tls = TlsSettings(str(network.add_broker("a", [], (MemberRole.BROKER,), DAYS)))
    settings = BrokerSettings("a", tls=tls)
    return lambda: TransportSecurity(lambda: settings, tls)


@pytest.fixture
def warnings(caplog, monkeypatch):
    """How often there was a warning so far."""
    caplog.set_level(logging.WARNING, "pleach")
    monkeypatch.setattr(logging.getLogger("pleach"), "propagate", True)
    return lambda: caplog.text.count("the certificate of a expires in")


def test_it_is_told_at_the_start_and_then_once_a_day(security, warnings, monkeypatch):
    made, now = security(), time.time()
    for day in range(3):
        for second in range(5):
            monkeypatch.setattr(time, "time", lambda at=now + day * (WARNED_SECONDS + 10) + second: at)
            made.tick(0.0)
        assert warnings() == day + 1


def test_it_is_told_again_when_the_files_were_read_again(security, warnings):
    made = security()
    made.settings_applied()
    assert warnings() == 2
    made.tick(0.0)
    assert warnings() == 2
