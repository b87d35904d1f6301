"""The process of a promoted broker (`python -m pleach.server.standby.loaded_broker`), as launcher.py starts it.

It does what `pleach broker` does, and imports less, since the broker's place in the tree is empty while it is being
loaded. A line on its standard input tells it which broker it is (LaunchOrder): until then it waits.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from pleach.errors import PleachError
from pleach.net.loops import relax_collector, run_loop
from pleach.server.daemon import BrokerReady
from pleach.server.logs import set_up_logs
from pleach.server.standby.launch_settings import read_settings
from pleach.server.standby.launcher import READY, LaunchOrder
from pleach.server.standby.primary_seat import MachineHost
from pleach.server.standby.process import run_promoted
from pleach.server.standby.registers import replace_file


def main() -> int:
    try:
        line = sys.stdin.readline().strip()
    except KeyboardInterrupt:
        return 0
    return run_broker(msgspec.json.decode(line, type=LaunchOrder)) if line else 0  # it is not needed


def run_broker(order: LaunchOrder) -> int:
    folder = Path(order.folder)
    try:
        settings = read_settings(folder)
        set_up_logs(settings.name, settings.log_level, as_json=settings.json_logs)
        relax_collector()

        def announce(ready: BrokerReady) -> None:
            line = msgspec.json.encode({"ready": True, **ready._asdict()})
            replace_file(folder / READY, line + b"\n")

        async def run() -> int:
            return await run_promoted(
                settings,
                machine=order.machine,
                folder=folder,
                host=MachineHost(order.host_address, order.host_client_address),
                silent=order.silent,
                on_ready=announce,
                reload=lambda: read_settings(folder),
            )

        return run_loop(run())
    except PleachError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
