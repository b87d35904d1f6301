"""What tests do in seconds, for as long as one lets it: `python tests/long_run.py AREA [options]`.

`python tests/long_run.py --help` lists the areas, `python tests/long_run.py AREA --help` the options of one. Areas of
seeds judge random networks in the simulator (`--seeds`, `--first`, `--workers`), and print for each failing seed the
command that replays it. Areas of processes start real brokers (`--seed`, `--keep`). The exit code is 1 if anything does
not hold.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple


class Area(NamedTuple):
    about: str
    seeds: int = 0  # how many there are unless told otherwise; 0: an area of processes


AREAS = {
    "contract": Area("random networks, every combination of policy and mode", 2_000),
    "overlay": Area("trees that change while events flow", 100_000),
    "exchange": Area("one link exchanged for another, by every protocol", 1_000),
    "everything": Area("all features of the simulator at once, in all combinations", 50_000),
    "pairs-explore": Area("every pair of features in the explorer, in every order of a small chain"),
    "pairs-live": Area("every pair of features on real processes"),
    "coloured": Area("the coloured overlay, damaged or reconfigured", 500),
    "stabilise": Area("damaged tables that stabilise by leases or rebuilding", 500),
    "mobility": Area("clients that move", 20_000),
    "standby-points": Area("machines destroyed at every message of every protocol, in the simulator", 100_000),
    "standby-live": Area("machines of nine brokers destroyed under load; brokers come back elsewhere"),
    "standby-partitions": Area("partitions of a network with standbys, and their cure"),
    "standby-crash-points": Area("machines destroyed at messages of every protocol, on processes"),
    "standby-rules": Area("the rules of standbys under an adversary, explored and walked through", 2_000),
    "kills": Area("`kill -9` and restart of random brokers of nine under load"),
    "crash-points": Area("`kill -9` at every message of swap, add and remove"),
    "cuts": Area("ways between two neighbours that are cut: events go on through another broker"),
    "reweave": Area("reconfigurations of a chain of five at 1,000 events/s"),
    "moves": Area("a hundred clients that move between nine brokers; with --peers elsewhere, too"),
    "move-ways": Area("three ways to move a client, side by side (S4 §5)"),
    "improve": Area("a tree that improves itself: measured costs must fall"),
    "ring": Area("brokers of a ring that come and go at once"),
    "tended": Area("brokers with the whole profile that join, are destroyed, are taken out"),
    "corruption": Area("damage to the table of a running broker, and how soon it is mended"),
    "hostile": Area("thousands of hostile connections against one broker"),
    "slow-consumer": Area("a consumer that is stopped in the middle of a stream"),
    "rights": Area("random rights, filters and events: who gets what", 100_000),
    "rights-together": Area("rights that change while trees change and clients move", 2_000),
    "frames": Area("mutated frames and messages against the codec"),
    "pictures": Area("the pictures of the dashboard in docs/images, taken anew"),
}


def main() -> int:
    return _run(parsed(sys.argv[1:]))


def parsed(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser(prog="python tests/long_run.py", description=__doc__.partition("\n")[0])
    areas = parser.add_subparsers(dest="area", metavar="AREA", required=True)
    for name, area in AREAS.items():
        module = _module(name) if name in arguments[:1] else None  # the others are not imported
        about = {"description": module.__doc__, "formatter_class": RawDescriptionHelpFormatter} if module else {}
        options = areas.add_parser(name, help=area.about, **about)
        if module:
            _add_shared(options, area)
            module.add_options(options)
    return parser.parse_args(arguments)


def _module(area: str) -> ModuleType:
    return import_module(f"support.long_runs.{area.replace('-', '_')}")


def _add_shared(parser: ArgumentParser, area: Area) -> None:
    if area.seeds:
        parser.add_argument("--seeds", type=int, default=area.seeds, help=f"how many (default: {area.seeds:,})")
        parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
        parser.add_argument("--workers", "--processes", type=int, default=2, help="processes (default: 2)")
    else:
        parser.add_argument("--seed", type=int, default=1, help="of whatever is random (default: 1)")
        parser.add_argument("--keep", type=Path, help="a directory for data and logs, which stays")


def _run(options: Namespace) -> int:
    run = _module(options.area).run
    if AREAS[options.area].seeds:
        return run(options)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        options.place = options.keep
        return run(options)
    with tempfile.TemporaryDirectory(prefix=f"pleach-{options.area}-") as scratch:
        options.place = Path(scratch)
        return run(options)


if __name__ == "__main__":
    sys.exit(main())
