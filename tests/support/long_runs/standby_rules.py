"""The rules of standbys under an adversary: worlds explored whole, random schedules, states from which to serve again.

Every world is searched up to `--states` states; every setting is walked through by `--seeds` random schedules. From a
sample of the states of each world time passes, and a primary must serve again. Planted bugs must be found.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import NamedTuple

from pleach.explore.standby_network import StandbyNetwork
from pleach.explore.standby_plants import STANDBY_PLANTS
from pleach.explore.standby_search import StandbySearch, walk
from pleach.explore.standby_world import STANDBY_WORLDS, Bounds, Budget, StandbySetting, StandbyWorld
from support.long_runs.output import say

STEPS = 500
SERVING_SECONDS_MAX = 10.0  # times `after`
SAMPLE = 400  # states of each world
PLANT_SEEDS = 3_000

BOUNDS = Bounds(view=40, ballot=40, queue=20)
DEEP = Budget(publications=15, ticks=60, seeks=15, answers=40, breaks=10, crashes=8, deaths=1, handovers=3)
WHOLE = Budget(publications=15, ticks=150, seeks=0, answers=0, breaks=10, crashes=8, deaths=1, handovers=3)
SETTINGS = {
    "three members": StandbySetting(budget=DEEP, bounds=BOUNDS),
    "three members and a fresh machine": StandbySetting(fresh=("x",), budget=DEEP, bounds=BOUNDS),
    "five members, three copies": StandbySetting(("p", "s", "t"), ("v", "w"), wanted=3, budget=DEEP, bounds=BOUNDS),
    "three members, all messages": StandbySetting(is_reduced=False, budget=WHOLE, bounds=BOUNDS),
}
SCRIPTED = ("acknowledge-in-an-old-view", "fill-by-anyone")  # in tests/explore/test_standby_schedules.py


class Told(NamedTuple):
    text: str
    is_good: bool


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--states", type=int, default=1_000_000, help="of each world (default: 1,000,000)")
    parser.add_argument("--no-plants", action="store_true", help="do not look for planted bugs")


def run(options: Namespace) -> int:
    began = monotonic()
    is_good = True
    with ProcessPoolExecutor(options.workers) as pool:
        for told in pool.map(_call, _tasks(options)):
            say(told.text)
            is_good = is_good and told.is_good
    say(f"{monotonic() - began:.0f} s")
    return 0 if is_good else 1


def _call(task: Callable[[], Told]) -> Told:
    return task()


def _tasks(options: Namespace) -> Iterator[Callable[[], Told]]:
    for name in STANDBY_WORLDS:
        yield partial(explored, name, options.states)
    for name in SETTINGS:
        yield partial(walked, name, options.first, options.seeds)
    for plant in STANDBY_PLANTS:
        if not options.no_plants and plant not in SCRIPTED:
            yield partial(planted, plant)


def explored(name: str, states_max: int) -> Told:
    search = StandbySearch(STANDBY_WORLDS[name], states_max)
    states = []
    result = search.run(states.append)
    text = f"{name}: {result.states:,} states, {result.transitions:,} transitions, depth {result.depth}"
    if result.broken:
        return Told("\n  ".join((f"{text}: {result.broken}", *result.schedule)), is_good=False)
    text += ", all of them" if result.complete and not result.beyond else ", and there are more"
    longest, excused = 0.0, 0
    sample = states[:: max(1, len(states) // SAMPLE)]
    for state in sample:
        network = StandbyNetwork.resumed(search.world, state)
        seconds = network.seconds_to_confirm("more", SERVING_SECONDS_MAX)
        if seconds is None and network.is_able:
            return Told(f"{text}; nobody serves after\n{search.told(state)}", is_good=False)
        longest, excused = max(longest, seconds or 0.0), excused + (seconds is None)
    served = f"served again from {len(sample) - excused} of {len(sample)} within {longest:.1f} × after"
    return Told(f"{text}; {served}" + (f", {excused} lack a majority or a copy" if excused else ""), is_good=True)


def walked(name: str, first: int, seeds: int) -> Told:
    world = StandbyWorld(SETTINGS[name])
    steps = 0
    for seed in range(first, first + seeds):
        taken, broken, schedule = walk(world, seed, STEPS)
        steps += taken
        if broken:
            return Told("\n  ".join((f"{name}, seed {seed}: {broken}", *schedule)), is_good=False)
    return Told(f"{name}: {seeds:,} schedules of {steps / max(seeds, 1):.0f} steps on average", is_good=True)


def planted(plant: str) -> Told:
    world = StandbyWorld(replace(SETTINGS["three members and a fresh machine"], rules=STANDBY_PLANTS[plant]))
    for seed in range(PLANT_SEEDS):
        taken, broken, _ = walk(world, seed, STEPS)
        if broken:
            return Told(f"{plant}: found by seed {seed} after {taken} steps: {broken}", is_good=True)
    return Told(f"{plant}: NOT found by {PLANT_SEEDS:,} schedules", is_good=False)
