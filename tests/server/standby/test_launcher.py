"""Brokers that a machine starts as processes of their own: with which settings, and what becomes of them."""

import asyncio
import contextlib
import os
import signal
import stat
from pathlib import Path

import msgspec
import pytest

from pleach.access.access_file import load_access
from pleach.core.standby.views import Register, View
from pleach.errors import SettingsError
from pleach.server.door.settings import AccessSettings
from pleach.server.door.tls_settings import TlsSettings
from pleach.server.settings import BrokerSettings
from pleach.server.standby import launcher
from pleach.server.standby.launch_settings import (
    ACCESS,
    CERTIFICATE,
    DATA,
    KEY,
    addresses_in,
    beside_peers,
    broker_settings,
    read_settings,
    usable_port,
    with_usable_ports,
    write_settings,
)
from pleach.server.standby.launcher import PID, READY, BrokerLauncher, Ended, LaunchingHost
from pleach.server.standby.messages import BrokerFiles
from pleach.server.standby.registers import RegisterFile
from pleach.server.storage.database import locked
from pleach.server.storage.store import Store
from support.access.operators import Provider
from support.live.tiny_broker import until

HERE, THERE = "h#1", "m#1"
HOST = BrokerSettings(
    "h",
    client_listen="127.0.0.1:7100",
    client_advertise="h.example:7100",
    zone="south",
    tls=TlsSettings("certs/h"),
    insecure=True,
)


def files_of(settings, **more):
    return BrokerFiles(msgspec.json.encode(settings), **more)


# Settings --------------------------------------------------------------------------------------------------------


def test_the_settings_are_the_brokers_on_addresses_of_its_host(tmp_path):
    own = BrokerSettings("x", parent="a", peers={'q"\\': "127.0.0.1:5"}, routing="merging", zone="north", heartbeat=0.3)
    made = broker_settings(files_of(own), HOST, tmp_path)
    assert (made.name, made.parent, made.peers, made.heartbeat) == (own.name, own.parent, own.peers, own.heartbeat)
    assert (made.zone, made.insecure, made.tls) == ("south", True, None)
    assert made.client_listen != HOST.client_listen
    assert made.client_advertise == f"h.example:{made.client_listen.rpartition(':')[2]}"
    assert made.data_dir == str(tmp_path / "data")
    assert addresses_in(made).client == made.client_advertise
    assert addresses_in(made).peer == made.peer_listen
    write_settings(made, tmp_path)
    assert read_settings(tmp_path) == made


def test_a_host_without_a_broker_has_all_ports_where_it_listens_for_peers(tmp_path):
    host = BrokerSettings("m1", peer_listen="127.0.1.7:7300", advertise="m1.example:7300")
    own = BrokerSettings("x", client_listen="10.0.0.1:7100", peer_listen="10.0.0.1:7200", admin_listen="127.0.0.1:7300")
    made = broker_settings(files_of(own), host, tmp_path)
    hosts = [each.rpartition(":")[0] for each in (made.client_listen, made.peer_listen, made.admin_listen)]
    assert hosts == ["127.0.1.7", "127.0.1.7", "127.0.0.1"]  # operators of this broker come from its own machine
    assert {each.rpartition(":")[0] for each in msgspec.structs.astuple(addresses_in(made))} == {"m1.example"}


def test_clients_ask_a_host_where_it_listens_for_peers_if_nothing_else_was_said():
    host = beside_peers(BrokerSettings("m1", peer_listen="127.0.1.7:7300", advertise="m1.example:7300"))
    assert host.client_listen.startswith("127.0.1.7:")
    assert host.client_advertise.startswith("m1.example:")
    assert host.admin_listen == "127.0.0.1:0"
    told = BrokerSettings("m1", client_listen="127.0.0.9:7100")
    assert beside_peers(told) == told


def test_certificate_key_and_rights_come_with_the_broker_and_are_private(tmp_path):
    own = BrokerSettings("x", tls=TlsSettings("elsewhere"), access=AccessSettings("elsewhere.toml", audit="/var/log/x"))
    made = broker_settings(files_of(own, certificate=b"C", key=b"K", access=b"A"), HOST, tmp_path)
    assert made.tls.path("authority") == HOST.tls.path("authority")
    assert made.tls.path("members") == HOST.tls.path("members")
    assert (made.tls.path("certificate"), made.tls.path("key")) == (str(tmp_path / CERTIFICATE), str(tmp_path / KEY))
    assert made.access == AccessSettings(str(tmp_path / ACCESS))
    assert [(tmp_path / each).read_bytes() for each in (CERTIFICATE, KEY, ACCESS)] == [b"C", b"K", b"A"]
    assert {stat.S_IMODE((tmp_path / each).stat().st_mode) for each in (CERTIFICATE, KEY, ACCESS)} == {0o600}


def test_the_access_file_is_the_hosts_where_it_has_one(tmp_path):
    """A right that is taken back there is gone at all brokers of the machine."""
    host = msgspec.structs.replace(HOST, access=AccessSettings("/etc/pleach/access.toml", audit="/var/log/h"))
    own = BrokerSettings("x", access=AccessSettings("elsewhere.toml"))
    made = broker_settings(files_of(own, access=b"A"), host, tmp_path)
    assert made.access == AccessSettings("/etc/pleach/access.toml")
    assert not (tmp_path / ACCESS).exists()
    assert broker_settings(files_of(BrokerSettings("y")), host, tmp_path).access is None


@pytest.mark.parametrize("keys", ["issuer.pem", "../keys/issuer.pem", "/nowhere/keys/issuer.pem"])
def test_the_keys_of_an_issuer_come_with_the_access_file(tmp_path, keys):
    provider = Provider(tmp_path)
    provider.write(oscar="verbs = ['read']")
    text = provider.file.read_text().replace("issuer.pem", keys)
    pem, folder = (tmp_path / "issuer.pem").read_bytes(), tmp_path / "standby" / "x"
    own = BrokerSettings("x", access=AccessSettings("access.toml"))
    made = broker_settings(files_of(own, access=text.encode(), token_keys=pem), HOST, folder)
    principal, _ = load_access(Path(made.access.file)).of_token(provider.token("oscar"))
    assert principal is not None


def test_a_host_without_tls_cannot_run_a_broker_that_has_it(tmp_path):
    plain = msgspec.structs.replace(HOST, tls=None)
    with pytest.raises(SettingsError, match="its host h has not"):
        broker_settings(files_of(BrokerSettings("x", tls=TlsSettings("elsewhere"))), plain, tmp_path)


def test_settings_of_another_release_are_told(tmp_path):
    with pytest.raises(SettingsError, match="the same release"):
        broker_settings(BrokerFiles(b'{"name": "x", "unheard_of": 1}'), HOST, tmp_path)


def test_a_broker_that_comes_back_has_the_ports_that_it_had(tmp_path):
    own = files_of(BrokerSettings("x"))
    write_settings(made := broker_settings(own, HOST, tmp_path), tmp_path)
    assert addresses_in(broker_settings(own, HOST, tmp_path)) == addresses_in(made)
    assert with_usable_ports(made) == made


def test_a_port_that_others_have_taken_is_replaced():
    async def story():
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        taken = server.sockets[0].getsockname()[1]
        assert usable_port("127.0.0.1", taken) not in (0, taken)
        server.close()

    asyncio.run(story())


# Processes -------------------------------------------------------------------------------------------------------


class Machine:
    """A machine whose disk has a copy of broker x, and a launcher on it."""

    def __init__(self, directory):
        self.settings = BrokerSettings("h", data_dir=str(directory))
        self.host = LaunchingHost(HERE, lambda: self.settings, lambda: "127.0.0.1:7200", lambda: "127.0.0.1:7100")
        self.folder = self.host.folder("x")
        self.register = RegisterFile(self.folder)
        self.ended = []
        self.install(HERE)
        Store.open(self.folder / "data", "x", epoch=7).close()
        self.launcher = self.started()

    def started(self):
        return BrokerLauncher(self.host, lambda *ended: self.ended.append(ended))

    def install(self, primary):
        self.register.save(Register(View("x", 3, (primary, "z#1"))))

    def launch(self):
        self.launcher.launch("x", files_of(BrokerSettings("x", heartbeat=0.2)))

    def restart_host(self):
        """The host was killed, and is started again."""
        for launched in self.launcher._launched.values():
            launched.task.cancel()
        self.launcher = self.started()
        self.launcher.resume("x")

    async def ready(self):
        await until((self.folder / READY).exists)
        return self.launcher.running["x"]


def with_machine(directory, story):
    async def run():
        machine = Machine(directory)
        try:
            await story(machine)
        finally:
            await machine.launcher.stop()

    asyncio.run(run())


def is_alive(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


class Loaded:
    """A process that does what it is told until it is ended."""

    def __init__(self):
        self.pid, self.returncode, self.stdin = 7, None, self
        self.told = []
        self._ended = asyncio.Event()
        self.write, self.close = self.told.append, lambda: None

    def send_signal(self, _number):
        self._ended.set()

    async def wait(self):
        await self._ended.wait()
        return 0


@pytest.mark.parametrize("spares", [0, 1])
def test_where_no_process_can_be_started_it_is_tried_again(tmp_path, monkeypatch, spares):
    """The system may have no room for one just now."""
    made, refusals = [], [BlockingIOError("no more processes")]

    async def loaded():
        if refusals:
            raise refusals.pop()
        made.append(Loaded())
        return made[-1]

    monkeypatch.setattr(launcher, "_loaded", loaded)
    monkeypatch.setattr(launcher, "RESTART_SECONDS_MIN", 0.0)

    async def story(machine):
        machine.launcher.keep_spares(spares)
        await asyncio.sleep(0)
        machine.launch()
        await until(lambda: made and made[0].told)
        assert machine.launcher.running == {"x": 7}

    with_machine(tmp_path, story)


def test_a_broker_has_no_process_id_while_its_process_is_being_started(tmp_path, monkeypatch):
    """Its host speaks for it as long as it has none, or always the same."""
    may_start = asyncio.Event()

    async def loaded():
        await may_start.wait()
        return Loaded()

    monkeypatch.setattr(launcher, "_loaded", loaded)

    async def story(machine):
        machine.launch()
        await asyncio.sleep(0)
        assert machine.launcher.running == {"x": 0}
        may_start.set()
        await until(lambda: machine.launcher.running == {"x": 7})

    with_machine(tmp_path, story)


@pytest.mark.parametrize("written", [None, "", "seven", "0", "-1", "1", "own"])
def test_nothing_is_signalled_where_a_pid_file_names_no_process_of_the_broker(tmp_path, monkeypatch, written):
    """0 is this process and all that were started with it, -1 is every process that this user has."""
    signalled = []
    monkeypatch.setattr(os, "kill", lambda *given: signalled.append(given))

    async def story(machine):
        write_settings(BrokerSettings("x", data_dir=str(machine.folder / DATA)), machine.folder)
        (machine.folder / READY).touch()
        if written is not None:
            (machine.folder / PID).write_text(str(os.getpid()) if written == "own" else written)
        with locked(machine.folder / DATA):
            machine.launcher.resume("x")
            machine.launcher.reload()
            killed = asyncio.create_task(machine.launcher.kill("x"))
            await asyncio.sleep(0)
        await killed
        assert signalled == []

    with_machine(tmp_path, story)


@pytest.mark.live
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_one_that_ends_is_started_again_on_its_ports_and_stops_with_its_host(tmp_path, end):
    async def story(machine):
        machine.launcher.keep_spares(2)
        machine.launch()
        first = await machine.ready()
        addresses = machine.launcher.addresses_of("x")
        (machine.folder / READY).unlink()
        os.kill(first, end)
        second = await machine.ready()
        assert second not in (0, first)
        assert (machine.folder / PID).read_text().strip() == str(second)
        assert machine.launcher.addresses_of("x") == addresses
        ready = msgspec.json.decode((machine.folder / READY).read_bytes())
        assert (ready["client"], ready["peer"], ready["admin"]) == msgspec.structs.astuple(addresses)
        await machine.launcher.stop()
        assert not is_alive(second)
        assert not machine.ended

    with_machine(tmp_path, story)


@pytest.mark.live
def test_one_that_outlives_its_host_is_found_again_and_watched(tmp_path):
    async def story(machine):
        machine.launch()
        pid = await machine.ready()
        machine.restart_host()
        assert machine.launcher.running == {"x": pid}
        (machine.folder / READY).unlink()
        os.kill(pid, signal.SIGKILL)
        assert await machine.ready() not in (0, pid)

    with_machine(tmp_path, story)


@pytest.mark.live
def test_one_that_died_with_its_host_is_started_again(tmp_path):
    async def story(machine):
        machine.launch()
        await machine.ready()
        await machine.launcher.stop()
        (machine.folder / READY).unlink()
        machine.restart_host()
        assert await machine.ready()

    with_machine(tmp_path, story)


@pytest.mark.live
@pytest.mark.parametrize(("primary", "why"), [(THERE, Ended.DEPOSED), (None, Ended.LEFT)])
def test_one_that_is_not_the_primary_any_more_has_ended_for_good(tmp_path, primary, why):
    async def story(machine):
        machine.launch()
        pid = await machine.ready()
        if primary:
            machine.install(primary)
        else:
            machine.register.path.unlink()
        os.kill(pid, signal.SIGKILL)
        await until(lambda: machine.ended)
        assert machine.ended == [("x", why)]
        assert machine.launcher.running == {}
        Store.open(machine.folder / "data", "x", epoch=8).close()  # it is free

    with_machine(tmp_path, story)


@pytest.mark.live
@pytest.mark.parametrize("is_found", [False, True])
def test_when_one_is_killed_its_folder_is_free(tmp_path, is_found):
    async def story(machine):
        machine.launch()
        pid = await machine.ready()
        if is_found:
            machine.restart_host()
        await machine.launcher.kill("x")
        Store.open(machine.folder / "data", "x", epoch=8).close()
        assert machine.launcher.addresses_of("x") is None
        assert not machine.ended
        await until(lambda: is_found or not is_alive(pid))

    with_machine(tmp_path, story)
