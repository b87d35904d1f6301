"""Copies in a network with TLS: machines prove who they are, and a promoted broker has its own certificate there."""

import asyncio

import pleach
from support.live.broker_process import eventually
from support.live.tls_network import TlsBroker, TlsNetwork
from support.standby.copied_brokers import MachineOf, broker_and_hosts, machines


class SecuredMachine(MachineOf):
    _ask = TlsBroker._ask

    def promoted(self, broker):
        found = super().promoted(broker)
        if found is not None:
            found.network, found._ask = self.network, TlsBroker._ask.__get__(found)
        return found


def test_a_broker_with_tls_comes_back_elsewhere_with_its_certificate(tmp_path):
    network = TlsNetwork(tmp_path / "certs", "b", "h1", "h2")

    class Machine(SecuredMachine):
        def __init__(self, name, place, *arguments, **options):
            self.network = network
            super().__init__(name, place, "--tls", network.broker(name), *arguments, **options)

    async def publish(broker, numbers):
        address = f"pleach://{broker.ready['client']}"
        async with pleach.connect(address, name="alice", tls=network.path / "clients" / "alice") as client:
            for n in numbers:
                await client.publish({"n": n})

    with machines(tmp_path, kind=Machine) as start:
        b, *hosts = broker_and_hosts(start, "h1", "h2")
        asyncio.run(publish(b, range(10)))
        b.destroy()
        again = eventually(lambda: next((host.promoted("b") for host in hosts if host.promoted("b")), None))
        eventually(lambda: again.is_covered)
        assert again.status()["tls"]["identity"] == "pleach://acme/broker/b"
        asyncio.run(publish(again, range(10)))
