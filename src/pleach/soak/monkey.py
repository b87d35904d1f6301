"""The monkey: chooses what happens to a network next, from its seed and from what it sees. It has no clock.

Rule 1: at first one action at a time, and the network becomes whole after each; later several overlap.
Rule 2: no two actions under way have to do with the same machine, since one would undo what the other does.
Rule 3: a machine is destroyed only while no other is away: a network survives the loss of one machine at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

from pleach.core.messages import Node
from pleach.core.overlay.plans import Topology
from pleach.faults.damage import PARTS
from pleach.soak import actions
from pleach.soak.actions import Action, busy_with, kind_of, touches
from pleach.soak.settings import COMPONENT, PRICE_MAX, SoakSettings

SPARE_BROKERS = 2  # so many more, or fewer, than at the beginning
STORM_FILTERS_MAX = 60
SUBSCRIBERS = ("s-", "m")  # names of clients begin so
COMPONENT_SHARE = 0.25  # of movements, where there are components
TRIES_MAX = 20
SLOW_SECONDS = (0.005, 0.06)  # an eighth of what counts as silence is twice that
AWAY = (actions.Kill, actions.PowerCut, actions.Upgrade, actions.Stop, actions.Partition, actions.Leave)
LONE = (actions.Destroy,)
TREE_KINDS = frozenset({"swap", "exchange", "join", "leave"})


@dataclass(frozen=True)
class Seen:
    """What the monkey sees. `homes`: the machine of each broker. `clients`: the broker of each."""

    tree: Topology
    homes: Mapping[Node, Node]
    machines: tuple[Node, ...]
    clients: Mapping[Node, Node]
    under_way: Sequence[Action] = ()

    @property
    def busy(self) -> frozenset[Node]:
        """Machines and brokers of actions that are under way, and the machines of these brokers."""
        return busy_with(self.under_way, self.homes)

    @property
    def free_brokers(self) -> list[Node]:
        return [each for each in self.tree.brokers if not {each, self.homes.get(each, each)} & self.busy]

    @property
    def free_machines(self) -> list[Node]:
        """Those with brokers on them come twice, since more happens there."""
        free = [name for name in self.machines if name not in self.busy]
        return sorted([*free, *(name for name in free if name in self.homes.values())])


class Monkey:
    def __init__(self, settings: SoakSettings) -> None:
        self._settings = settings
        self._rng = Random(f"{settings.seed}/monkey")
        self._numbers = count(1)
        self._done = 0
        self._unsettled = 0  # actions since the network was whole
        self._draw: dict[str, Callable[[Seen], Action | None]] = {
            "swap": self._swap,
            "exchange": self._exchange,
            "join": self._join,
            "leave": self._leave,
            "move_client": self._move_client,
            "storm": self._storm,
            "traffic": self._traffic,
            "move_broker": self._move_broker,
            "kill": self._kill,
            "power_cut": self._power_cut,
            "upgrade": self._upgrade,
            "destroy": self._destroy,
            "stop": self._stop,
            "full_disk": self._full_disk,
            "slow_disk": self._slow_disk,
            "damage": self._damage,
            "cut": self._cut,
            "flap": self._flap,
            "partition": self._partition,
            "loss": self._loss,
            "slow": self._slow,
        }

    def pause(self, now: float) -> float | None:
        """Seconds until it acts again; None: its time is over."""
        left = self._settings.seconds - now
        return min(self._rng.expovariate(1.0 / self._settings.every), left) if left > 0 else None

    def choose(self, seen: Seen) -> Action | None:
        """None: nothing that is possible by now came to its mind."""
        if self._must_settle():
            self._unsettled = 0
            return actions.Settle()
        if len(seen.under_way) >= self._settings.overlap:
            return None
        for _ in range(TRIES_MAX):
            action = self._drawn(seen)
            if action is not None:
                self._done += 1
                self._unsettled += 1
                return action
        return None

    def _must_settle(self) -> bool:
        at_once = 1 if self._done <= self._settings.calm else self._settings.settle_every
        return self._unsettled >= at_once

    def _drawn(self, seen: Seen) -> Action | None:
        kinds = [kind for kind in self._draw if self._settings.weights.get(kind, 0.0) > 0]
        kind = self._rng.choices(kinds, [self._settings.weights[kind] for kind in kinds])[0]
        if kind in TREE_KINDS and any(kind_of(each) in TREE_KINDS for each in seen.under_way):
            return None
        action = self._draw[kind](seen)
        return action if action is not None and is_possible(action, seen) else None

    # The tree

    def _swap(self, seen: Seen) -> Action | None:
        tree = seen.tree
        triples = [(a, b, c) for b in tree.brokers for a in tree.neighbours(b) for c in tree.neighbours(b) if a != c]
        return actions.Swap(brokers=self._rng.choice(triples)) if triples else None

    def _exchange(self, seen: Seen) -> Action | None:
        tree = seen.tree
        far = [(u, v) for u in tree.brokers for v in tree.brokers if u < v and not tree.has_link(u, v)]
        if not far:
            return None
        u, v = self._rng.choice(far)
        way = tree.path(u, v)
        at = self._rng.randrange(len(way) - 1)
        return actions.Exchange(remove=(way[at], way[at + 1]), add=(u, v))

    def _join(self, seen: Seen) -> Action | None:
        if len(seen.tree) >= self._settings.brokers + SPARE_BROKERS:
            return None
        return actions.Join(broker=f"n{next(self._numbers)}", to=self._rng.choice(seen.tree.brokers))

    def _leave(self, seen: Seen) -> Action | None:
        if len(seen.tree) <= max(3, self._settings.brokers - SPARE_BROKERS):
            return None
        broker = self._one(seen.free_brokers)
        return actions.Leave(broker=broker) if broker else None

    # Clients

    def _move_client(self, seen: Seen) -> Action | None:
        components = sorted(client for client in seen.clients if client.startswith(COMPONENT))
        is_component = self._rng.random() < COMPONENT_SHARE
        client = self._one(components if is_component and components else sorted(seen.clients))
        if not client:
            return None
        others = [broker for broker in seen.tree.brokers if broker != seen.clients[client]]
        to = self._one(others)
        return actions.MoveClient(client=client, to=to) if to else None

    def _storm(self, seen: Seen) -> Action | None:
        client = self._one(sorted(name for name in seen.clients if name.startswith(SUBSCRIBERS)))
        topics = sorted(client.partition("-")[2] for client in seen.clients if client.startswith("p-"))
        if not client or len(topics) < 2:
            return None
        filters = {self._filter(topics) for _ in range(self._rng.randint(5, STORM_FILTERS_MAX))}
        return actions.Storm(client=client, filters=tuple(sorted(filters)), seconds=self._seconds(2, 20))

    def _filter(self, topics: Sequence[str]) -> str:
        one, other = sorted(self._rng.sample(topics, 2))
        return f"topic IN ('{one}', '{other}') AND price > {self._rng.randrange(PRICE_MAX // 2, PRICE_MAX)}"

    def _traffic(self, seen: Seen) -> Action | None:
        publishers = sorted(client for client in seen.clients if client.startswith("p-"))
        shares = [self._rng.paretovariate(1.5) for _ in publishers]
        mean = sum(shares) / max(1, len(shares))
        factors = {name: round(share / mean, 3) for name, share in zip(publishers, shares, strict=True)}
        return actions.Traffic(factors=factors) if factors else None

    # Machines

    def _move_broker(self, seen: Seen) -> Action | None:
        """From a machine with several to one with none, as an operator would; else anywhere."""
        homes = list(seen.homes.values())
        crowded = [each for each in seen.free_brokers if homes.count(seen.homes.get(each, each)) > 1]
        broker = self._one(crowded or seen.free_brokers)
        idle = [name for name in seen.machines if name not in seen.busy and name not in homes]
        others = [name for name in seen.machines if name not in seen.busy and name != seen.homes.get(broker or "")]
        to = self._one(idle or others)
        return actions.MoveBroker(broker=broker, to=to) if broker and to else None

    def _kill(self, seen: Seen) -> Action | None:
        broker = self._one(seen.free_brokers)
        return actions.Kill(broker=broker, seconds=self._rng.choice((0.0, 0.0, 0.3, 1.2, 5.0))) if broker else None

    def _power_cut(self, seen: Seen) -> Action | None:
        machine = self._one(seen.free_machines)
        return actions.PowerCut(machine=machine, seconds=self._seconds(0.5, 20)) if machine else None

    def _upgrade(self, seen: Seen) -> Action | None:
        machine = self._one(seen.free_machines)
        return actions.Upgrade(machine=machine) if machine else None

    def _destroy(self, seen: Seen) -> Action | None:
        machine = self._one(seen.free_machines)
        return actions.Destroy(machine=machine, fresh=f"x{next(self._numbers)}") if machine else None

    def _stop(self, seen: Seen) -> Action | None:
        machine = self._one(seen.free_machines)
        return actions.Stop(machine=machine, seconds=self._seconds(0.5, 30)) if machine else None

    def _full_disk(self, seen: Seen) -> Action | None:
        broker = self._one(seen.free_brokers)
        return actions.FullDisk(broker=broker, seconds=self._seconds(1, 20)) if broker else None

    def _slow_disk(self, seen: Seen) -> Action | None:
        broker = self._one(seen.free_brokers)
        delay = round(self._rng.uniform(0.02, 0.5), 3)
        return actions.SlowDisk(broker=broker, delay=delay, seconds=self._seconds(2, 20)) if broker else None

    def _damage(self, seen: Seen) -> Action | None:
        broker = self._one(seen.free_brokers)
        parts = sorted(PARTS)
        share = round(self._rng.uniform(0.05, 0.5), 2)
        return actions.Damage(broker=broker, what=self._rng.choice(parts), share=share) if broker else None

    # Links

    def _link(self, seen: Seen) -> tuple[Node, Node] | None:
        """Between the machines of two neighbours."""
        found = {
            (min(ends), max(ends))
            for a, b in seen.tree.links
            if len(ends := {seen.homes.get(a, a), seen.homes.get(b, b)}) == 2 and not ends & seen.busy
        }
        return self._rng.choice(sorted(found)) if found else None

    def _cut(self, seen: Seen) -> Action | None:
        link = self._link(seen)
        return actions.Cut(link=link, seconds=self._seconds(0.2, 30)) if link else None

    def _flap(self, seen: Seen) -> Action | None:
        link = self._link(seen)
        every = round(self._rng.uniform(0.3, 2.0), 2)
        return actions.Flap(link=link, every=every, seconds=self._seconds(5, 20)) if link else None

    def _partition(self, seen: Seen) -> Action | None:
        free = sorted({*seen.free_machines})
        if len(free) < 2:
            return None
        side = tuple(sorted(self._rng.sample(free, self._rng.choice((1, 1, 2)))))
        one_way = self._rng.random() < 0.3
        return actions.Partition(side=side, one_way=one_way, seconds=self._seconds(0.5, 15))

    def _loss(self, seen: Seen) -> Action | None:
        link = self._link(seen)
        share = round(self._rng.uniform(0.05, 0.4), 2)
        return actions.Loss(link=link, share=share, seconds=self._seconds(5, 30)) if link else None

    def _slow(self, seen: Seen) -> Action | None:
        link = self._link(seen)
        low = round(self._rng.uniform(*SLOW_SECONDS), 3)
        return actions.Slow(link=link, latency=(low, 2 * low), seconds=self._seconds(5, 40)) if link else None

    # Draws

    def _one(self, names: Sequence[Node]) -> Node | None:
        return self._rng.choice(names) if names else None

    def _seconds(self, low: float, high: float) -> float:
        """Short ones more often."""
        return round(low * math.exp(self._rng.random() * math.log(high / low)), 2)


def is_possible(action: Action, seen: Seen) -> bool:
    """Rules 2 and 3."""
    if isinstance(action, LONE):
        return not any(isinstance(each, (*AWAY, *LONE, actions.MoveBroker)) for each in seen.under_way)
    if isinstance(action, AWAY) and any(isinstance(each, LONE) for each in seen.under_way):
        return False
    return not touches(action) & seen.busy
