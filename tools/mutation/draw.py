"""A seeded draw of changes, spread over rooms, and inside a room over operators.

A room is a folder. Its share grows with the root of its size: large rooms get more, small ones enough to say something.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

from mutation.sites import Site, sites

ROOMS = ("core", "server")


@dataclass(frozen=True, slots=True)
class Mutant:
    number: int
    site: Site

    @property
    def room(self) -> str:
        return str(Path(self.site.path).parent)


def modules(package: Path) -> dict[str, str]:
    """Sources by path below the package."""
    found = sorted(path for room in ROOMS for path in (package / room).rglob("*.py"))
    return {str(path.relative_to(package)): path.read_text() for path in found}


def draw(package: Path, seed: int, count: int) -> list[Mutant]:
    sources = modules(package)
    stream = random.Random(seed)  # noqa: S311
    rooms = defaultdict[str, list[Site]](list)
    for path, source in sources.items():
        rooms[str(Path(path).parent)] += sites(path, source)
    drawn = list[Site]()
    for room, share in _shares({room: len(found) for room, found in rooms.items()}, count).items():
        drawn += _of_room(rooms[room], share, sources, stream)
    return [Mutant(number, site) for number, site in enumerate(drawn, start=1)]


def _shares(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Parts of `count` by the root of the size; what rounding leaves goes to those that lost most by it."""
    weights = {room: size**0.5 for room, size in sorted(sizes.items())}
    exact = {room: count * weight / sum(weights.values()) for room, weight in weights.items()}
    shares = {room: int(share) for room, share in exact.items()}
    by_loss = sorted(exact, key=lambda room: shares[room] - exact[room])
    for room in by_loss[: count - sum(shares.values())]:
        shares[room] += 1
    return shares


def _of_room(found: list[Site], share: int, sources: dict[str, str], stream: random.Random) -> list[Site]:
    """One operator after the other, in an order of the seed, and of each any site; at most one in a line."""
    waiting = defaultdict[str, list[Site]](list)
    for site in stream.sample(found, len(found)):
        waiting[site.operator].append(site)
    order = stream.sample(sorted(waiting), len(waiting))
    drawn, lines = list[Site](), set[tuple[str, int]]()
    while len(drawn) < share and any(waiting.values()):
        for operator in order:
            while len(drawn) < share and waiting[operator]:
                site = waiting[operator].pop()
                if (site.path, site.line) not in lines and site.compiles(sources[site.path]):
                    lines.add((site.path, site.line))
                    drawn.append(site)
                    break
    return drawn


def found_again(mutant: Mutant, package: Path) -> Mutant | None:
    """The same change in the sources as they are now, if they still have its place."""
    path = package / mutant.site.path
    source = path.read_text() if path.is_file() else ""
    now = next((site for site in sites(mutant.site.path, source) if site.key == mutant.site.key), None)
    return Mutant(mutant.number, now) if now else None


def write(drawn: list[Mutant], path: Path) -> None:
    path.write_text("".join(json.dumps({"number": each.number, **asdict(each.site)}) + "\n" for each in drawn))


def read(path: Path) -> list[Mutant]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [Mutant(row.pop("number"), Site(**row)) for row in rows]
