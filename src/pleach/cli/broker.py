"""`pleach broker`: run one broker of a network."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import typer

from pleach.cli.actions import with_actions
from pleach.errors import SettingsError
from pleach.server.profile import Part
from pleach.server.settings import BrokerSettings, effective, load_settings, parse_components, parse_peers

Relay: TypeAlias = Annotated[
    bool | None, typer.Option("--relay", help="Links whose way is cut lead through another broker.")
]
Replace: TypeAlias = Annotated[
    bool | None, typer.Option("--replace", help="Take the place of a broker of this name that is lost for good.")
]
Without: TypeAlias = Annotated[
    list[Part] | None, typer.Option(metavar="PART", help=f"In a ring: leave out {', '.join(Part)}; may be repeated.")
]
DebugFaults: TypeAlias = Annotated[
    bool | None, typer.Option("--debug-faults", help="Allow POST /debug/… to damage this broker, for tests.")
]


def broker(
    named: Annotated[str | None, typer.Argument(metavar="NAME", help="The same as --name.")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings in TOML; flags win over it.")] = None,
    name: Annotated[str | None, typer.Option(help="The broker's name, unique in the network.")] = None,
    client_listen: Annotated[str | None, typer.Option(help="HOST:PORT for clients; port 0: any free one.")] = None,
    peer_listen: Annotated[str | None, typer.Option(help="HOST:PORT for neighbours.")] = None,
    admin_listen: Annotated[str | None, typer.Option(help="HOST:PORT for /healthz /readyz /metrics /status.")] = None,
    advertise: Annotated[str | None, typer.Option(help="HOST:PORT that other brokers dial.")] = None,
    client_advertise: Annotated[str | None, typer.Option(help="HOST:PORT that clients dial.")] = None,
    admin_advertise: Annotated[str | None, typer.Option(help="HOST:PORT that operators use.")] = None,
    peer: Annotated[list[str] | None, typer.Option(help="A neighbour to dial: NAME=HOST:PORT.")] = None,
    neighbour: Annotated[list[str] | None, typer.Option(help="A neighbour that dials this broker.")] = None,
    component: Annotated[list[str] | None, typer.Option(help="A component kind to host: KIND=MODULE:FACTORY.")] = None,
    welcome: Annotated[list[str] | None, typer.Option(help="A broker that may join here later; * for any.")] = None,
    ring: Annotated[bool | None, typer.Option("--ring", help="Found a ring, for others to --join.")] = None,
    join: Annotated[str | None, typer.Option(help="Join a ring: HOST:PORT[,HOST:PORT] of members' peer ports.")] = None,
    without: Without = None,
    parent: Annotated[str | None, typer.Option(help="The neighbour towards the root (hierarchical, rebuild).")] = None,
    routing: Annotated[str | None, typer.Option(help="flooding, simple, identity, covering or merging.")] = None,
    hierarchical: Annotated[bool | None, typer.Option(help="Subscriptions are sent towards the root only.")] = None,
    advertisements: Annotated[bool | None, typer.Option(help="Publishers must advertise first.")] = None,
    merge_bound: Annotated[float | None, typer.Option(help="Share of a merged filter that is not asked for.")] = None,
    ordering: Annotated[str | None, typer.Option(help="Order to keep: none, fifo or causal.")] = None,
    exchange: Annotated[str | None, typer.Option(help="Default protocol of reconfigurations.")] = None,
    stabilise: Annotated[str | None, typer.Option(help="Repair of damaged tables: leases or rebuild.")] = None,
    refresh: Annotated[float | None, typer.Option(help="Repair: seconds between renewals.")] = None,
    period: Annotated[float | None, typer.Option(help="Repair: seconds until entries expire.")] = None,
    standby_after: Annotated[float | None, typer.Option(help="Seconds of silence until a copy takes over.")] = None,
    copies: Annotated[int | None, typer.Option(help="Of the data directory, on as many machines: 2 or 3.")] = None,
    improve: Annotated[bool | None, typer.Option("--improve", help="Improve the tree with the neighbours.")] = None,
    improve_dry_run: Annotated[bool | None, typer.Option("--improve-dry-run", help="Only log improvements.")] = None,
    relay: Relay = None,
    access: Annotated[Path | None, typer.Option(help="Principals and their rights, in TOML.")] = None,
    tls: Annotated[Path | None, typer.Option(help="Files of `pleach certs broker`: TLS on all ports.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Keep the state in this directory.")] = None,
    replace: Replace = None,
    heartbeat: Annotated[float | None, typer.Option(help="Seconds between heartbeats.")] = None,
    zone: Annotated[str | None, typer.Option(help="Location, for the dashboard and for link costs.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    json_logs: Annotated[bool | None, typer.Option("--json-logs", help="Log JSON objects, to stderr.")] = None,
    debug_faults: DebugFaults = None,
    validate: Annotated[bool, typer.Option("--validate", help="Print the effective settings and exit.")] = False,
) -> None:
    """Run a broker until SIGTERM. It prints one JSON line with its addresses when it is ready.

    Example: `pleach broker a --ring --peer-listen 127.0.0.1:7201`, and `pleach broker b --join 127.0.0.1:7201`
    """
    listens = _given(client_listen=client_listen, peer_listen=peer_listen, admin_listen=admin_listen)
    told = _given(advertise=advertise, client_advertise=client_advertise, admin_advertise=admin_advertise)
    own = _given(name=_one_name(named, name), log_level=log_level, json_logs=json_logs, debug_faults=debug_faults)
    leases, copied = _table(kind=stabilise, refresh=refresh, period=period), _table(after=standby_after, copies=copies)
    loop = _council(improve, improve_dry_run)
    wanted = _less(without, stabilise=leases, standby=copied, improve=loop, relay=_on(relay), data_dir=_text(data_dir))
    kept = _given(heartbeat=heartbeat, zone=zone, replace=replace)
    routes = _given(parent=parent, routing=routing, hierarchical=hierarchical, advertisements=advertisements)
    rules = _given(merge_bound=merge_bound, ordering=ordering, exchange=exchange, welcome=welcome or None)
    tables = _given(tls=_table(directory=_text(tls)), access=_table(file=_text(access)), ring=_ring(ring, join))
    others = _named(peer, neighbour, component)
    given = {**listens, **told, **own, **wanted, **others, **kept, **routes, **rules, **tables}
    _validate_or_run(lambda: load_settings(config, os.environ, given), is_run=not validate)


def _one_name(named: str | None, name: str | None) -> str | None:
    if named and name and named != name:
        raise SettingsError("name", f"{named!r} is given, and --name {name!r}", "leave one of them out", source="flags")
    return name or named


def _named(peer: list[str] | None, neighbour: list[str] | None, component: list[str] | None) -> dict[str, Any]:
    return _given(
        neighbours=neighbour or None,
        peers=parse_peers(peer, source="--peer") if peer else None,
        components=parse_components(component, source="--component") if component else None,
    )


def _text(path: Path | None) -> str | None:
    return str(path) if path else None


def _given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _table(**values: Any) -> dict[str, Any] | None:
    return _given(**values) or None


def _less(parts: Iterable[Part] | None, **values: Any) -> dict[str, Any]:
    """Settings by their flags, and what is left out. Raises SettingsError where something is both."""
    given = _given(**values)
    for part in parts or ():
        if part.setting in given:
            reason = f"--without {part} is given, and flags that set it"
            raise SettingsError(part.setting, reason, "leave one of them out", source="flags")
        given[part.setting] = part.nothing
    return given


def _ring(found: bool | None, join: str | None) -> dict[str, Any] | None:
    return _table(found=found, join=join.split(",") if join else None)


def _on(is_on: bool | None) -> dict[str, Any] | None:
    """A table that takes every default."""
    return {} if is_on else None


def _council(is_on: bool | None, is_dry: bool | None) -> dict[str, Any] | None:
    return _given(dry_run=is_dry) if is_on or is_dry else None


def _validate_or_run(load: Callable[[], BrokerSettings], *, is_run: bool) -> None:
    settings = load()
    if not is_run:
        _check_files(settings)
        typer.echo(effective(settings))
        return
    raise typer.Exit(_run(settings, load))


def _check_files(settings: BrokerSettings) -> None:
    """Raises CertificateError where certificates are unusable, AccessError where the access file is."""
    if settings.tls is not None:
        from pleach.server.door.transport_security import TransportSecurity  # noqa: PLC0415

        TransportSecurity(lambda: settings, settings.tls)
    if settings.access is not None:
        from pleach.access.access_file import load_access  # noqa: PLC0415

        load_access(Path(settings.access.file))


def _run(settings: BrokerSettings, reload: Callable[[], BrokerSettings]) -> int:
    # Imported here: only a process that runs a broker needs these modules.
    from pleach.net.loops import relax_collector, run_loop  # noqa: PLC0415
    from pleach.server.daemon import BrokerReady, Daemon  # noqa: PLC0415
    from pleach.server.kept_ports import chosen_ports, keep_ports, with_ports  # noqa: PLC0415
    from pleach.server.logs import set_up_logs  # noqa: PLC0415
    from pleach.server.standby.process import MachineProcess  # noqa: PLC0415
    from pleach.web.live_source import LiveSource  # noqa: PLC0415
    from pleach.web.site import Dashboard  # noqa: PLC0415

    chosen = chosen_ports(settings)
    settings = with_ports(settings, chosen)
    own: list[str] = []  # the dashboard polls this broker first, once it listens
    source = LiveSource(lambda: own, f"seen from {settings.name}")
    dashboard = Dashboard(source)

    def announce(ready: BrokerReady) -> None:
        own[:] = [ready.admin] if ready.admin else []
        keep_ports(settings, {f"{door}_listen": getattr(ready, door) for door in ("client", "peer", "admin")})
        line = {"ready": True, **ready._asdict()}
        typer.echo(msgspec.json.encode(line).decode())

    async def run() -> int:
        kind = Daemon if settings.standby is None else MachineProcess
        return await kind(
            settings, reload=lambda: with_ports(reload(), chosen), on_ready=announce, routes=dashboard.routes
        ).run()

    set_up_logs(settings.name, settings.log_level, as_json=settings.json_logs)
    relax_collector()
    return run_loop(run())


command = with_actions(broker, move="pleach.cli.moves")
