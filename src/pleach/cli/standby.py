"""`pleach standby`: a machine that holds copies of brokers, and runs those whose machines are lost."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from pleach.cli.actions import with_actions
from pleach.server.settings import BrokerSettings, load_settings


def standby(
    named: Annotated[str | None, typer.Argument(metavar="NAME", help="The same as --name.")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings in TOML, as a broker's; flags win over it.")] = None,
    name: Annotated[str | None, typer.Option(help="The machine's name, unique in the network.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Keep copies in this directory.")] = None,
    peer_listen: Annotated[str | None, typer.Option(help="HOST:PORT for brokers that have copies here.")] = None,
    admin_listen: Annotated[str | None, typer.Option(help="HOST:PORT for /healthz /readyz /status.")] = None,
    advertise: Annotated[str | None, typer.Option(help="HOST:PORT that brokers dial.")] = None,
    join: Annotated[str | None, typer.Option(help="HOST:PORT[,HOST:PORT] of brokers, for neighbours.")] = None,
    after: Annotated[float | None, typer.Option(help="Seconds of silence until a copy takes over.")] = None,
    zone: Annotated[str | None, typer.Option(help="Location: copies are in another zone, if there is one.")] = None,
    tls: Annotated[Path | None, typer.Option(help="Files of `pleach certs broker`: TLS on all ports.")] = None,
    access: Annotated[Path | None, typer.Option(help="The access file of the network, as brokers have it.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    json_logs: Annotated[bool | None, typer.Option("--json-logs", help="Log JSON objects, to stderr.")] = None,
) -> None:
    """Hold copies of brokers until SIGTERM. It prints one JSON line with its addresses when it is ready.

    Brokers learn of it by the brokers that it joins, or by their settings: `standby = { at = ["127.0.0.1:7301"] }`.

    Example: `pleach standby m1 --peer-listen 127.0.0.1:7301 --data-dir data/m1 --join 127.0.0.1:7201`
    """
    given = {
        "name": name or named,
        "data_dir": str(data_dir) if data_dir else None,
        "peer_listen": peer_listen,
        "admin_listen": admin_listen,
        "advertise": advertise,
        "standby": {"after": after} if after else {},
        "zone": zone,
        "tls": {"directory": str(tls)} if tls else None,
        "access": {"file": str(access)} if access else None,
        "log_level": log_level,
        "json_logs": json_logs,
    }
    flags = {key: value for key, value in given.items() if value is not None}

    def load() -> BrokerSettings:
        return load_settings(config, os.environ, flags)

    raise typer.Exit(_run(load(), load, join.split(",") if join else []))


def _run(settings: BrokerSettings, reload: Callable[[], BrokerSettings], join: Sequence[str]) -> int:
    # Imported here: only a process that runs needs these modules.
    from pleach.net.loops import relax_collector, run_loop  # noqa: PLC0415
    from pleach.server.daemon import BrokerReady  # noqa: PLC0415
    from pleach.server.logs import set_up_logs  # noqa: PLC0415
    from pleach.server.standby.process import MachineProcess  # noqa: PLC0415

    def announce(ready: BrokerReady) -> None:
        line: dict[str, Any] = {"ready": True, **ready._asdict()}
        typer.echo(msgspec.json.encode(line).decode())

    async def run() -> int:
        return await MachineProcess(settings, reload=reload, on_ready=announce, has_broker=False, join=join).run()

    set_up_logs(settings.name, settings.log_level, as_json=settings.json_logs)
    relax_collector()
    return run_loop(run())


command = with_actions(standby, promote="pleach.cli.moves")
