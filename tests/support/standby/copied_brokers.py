"""Brokers with copies, as processes: each is a machine, with a session of its own, so that all of it can be lost."""

import json
import os
import shutil
import signal
import subprocess
from contextlib import contextmanager, suppress

from pleach.core.effects import Observed
from support.live.broker_process import ENVIRONMENT, BrokerProcess, RawClient, eventually
from support.ports import free_port


class MachineOf(BrokerProcess):
    """`pleach broker` or `pleach standby`, with whatever it has started."""

    def __init__(self, name, place, *arguments, at=(), after=1.0, copies=2, has_broker=True, port=0):
        self.has_broker = has_broker
        self.data = place / name
        self.port = port or free_port()
        self.settings = place / f"{name}.toml"
        self.settings.write_text(
            f"standby = {{ after = {after}, copies = {copies}, at = {json.dumps(list(at))} }}\nheartbeat = 0.5\n"
        )
        super().__init__(name, place, *arguments, "--data-dir", str(self.data))

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        kind = "broker" if self.has_broker else "standby"
        command = [*self.command, kind, "--config", self.settings, "--name", self.name, *self.arguments]
        command += ["--peer-listen", self.address]
        if self.has_broker and self.ready.get("client"):
            command += ["--client-listen", self.ready["client"], "--admin-listen", self.ready["admin"]]
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                list(map(str, command)),
                stdout=subprocess.PIPE,
                stderr=errors,
                env=ENVIRONMENT,
                start_new_session=True,
            )
        line = self._first_line()
        assert line, self.log()
        ready = json.loads(line)
        if ready["client"] or not self.ready:
            self.ready = ready

    def kill(self):
        """All processes of the machine, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process.stdout and not self.process.stdout.closed:
            self.wait()

    def stop_running(self):
        os.killpg(self.process.pid, signal.SIGSTOP)

    def go_on(self):
        os.killpg(self.process.pid, signal.SIGCONT)

    def destroy(self):
        self.kill()
        shutil.rmtree(self.data)

    def restart(self):
        self.start()

    # What it holds -------------------------------------------------------------------------------------------

    def promoted(self, broker):
        """Where a broker listens that was promoted on this machine; None: it does not run here."""
        file = self.data / "standby" / broker / "ready.json"
        try:
            return PromotedBroker(broker, json.loads(file.read_bytes()))
        except FileNotFoundError:
            return None

    def told(self):
        """What /status says of copies."""
        return self.status()["standby"]

    @property
    def is_covered(self):
        """Whether all copies have everything."""
        told = self.told()
        return told["serving"] and bool(told["copies"]) and not told["waiting"]["records"]

    @property
    def is_safe(self):
        """Whether it may be lost: there is a majority without it, too."""
        return self.told()["covered"]


class PromotedBroker:
    """A broker that runs in a process that its host has started; as far as clients care."""

    def __init__(self, name, ready):
        self.name, self.ready = name, ready

    get, _ask, status, is_ready = BrokerProcess.get, BrokerProcess._ask, BrokerProcess.status, BrokerProcess.is_ready
    told, is_covered = MachineOf.told, MachineOf.is_covered


@contextmanager
def machines(place, *, kind=MachineOf):
    """Machines started in here are gone afterwards, whatever happens."""
    started = []

    def start(name, *arguments, **options):
        started.append(kind(name, place, *arguments, **options))
        return started[-1]

    try:
        yield start
    finally:
        for machine in started:
            with suppress(ProcessLookupError):
                os.killpg(machine.process.pid, signal.SIGCONT)
            machine.kill()


def broker_and_hosts(start, *hosts, **options):
    """Broker b, and machines that hold copies only."""
    held = [start(name, has_broker=False, **options) for name in hosts]
    port = free_port()
    b = start("b", at=[f"127.0.0.1:{port}", *(host.address for host in held)], port=port, **options)
    eventually(lambda: b.is_covered and (b.is_safe or len(hosts) < 2))
    return b, *held


def chain_of_three(start, **options):
    """a – b – c, where each holds copies of others."""
    b = start("b", "--neighbour", "a", "--neighbour", "c", **options)
    a = start("a", "--peer", f"b={b.address}", **options)
    c = start("c", "--peer", f"b={b.address}", **options)
    eventually(lambda: all(broker.is_safe and broker.is_ready() for broker in (a, b, c)))
    return a, b, c


class TestClient(RawClient):
    """Knows what was confirmed to it."""

    __test__ = False

    def publish_all(self, numbers):
        for n in numbers:
            self.publish(n=n)

    @property
    def confirmed(self):
        return [seen.event_id for seen in self.seen(Observed.PUBLISH_ACK)]

    def numbers(self):
        return [event.attributes["n"] for event in self.delivered()]

    def moves_to(self, broker):
        """As a client does that was told where its broker is now."""
        self.disconnect()
        host, _, port = broker.ready["client"].rpartition(":")
        self.server = host, int(port)
