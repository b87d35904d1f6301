"""Hosts without a network: any message may be next, however late, and any timer may go off before it.

Time only passes when a timer goes off. `calm` is a network that is quick: then everything must come right.
"""

from __future__ import annotations

from copy import copy, deepcopy

from pleach.core.effects import SetTimer
from pleach.core.ring.chord import RingPhase
from pleach.core.ring.effects import Cast, JoinEnded
from pleach.core.ring.host import RingHost
from support.ring.rings import flaws, peer

CALM_MAX = 60.0  # seconds until all is right
REJOIN = "join again"


class Disorder:
    def __init__(self, config):
        self.config = config
        self.now = 0.0
        self.hosts = {}
        self.messages = []  # (receiver, sender, message)
        self.timers = {}  # (host, name) → when

    def __deepcopy__(self, memo):
        """Messages are values, and shared; hosts are not."""
        other = copy(self)
        other.hosts = deepcopy(self.hosts, memo)
        other.messages, other.timers = list(self.messages), dict(self.timers)
        return other

    # What can happen ---------------------------------------------------------------------------------------------

    def come(self, key):
        host = self.hosts[peer(key).name] = RingHost(peer(key), self.config)
        self._join(host)

    def _join(self, host):
        seeds = [each.me for each in self._members() if each is not host]
        self._perform(host, host.join(seeds, now=self.now) if seeds else host.found(now=self.now))

    def _members(self):
        return [host for _, host in sorted(self.hosts.items()) if host.phase is RingPhase.MEMBER]

    def leave(self, key):
        host = self.hosts[peer(key).name]
        self._perform(host, host.leave(now=self.now))
        self.fail(key)

    def fail(self, key):
        name = peer(key).name
        del self.hosts[name]
        self.messages = [each for each in self.messages if each[0] != name]
        self.timers = {each: at for each, at in self.timers.items() if each[0] != name}

    def deliver(self, index):
        receiver, sender, message = self.messages.pop(index)
        host = self.hosts[receiver]
        self._perform(host, host.handle(sender, message, now=self.now))

    def lose(self, index):
        self.messages.pop(index)

    def ring(self, timer):
        """Messages that are under way stay there."""
        self.now = max(self.now, self.timers.pop(timer))
        host = self.hosts[timer[0]]
        if timer[1] == REJOIN:
            self._join(host)
        else:
            self._perform(host, host.handle_timer(timer[1], now=self.now))

    def _perform(self, host, effects):
        for effect in effects:
            match effect:
                case Cast(to, message) if to.name in self.hosts:
                    self.messages.append((to.name, host.me.name, message))
                case SetTimer(name, after):
                    self.timers[host.me.name, name] = self.now + after
                case JoinEnded(refusal) if refusal:  # as a driver would
                    self.timers[host.me.name, REJOIN] = self.now + 1.0

    # What must hold ------------------------------------------------------------------------------------------------

    def check(self):
        """Always, of every member (Zave: ordered successor lists without duplicates, nobody follows himself)."""
        for host in self._members():
            view = host.view
            distances = [view.circle.distance(host.me.key, each.key) for each in view.successors]
            assert all(near < far for near, far in zip([0, *distances], distances, strict=False)), view.successors
            assert len(view.successors) <= self.config.successors
            assert host.me.key in view.arc

    def calm(self):
        """All messages arrive at once, timers go off in time. Returns what is not right in the end."""
        end = self.now + CALM_MAX
        while self.now < end:
            while self.messages:
                self.deliver(0)
            if not flaws(self.hosts.values(), self.config):
                return []
            self.ring(min(self.timers, key=lambda timer: (self.timers[timer], timer)))
        return flaws(self.hosts.values(), self.config)
