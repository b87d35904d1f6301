"""The process of a stand-in: `python -m pleach.live.stand_in SETTINGS`, as a host starts it (hosting.py).

It is what `pleach broker --config SETTINGS` would be, without what only people need: a place in the tree is empty while
this is being loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pleach.errors import PleachError
from pleach.live.config import load_settings
from pleach.live.daemon import Daemon, Ready
from pleach.live.logs import set_up_logs
from pleach.live.loops import relax_collector, run_loop

EXIT_UNUSABLE = 2


def main(arguments: Sequence[str]) -> int:
    (file,) = arguments
    try:
        settings = load_settings(Path(file), {}, {})
        set_up_logs(settings.name, settings.log_level, as_json=settings.json_logs)
        relax_collector()

        async def run() -> int:
            return await Daemon(settings, reload=lambda: load_settings(Path(file), {}, {}), on_ready=_announce).run()

        return run_loop(run())
    except PleachError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_UNUSABLE


def _announce(ready: Ready) -> None:
    sys.stdout.write(msgspec.json.encode({"ready": True, **ready._asdict()}).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
