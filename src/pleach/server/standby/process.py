"""A process of a machine: it holds copies of other brokers, and runs its own broker while it is that one's primary.

    no view yet, or primary ──▶ PrimaryRun ── deposed ──▶ host only: the own store is a replica ── promoted ─┐
              ▲                      └── its broker has left the tree ──▶ host only ── not needed ──▶ end    │
              └──────────────────────────────────────────────────────────────────────────────────────────────┘

Rule 1: where a register says that another machine is the primary, the broker is not started: its store is a replica.
Rule 2: ports keep their addresses, whether the broker listens there or only its host.
Rule 3: a broker that was promoted on this machine and is not its own has a process of its own (`run_promoted`), which
        ends when it is deposed: then the host has its member again.
Rule 4: a machine whose own broker has left for good tells others that it is leaving, too, and ends once it is not
        needed (host.py, rule 4). SIGTERM ends it sooner.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from pleach.core.messages import Node
from pleach.core.standby.member import StandbyConfig, StandbyMember
from pleach.core.standby.messages import Alive
from pleach.core.standby.views import Machine, View
from pleach.errors import PleachError
from pleach.net.addresses import Address, parse_address
from pleach.net.tls_layer import TlsSide
from pleach.server.bugs import end_on_bugs, watched
from pleach.server.daemon import BrokerReady, Daemon
from pleach.server.door.transport_security import TransportSecurity
from pleach.server.http.routes import Route
from pleach.server.leaving import Leaving
from pleach.server.links import Port
from pleach.server.node import EXIT_DEPOSED, EXIT_DISK
from pleach.server.opening import open_store
from pleach.server.settings import BrokerSettings
from pleach.server.signals import on_signals
from pleach.server.standby.broker_files import files_of
from pleach.server.standby.driving import tick_seconds
from pleach.server.standby.host import StandbyHost
from pleach.server.standby.host_port import HostPort
from pleach.server.standby.host_site import HostSite, StandbyPages
from pleach.server.standby.launch_settings import addresses_in, beside_peers, usable_port
from pleach.server.standby.launcher import BrokerLauncher, Ended, LaunchingHost
from pleach.server.standby.links import MemberLinks, ProcessId
from pleach.server.standby.messages import HostIsHere
from pleach.server.standby.primary_seat import MachineHost, PrimarySeat
from pleach.server.standby.registers import RegisterFile, broker_folder, display, machine_of
from pleach.server.standby.settings import StandbySettings
from pleach.server.ticking import keep_ticking

OPENING_SECONDS_MAX = 300.0  # of a store: a primary that takes longer is replaced
LISTENS = ("client_listen", "peer_listen", "admin_listen")
HERE_SECONDS = 2.0  # between two reports of a machine that runs no broker

log = logging.getLogger(__name__)


class ProcessSettings:
    """The settings of a process, as they are now, and what follows from them."""

    def __init__(self, settings: BrokerSettings, reload: Callable[[], BrokerSettings]) -> None:
        """Raises CertificateError where files of [tls] are unusable."""
        self._kept = {key: _with_port(getattr(settings, key), key) for key in LISTENS}
        self.current = msgspec.structs.replace(settings, **self._kept)  # rule 2
        self.on_reload: Callable[[], None] = lambda: None
        self._reload = reload
        self.security = TransportSecurity(lambda: self.current, settings.tls) if settings.tls else None

    @property
    def standby(self) -> StandbySettings:
        return self.current.standby or StandbySettings()

    def config(self) -> StandbyConfig:
        return self.standby.config

    def reload(self) -> BrokerSettings:
        """Raises SettingsError."""
        self.current = msgspec.structs.replace(self._reload(), **self._kept)
        if self.security is not None:
            self.security.settings_applied()
        self.on_reload()
        return self.current

    @property
    def address(self) -> str:
        """Where machines find this process."""
        return self.current.advertise or self.current.peer_listen

    @property
    def client_address(self) -> str:
        """Where clients ask this process for brokers."""
        return addresses_in(self.current).client

    def dialling(self, name: Node) -> TlsSide | None:
        return self.security.dialling(name) if self.security is not None else None

    def listening(self, port: Port) -> TlsSide | None:
        return self.security.listening(port) if self.security is not None else None

    def links(self, name: Node, machine: Machine) -> MemberLinks:
        heartbeat = min(self.current.heartbeat, self.standby.after)
        return MemberLinks(ProcessId(name, machine, time.time_ns()), heartbeat=heartbeat, tls=self.dialling)


class PrimaryRun:
    """A broker as the primary of a view, from the opening of its store until it ends or is deposed."""

    def __init__(
        self,
        settings: ProcessSettings,
        machine: Machine,
        register: RegisterFile,
        links: MemberLinks,
        *,
        on_ready: Callable[[BrokerReady], None],
        routes: Sequence[Route] = (),
        host: MachineHost,
        silent: Sequence[Machine] = (),
        is_promoted: bool = False,
    ) -> None:
        """`silent`: members of the view that have not been heard for long. `is_promoted`: from a copy."""
        self._settings = settings
        self._on_ready = on_ready
        self._routes = routes
        self.has_left = False  # the broker, for good, and its neighbour knows
        self._daemon: Daemon | None = None
        self._began = time.monotonic()
        self._deposed: View | None = None
        member = StandbyMember(
            machine, settings.current.name, settings.config(), register=register.load(), now=time.monotonic()
        )
        self.seat = PrimarySeat(
            member,
            register,
            links,
            files=lambda: files_of(settings.current),
            on_deposed=self._depose,
            on_failed=self._fail,
            host=host,
            silent=silent,
            is_promoted=is_promoted,
        )
        if member.register is None:
            self.seat.driver.perform(member.found(settings.address))

    def tick(self) -> None:
        now = time.monotonic()
        if self._daemon is None and now - self._began < OPENING_SECONDS_MAX:
            self.seat.member.starting(now)  # a large store takes its time
        self.seat.tick()

    async def run(self, *, is_stopped: Callable[[], bool] = lambda: False) -> int:
        """Returns the exit code; EXIT_DEPOSED: another machine runs the broker."""
        try:
            return await self._run(is_stopped)
        finally:
            self.seat.end()

    async def _run(self, is_stopped: Callable[[], bool]) -> int:
        settings = self._settings.current
        opened = await asyncio.to_thread(open_store, settings, self.seat)
        assert opened.store is not None, "a broker in memory only has no copies"
        if self._deposed is not None or is_stopped():
            opened.store.close()
            return EXIT_DEPOSED if self._deposed is not None else 0
        self._daemon = Daemon(
            settings,
            reload=self._settings.reload,
            on_ready=self._on_ready,
            routes=[*self._routes, *StandbyPages(self.seat.host, self.seat).routes],
            seat=self.seat,
            opened=opened,
        )
        code = await self._daemon.run()
        self.has_left = code == 0 and self._daemon.node.features[Leaving].is_known
        if self.has_left:
            await self.seat.dissolve()
        return code

    @property
    def is_stopped(self) -> bool:
        """By a signal."""
        return self._daemon is not None and self._daemon.is_stopped

    def _depose(self, view: View) -> None:
        self._deposed = view
        if self._daemon is not None:
            self._daemon.depose(f"view {view.number}: {display(view.primary)} runs {view.broker} from here on")

    def _fail(self, reason: str) -> None:
        if self._daemon is not None:
            self._daemon.node.committer.fail(reason)
        else:
            log.critical("%s", reason)
            raise SystemExit(EXIT_DISK)


class HereReports:
    """What others are told of a machine while it runs no broker of its own: where it is, and whether it is leaving."""

    def __init__(self, settings: ProcessSettings, machine: Machine, links: MemberLinks, join: Sequence[str]) -> None:
        self.is_leaving = False
        self._settings = settings
        self._machine = machine
        self._life = links.own.life
        self._join = join
        self._told_at = -math.inf

    def leave(self) -> None:
        self.is_leaving, self._told_at = True, -math.inf

    def tick(self, host: StandbyHost) -> None:
        if time.monotonic() - self._told_at > HERE_SECONDS and host.say_here(self._here(), self._join):
            self._told_at = time.monotonic()

    def _here(self) -> HostIsHere:
        settings, name, zone = self._settings, self._settings.current.name, self._settings.current.zone
        since = time.time_ns() if self.is_leaving else self._life
        places = settings.address, zone, settings.client_address
        return HostIsHere(name, 0, since, self._machine, *places, is_leaving=self.is_leaving)


class MachineProcess:
    def __init__(
        self,
        settings: BrokerSettings,
        *,
        reload: Callable[[], BrokerSettings],
        on_ready: Callable[[BrokerReady], None],
        routes: Sequence[Route] = (),
        has_broker: bool = True,
        join: Sequence[str] = (),
    ) -> None:
        """`has_broker`: whether a broker of this name belongs to this process.

        `join`: addresses of processes that run brokers, which tell others of this machine. Raises StoreError.
        """
        assert settings.data_dir, "copies are on disk"
        name, data_dir = settings.name, Path(settings.data_dir)
        self._settings = ProcessSettings(settings if has_broker else beside_peers(settings), reload)
        self._on_ready = on_ready
        self._routes = routes
        self._has_broker = has_broker
        self._machine = machine_of(data_dir, name)
        self._register = RegisterFile(broker_folder(data_dir, name))
        self._links = self._settings.links(name, self._machine)
        self._here = HereReports(self._settings, self._machine, self._links, join)
        process = self._settings
        launching = LaunchingHost(
            self._machine, lambda: process.current, lambda: process.address, lambda: process.client_address
        )
        self._host = StandbyHost(
            data_dir,
            self._machine,
            self._links,
            self._settings.config,
            BrokerLauncher(launching, self._launched_ended),
            own=name if has_broker else "",
            on_own_promoted=self._promoted,
        )
        self._settings.on_reload = self._host.reload
        self._links.on_here = self._met
        self._primary: PrimaryRun | None = None
        self._site: HostSite | None = None  # while it is host only
        self._is_stopped = False
        self._is_promoted = False  # the own broker, since this process holds its copy
        self._silent: Sequence[Machine] = ()  # members of the view, when the own broker was promoted here
        self._wake = asyncio.Event()  # while it is host only: it stops, or is promoted

    def _launched_ended(self, broker: Node, _why: Ended) -> None:
        self._host.ended(broker)

    async def run(self) -> int:
        """Until a signal or a failure ends it; returns the exit code."""
        end_on_bugs(asyncio.get_running_loop())
        on_signals(self.stop, self._asked_to_reload)
        self._links.start()
        ticking = watched(keep_ticking(self._tick, lambda: tick_seconds(self._settings.standby.after)))
        try:
            self._host.begin()
            return await self._run()
        finally:
            ticking.cancel()
            await self._host.stop()
            await self._links.stop()

    async def _run(self) -> int:
        register = self._register.load()
        leads = self._has_broker and (register is None or register.view.primary == self._machine)
        while not self._is_stopped:
            if leads:
                code = await self._lead()
                if self._here.is_leaving and not self._is_stopped:
                    await self._leave()
                if code != EXIT_DEPOSED:
                    return code
            else:
                await self._hold()
            leads = not leads
        return 0

    def _tick(self) -> None:
        if self._primary is not None:
            self._primary.tick()
        else:
            self._here.tick(self._host)
        self._host.tick()
        if self._here.is_leaving and self._host.leave():
            self._wake.set()

    def _met(self, here: HostIsHere) -> None:
        """A machine that runs no broker may hold copies: whoever runs one here tells the others."""
        self._links.send_here(here)
        if self._primary is not None:
            self._primary.seat.meet_host(here)

    # As the primary ------------------------------------------------------------------------------------------

    async def _lead(self) -> int:
        self._primary = PrimaryRun(
            self._settings,
            self._machine,
            self._register,
            self._links,
            on_ready=self._on_ready,
            routes=self._routes,
            host=self._host,
            silent=self._silent,
            is_promoted=self._is_promoted,
        )
        try:
            return await self._primary.run(is_stopped=lambda: self._is_stopped)
        finally:
            self._is_stopped = self._is_stopped or self._primary.is_stopped
            if self._primary.has_left:
                self._here.leave()
            self._primary = None
            on_signals(self.stop, self._asked_to_reload)  # the broker had its own

    # As a host only ------------------------------------------------------------------------------------------

    async def _leave(self) -> None:
        """Rule 4."""
        self._has_broker = False
        if needed_for := self._host.needed_for:
            log.info("this process ends once other machines have what it has of %s", ", ".join(needed_for))
        await self._hold()

    async def _hold(self) -> None:
        """Until the own broker is promoted here, the process stops, or it is not needed any more."""
        settings = self._settings.current
        self._wake.clear()
        ports = {each: self._host_port(each) for each in Port}
        site = self._site = HostSite(settings, self._host, self._settings.security)
        await ports[Port.PEERS].listen(settings.peer_listen)
        await ports[Port.CLIENTS].listen(settings.client_listen)
        admin = await site.listen()
        if self._has_broker:
            self._host.take_up(settings.name)
        if not self._here.is_leaving:
            self._on_ready(BrokerReady(settings.name, "", settings.peer_listen, admin, durable=True))
        if not self._is_stopped:
            await self._wake.wait()
        self._site = None
        await site.close()
        for port in ports.values():
            await port.close()

    def _host_port(self, port: Port) -> HostPort:
        name = self._settings.current.name
        return HostPort(
            self._links,
            f"{name} has been removed from the tree" if self._here.is_leaving else f"{name} runs on another machine",
            tls=partial(self._settings.listening, port),
            locate=lambda broker: self._host.refer(broker or name, port),
            port=port,
        )

    def _promoted(self, silent: Sequence[Machine]) -> None:
        self._silent, self._is_promoted = silent, True
        self._wake.set()

    # Signals -------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        log.info("stopping")
        self._is_stopped = True
        self._wake.set()

    def _asked_to_reload(self) -> None:
        try:
            self._settings.reload()
            if self._site is not None:
                self._site.reload()
        except PleachError as error:
            log.error("the settings stay as they are: %s", error)  # noqa: TRY400 - the sentence says it all


async def run_promoted(
    settings: BrokerSettings,
    *,
    machine: Machine,
    folder: Path,
    host: MachineHost,
    silent: Sequence[Machine] = (),
    on_ready: Callable[[BrokerReady], None],
    reload: Callable[[], BrokerSettings],
) -> int:
    """Run a broker that was promoted on this machine, whose host is another process; returns the exit code.

    `folder`: the host's, for this broker, with its register. `silent`: members that have not been heard for long.
    """
    end_on_bugs(asyncio.get_running_loop())
    process = ProcessSettings(settings, reload)
    links = process.links(settings.name, machine)
    links.start()
    register = RegisterFile(folder)
    primary = PrimaryRun(
        process, machine, register, links, on_ready=on_ready, host=host, silent=silent, is_promoted=True
    )
    links.on_here = primary.seat.meet_host

    def tick() -> None:
        if primary.seat.member.leadership is None:
            return  # the host speaks for this broker meanwhile, and is not kept by what is being read here
        primary.tick()
        links.send(settings.name, machine, host.address, Alive(settings.name, primary.seat.member.number))

    ticking = watched(keep_ticking(tick, lambda: tick_seconds(process.standby.after)))
    try:
        code = await primary.run()
        if primary.has_left:
            register.path.unlink(missing_ok=True)
        return code
    finally:
        ticking.cancel()
        await links.stop()


def _with_port(text: str, key: str) -> str:
    """An address with a port that it keeps, where any was wanted. Raises SettingsError."""
    place = parse_address(text, key=key)
    return str(Address(place.host, place.port or usable_port(place.host, 0)))
