"""What fingers must be when a ring has been at rest for a round of refreshes, and what look-ups may cost then.

A wrong finger gives no wrong answer: only this notices that fingers are not refreshed, or that look-ups go round.
"""

from __future__ import annotations

from bisect import bisect_left
from math import ceil, log2
from random import Random

from pleach.core.ring.lookups import Mode

HOPS_BEYOND = 2  # the last hop to the owner, and one that the successor list ends at
LOOK_UPS = 40
ROUNDS = 2.5  # of refreshes, each of which takes one period for each bit of a key, at most


def rest(network, config):
    """Long enough for every host to refresh all its fingers, with its own period, after the last change."""
    network.run(network.now + ROUNDS * (config.bits + 2) * config.stabilise_every)


def flaws_of_fingers(hosts, config):
    """Each finger is the first host at or after its key; where none is stored, the one below reaches as far."""
    keys = sorted(host.me.key for host in hosts)
    return [flaw for host in hosts for flaw in _flaws_of(host, keys, config)]


def _flaws_of(host, keys, config):
    me, view, size = host.me.key, host.view, config.circle.size
    for number in range(view.first_finger, config.bits):
        owner = _first_at(keys, (me + (1 << number)) % size)
        reached = view.fingers.get(number) or _lower(view, number, config)
        if owner == me:
            reached = None if number in view.fingers else me
        found = getattr(reached, "key", reached)
        if found != owner:
            yield f"finger {number} of {me} leads to {found}, not to {owner}"


def _lower(view, number, config):
    """The highest finger below, which stands for this one where it reaches as far; else the last successor."""
    lower = [view.fingers[each] for each in sorted(view.fingers) if each < number]
    candidates = [*view.successors[-1:], *lower]
    me = view.me.key
    return next((each for each in candidates[::-1] if config.circle.distance(me, each.key) >= 1 << number), None)


def _first_at(keys, key):
    return keys[bisect_left(keys, key) % len(keys)]


def dear_look_ups(network, config, seed):
    """Look-ups that fail, or ask more hosts than log2 n and a few."""
    stream, hosts = Random(f"look-ups/{seed}"), sorted(network.hosts)
    limit = ceil(log2(max(2, len(hosts)))) + HOPS_BEYOND
    asked = {}
    for _ in range(LOOK_UPS):
        name, key, mode = stream.choice(hosts), stream.randrange(config.circle.size), stream.choice(list(Mode))
        asked[network.look_up(name, key, mode)] = f"{name} looks for {key} ({mode.name.lower()})"
    network.run(network.now + 2 * config.find_within)
    found = {number: getattr(network.found.get(number), "hops", None) for number in asked}
    return [
        f"{asked[number]}: {'no answer' if hops is None else f'{hops} hops, of {limit} at most'}"
        for number, hops in found.items()
        if hops is None or hops > limit
    ]
