"""Real broker processes, and a client of few lines that talks to them: Endpoint(Client) over a blocking socket."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from pleach.core.client.machine import ClientMachine
from pleach.core.effects import Observed
from pleach.core.events.language import parse_filter
from pleach.core.links.endpoint import Endpoint
from pleach.core.links.frames import CLIENT, FrameReader, encode_frame
from pleach.core.links.session import SessionConfig, SessionPhase
from pleach.core.messages import FallbackBrokers
from support.ports import LOOPBACK, free_ports

PATIENCE_SECONDS = float(
    os.environ.get("PLEACH_PATIENCE", "60")
)  # for conditions that come within a second on an idle machine
DOORS = ("client", "peer", "admin")
PLEACH = [sys.executable, "-c", "from pleach.cli.main import run; run()"]
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("PLEACH_")}


class BrokerProcess:
    """One `pleach broker`; `start` brings it back on the ports that it had, which nobody takes meanwhile."""

    def __init__(self, name, place, *arguments, durable=False, any_port=False):
        """`any_port`: it is told nothing about ports."""
        self.name = name
        self.place = Path(place)
        self.errors = self.place / f"{name}.log"
        self.arguments = [*arguments, *(["--data-dir", str(self.place / name)] if durable else [])]
        self.command = PLEACH
        self.ready = {}
        self.any_port = any_port
        self.process = None
        self.start()

    def start(self):
        ports = [] if self.any_port else self._ports()
        command = [*self.command, "broker", "--name", self.name, *ports, *map(str, self.arguments)]
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=ENVIRONMENT)
        line = self._first_line()
        if not line:
            self.kill()
            raise AssertionError(self.log())
        self.ready = json.loads(line)

    def _ports(self):
        if self.ready:
            places = [self.ready[door] for door in DOORS]
        else:
            places = [f"{LOOPBACK}:{port}" for port in free_ports(len(DOORS))]
        return [f"--{door}-listen={place}" for door, place in zip(DOORS, places, strict=True)]

    def _first_line(self):
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
        return self.process.stdout.readline() if readable else b""

    def log(self):
        return self.errors.read_text()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.wait()

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        code = self.process.wait(PATIENCE_SECONDS)
        self.process.stdout.close()
        return code

    def get(self, path, method="GET"):
        return self._ask(method, path)

    def post(self, path, body, kind="application/json"):
        return self._ask("POST", path, body, {"Content-Type": kind})

    def _ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(*address(self.ready["admin"]), timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def status(self):
        return json.loads(self.get("/status")[1])

    def is_ready(self):
        return self.get("/readyz")[0] == 200


@contextmanager
def processes():
    """Brokers started in here are gone afterwards, whatever happens."""
    started = []

    def start(*arguments, **options):
        started.append(BrokerProcess(*arguments, **options))
        return started[-1]

    try:
        yield start
    finally:
        for broker in started:
            broker.kill()  # also one that ended by itself: its pipe is still open


def chain(start, place, *, durable=False, extra=()):
    """a – b – c; the outer ones dial the middle one."""
    b = start("b", place, "--neighbour", "a", "--neighbour", "c", *extra, durable=durable)
    a = start("a", place, "--peer", f"b={b.ready['peer']}", *extra, durable=durable)
    c = start("c", place, "--peer", f"b={b.ready['peer']}", *extra, durable=durable)
    for broker in (a, b, c):
        eventually(broker.is_ready)
    return a, b, c


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def eventually(condition, *, pumping=(), seconds=PATIENCE_SECONDS):
    """Wait for a condition, with a bound, while clients go on; returns what it has come to."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"did not come true within {seconds} s"
        if pumping:
            pump(*pumping)
        else:
            select.select([], [], [], 0.02)
    return found


def pump(*clients, seconds=0.05):
    """One round: read what is there, send what is due, connect again where necessary."""
    for client in clients:
        client.keep_connected()
    sockets = [client.socket for client in clients if client.socket is not None]
    readable, _, _ = select.select(sockets, [], [], seconds)
    for client in clients:
        if client.socket in readable:
            client.read()
        client.tick()


class StayingClient(ClientMachine):
    """Does not ask elsewhere for its broker."""

    def handle(self, sender, message, *, now):
        return () if isinstance(message, FallbackBrokers) else super().handle(sender, message, now=now)


class RawClient:
    def __init__(self, name, broker, *, epoch=None, attach=True, heartbeat=1.0):
        self.machine = StayingClient(name, broker.name, incarnation=epoch or time.time_ns())
        self.endpoint = Endpoint(self.machine, self.machine.incarnation, SessionConfig(heartbeat=heartbeat))
        self.server = address(broker.ready["client"])
        self.broker = broker.name
        self.socket = None
        self.observed = []
        self.byes = []
        self.fenced = []
        self.endpoint.admit(broker.name).introduction.role = CLIENT
        if attach:
            self.do(self.machine.attach())

    # What the test wants -------------------------------------------------------------------------------------

    def do(self, effects):
        self.endpoint.perform(effects, now=time.monotonic())
        self.flush()

    def publish(self, **attributes):
        self.do(self.machine.publish(attributes))

    def subscribe(self, name, text):
        self.do(self.machine.subscribe(name, parse_filter(text)))
        eventually(lambda: self.seen(Observed.SUBSCRIBE_ACK), pumping=[self])

    def seen(self, kind):
        return [o for o in self.observed if o.kind is kind]

    def delivered(self):
        return [o.event for o in self.seen(Observed.DELIVER)]

    # The connection ------------------------------------------------------------------------------------------

    def keep_connected(self):
        if self.socket is not None or self.fenced:
            return
        try:
            self.socket = socket.create_connection(self.server, timeout=5)
        except OSError:
            select.select([], [], [], 0.05)
            return
        self.reader = FrameReader()
        self.endpoint.connected(self.broker, now=time.monotonic())
        self.flush()

    def is_up(self):
        return self.endpoint.sessions[self.broker].phase is SessionPhase.UP

    def read(self):
        try:
            data = self.socket.recv(262_144)
        except OSError:
            data = b""
        if not data:
            self.disconnect()
            return
        for frame in self.reader.feed(data):
            if type(frame).__name__ == "Bye":
                self.byes.append(frame)
            self.endpoint.receive(self.broker, frame, now=time.monotonic())
        self.flush()

    def tick(self):
        self.endpoint.tick(now=time.monotonic())
        self.flush()

    def flush(self):
        batch = self.endpoint.take_batch()
        self.observed += batch.observed
        self.fenced += batch.fenced
        if self.socket is None:
            return
        try:
            self.socket.sendall(b"".join(encode_frame(frame) for _, frame in batch.transmits))
        except OSError:
            self.disconnect()
        if batch.hangups:
            self.disconnect()

    def disconnect(self):
        if self.socket is not None:
            self.socket.close()
        self.socket = None
        self.endpoint.disconnected(self.broker)
        self.endpoint.take_batch()


@contextmanager
def clients(*made):
    try:
        yield made
    finally:
        for client in made:
            if client.socket is not None:
                client.socket.close()
