"""Pleach itself: broker processes, and the client library."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from pleach.access.certificate_directory import CertificateDirectory
from pleach.access.certificates import CERTIFICATE_DAYS
from pleach.access.identity import IdentityKind
from pleach.access.membership import MemberRole
from pleach.bench.systems.processes import LOOPBACK, read_line, server
from pleach.bench.systems.system import (
    FILTERS,
    TOPIC,
    Addresses,
    Case,
    ReceiveMeter,
    Starter,
    WorkerTask,
    awaited_payloads,
)
from pleach.client.client import Client
from pleach.client.connect import connect
from pleach.core.events.event import Event, EventId, Value
from pleach.harness.network import HostReady, Ready
from pleach.net.loops import run_loop

WINDOW = 1_024  # unconfirmed events of the publisher
AFTER_SECONDS = 5.0  # a benchmark loads the machine: nobody should be replaced for it
BROKERS = ("a", "b", "c")
CERTIFICATES, ACCESS = "certificates", "access.toml"
# Wider than what is published and asked for, as rights are: what the two of them cost, not what they refuse.
RIGHTS = f"""
[principals.bench]
names = ["publisher", "subscriber*"]
publish = "topic IN ('{TOPIC}', 'other') AND NOT EXISTS secret"
subscribe = "topic LIKE '{TOPIC[:2]}%' OR topic = 'other'"
"""


class Host(NamedTuple):
    """A process that holds copies, or has a vote, and its machine's folder."""

    process: subprocess.Popen[bytes]
    folder: Path
    address: str


class Pleach:
    """`rights`: with TLS, clients log in by their certificate, and each event is judged by a right.

    `copies`: on as many disks; each but the broker's own is that of a process of `pleach standby`, and so is a witness.
    """

    def __init__(self, *, copies: int = 0, tls: bool = False, rights: bool = False) -> None:
        secured = ", TLS and rights" if rights else ", TLS" if tls else ""
        kept = {0: "in memory", 1: "durable"}.get(copies, f"{copies} copies")
        self.name = f"Pleach, {kept}{secured}"
        self.cases = (Case.ONE, Case.VARIED, Case.CHAIN) if copies or tls else tuple(Case)
        self._has_tls, self._has_rights = tls, rights
        self.pace = 0.5 if copies else 1.0
        self._copies = copies

    def missing(self) -> str:
        return ""

    @contextmanager
    def serve(self, case: Case, directory: Path) -> Iterator[Addresses]:
        names = BROKERS if case is Case.CHAIN else BROKERS[:1]
        client = _certificates(directory, names) if self._has_tls else ""
        with ExitStack() as stack:
            hosts = [stack.enter_context(host(directory / name)).address for name in host_names(self._copies)]
            brokers: list[Ready] = []
            for number, name in enumerate(names):
                neighbours = ["--neighbour", names[number + 1]] if number + 1 < len(names) else []
                neighbours += ["--peer", f"{brokers[-1].name}={brokers[-1].peer}"] if brokers else []
                command = [*self._command(name, directory, hosts), *neighbours]
                process = stack.enter_context(server(command, directory / f"{name}.log"))
                brokers.append(msgspec.json.decode(read_line(process, f"broker {name}"), type=Ready))
            yield Addresses(brokers[0].client, brokers[-1].client, client)

    def _command(self, name: str, directory: Path, hosts: Sequence[str]) -> list[str]:
        command = [sys.executable, "-m", "pleach", "broker", "--name", name]
        for door in ("client", "peer", "admin"):
            command += [f"--{door}-listen", f"{LOOPBACK}:0"]
        if self._has_tls:
            command += ["--tls", str(directory / CERTIFICATES / "brokers" / name)]
        if self._has_rights:
            (directory / ACCESS).write_text(RIGHTS)
            command += ["--access", str(directory / ACCESS)]
        if self._copies:
            command += ["--data-dir", str(directory / name)]
        if self._copies > 1:
            config = directory / f"{name}.toml"
            config.write_text(standby_table(AFTER_SECONDS, self._copies, hosts))
            command += ["--config", str(config)]
        return command

    def publish(self, task: WorkerTask, start: Starter) -> None:
        run_loop(_publish(task, start))

    def subscribe(self, task: WorkerTask, meter: ReceiveMeter) -> None:
        run_loop(_subscribe(task, meter))


def host_names(copies: int) -> list[str]:
    """Of the machines beside a broker's own, which has so many copies."""
    return [f"host{n}" for n in range(2 * copies - 2)]


@contextmanager
def host(folder: Path) -> Iterator[Host]:
    """`pleach standby`, called like its folder."""
    command = [sys.executable, "-m", "pleach", "standby", folder.name, "--data-dir", str(folder)]
    command += ["--peer-listen", f"{LOOPBACK}:0", "--admin-listen", f"{LOOPBACK}:0"]
    with server(command, folder.with_suffix(".log")) as process:
        ready = msgspec.json.decode(read_line(process, f"host {folder.name}"), type=HostReady)
        yield Host(process, folder, ready.peer)


def standby_table(after: float, copies: int, hosts: Sequence[str]) -> str:
    places = ", ".join(f'"{each}"' for each in hosts)
    return f"[standby]\nafter = {after}\ncopies = {copies}\nat = [{places}]\n"


def _certificates(directory: Path, brokers: Sequence[str]) -> str:
    """Of a network for this run; returns the directory of a client's."""
    made = CertificateDirectory.create(directory / CERTIFICATES, "bench", CERTIFICATE_DAYS)
    for name in brokers:
        made.add_broker(name, (), (MemberRole.BROKER,), CERTIFICATE_DAYS)
    return str(made.add(IdentityKind.CLIENT, "bench"))


async def _publish(task: WorkerTask, start: Starter) -> None:
    async with connect(task.address, name="publisher", window=WINDOW, tls=task.tls or None) as client:
        for events in task.phases:
            start()
            last = await _publish_all(client, task, events)
            await last


async def _publish_all(client: Client, task: WorkerTask, events: int) -> asyncio.Future[EventId]:
    """Returns the last pending confirmation."""
    number = 0
    async for body in awaited_payloads(task.rate, events):
        attributes: dict[str, Value] = {"topic": TOPIC}
        if task.case in (Case.FILTERS, Case.VARIED):  # no two events alike: each is matched
            attributes |= {"key": number % FILTERS, "number": number}
        last = await client.publish_windowed(attributes, body)
        number += 1
    return last


async def _subscribe(task: WorkerTask, meter: ReceiveMeter) -> None:
    done = asyncio.Event()

    def on_event(event: Event) -> None:
        if meter.note(event.payload):
            done.set()

    filters = [f"topic = '{TOPIC}'"]
    if task.case is Case.FILTERS:
        filters = [f"topic = '{TOPIC}' AND key = {key}" for key in range(FILTERS)]
    async with AsyncExitStack() as stack:
        for number in range(task.subscribers):
            made = connect(task.address, name=f"subscriber{number}", tls=task.tls or None)
            client = await stack.enter_async_context(made)
            await asyncio.gather(*(client.subscribe(wanted, callback=on_event) for wanted in filters))
        meter.ready()
        await done.wait()
