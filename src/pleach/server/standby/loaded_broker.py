"""The process of a promoted broker (`python -m pleach.server.standby.loaded_broker`), as launcher.py starts it.

It does what `pleach broker --config SETTINGS` does, and imports less, since the broker's place in the tree is empty
while it is being loaded. The path of the settings comes as a line on its standard input: until then it waits.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from pleach.errors import PleachError
from pleach.net.loops import relax_collector, run_loop
from pleach.server.daemon import BrokerReady, Daemon
from pleach.server.logs import set_up_logs
from pleach.server.settings import load_settings
from pleach.server.standby.launcher import READY

EXIT_UNUSABLE = 2


def main() -> int:
    try:
        file = Path(sys.stdin.readline().rstrip("\n"))
    except KeyboardInterrupt:
        return 0
    return run_broker(file) if file.name else 0  # it is not needed


def run_broker(file: Path) -> int:
    try:
        settings = load_settings(file, {}, {})
        set_up_logs(settings.name, settings.log_level, as_json=settings.json_logs)
        relax_collector()

        def announce(ready: BrokerReady) -> None:
            line = msgspec.json.encode({"ready": True, **ready._asdict()})
            (file.parent / READY).write_bytes(line + b"\n")

        async def run() -> int:
            return await Daemon(settings, reload=lambda: load_settings(file, {}, {}), on_ready=announce).run()

        return run_loop(run())
    except PleachError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
