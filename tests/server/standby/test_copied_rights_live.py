"""Copies in a network with an access file: who may what at a promoted broker, and at machines without one."""

import signal

import pytest

from support.access.operators import Provider, request
from support.live.broker_process import eventually
from support.standby.copied_brokers import MachineOf, broker_and_hosts, machines

pytestmark = pytest.mark.live


def asking_as(provider, principal):
    """Machines whose operators' port is asked with a token."""

    def ask(self, method, path, body=None, headers=None):
        answer = request(self, method, path, body, {**provider.bearer(principal), **(headers or {})})
        return answer.code, answer.text

    class Machine(MachineOf):
        _ask = ask

        def promoted(self, broker):
            found = super().promoted(broker)
            if found is not None:
                found._ask = ask.__get__(found)
            return found

    return Machine


def may_read(machine, provider, principal):
    return request(machine, "GET", "/status", fields=provider.bearer(principal)).code == 200


@pytest.mark.parametrize("hosts_have_it", [True, False])
def test_rights_hold_where_a_broker_is_promoted_and_end_when_the_machine_is_told(tmp_path, hosts_have_it):
    provider = Provider(tmp_path)
    provider.write(oscar="verbs = ['read', 'remove']", olga="verbs = ['read']")
    kind = asking_as(provider, "olga")

    def begin(name, *arguments, has_broker=True, **options):
        given = ("--access", str(provider.file)) if has_broker or hosts_have_it else ()
        return start(name, *given, *arguments, has_broker=has_broker, **options)

    with machines(tmp_path, kind=kind) as start:
        b, *hosts = broker_and_hosts(begin, "h1", "h2")
        b.destroy()
        home = eventually(lambda: next((host for host in hosts if host.promoted("b")), None))
        again = home.promoted("b")
        eventually(lambda: again.is_covered)
        assert may_read(again, provider, "oscar")
        assert request(again, "GET", "/status").code == 401
        provider.write(olga="verbs = ['read']")
        for host in hosts:
            host.process.send_signal(signal.SIGHUP)
        if hosts_have_it:
            eventually(lambda: not any(may_read(each, provider, "oscar") for each in (again, *hosts)))
        assert may_read(again, provider, "olga")
