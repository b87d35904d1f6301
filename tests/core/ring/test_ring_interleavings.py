"""Joins, leaves and failures in any order, with any messages still under way: in the end ring and tree are right."""

import pickle
from copy import deepcopy
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pleach.core.ring.config import RingConfig
from pleach.core.ring.pending_answers import ANSWERS
from support.ring.unordered_hosts import Disorder
from support.thorough import FACTOR

CONFIG = RingConfig(bits=4, successors=3, survey_every=10.0)
KEYS = range(16)
STATES_MAX = 300 * FACTOR
SCHEDULES = 90 * FACTOR


class DisorderlyRing(RuleBasedStateMachine):
    """Failures are few enough, and far enough between, for somebody to know somebody who is left."""

    def __init__(self):
        super().__init__()
        self.world = Disorder(CONFIG)
        self.gone = 0

    @initialize(keys=st.lists(st.sampled_from(KEYS), min_size=3, max_size=6, unique=True))
    def begin(self, keys):
        for key in keys:
            self.world.come(key)
            assert self.world.calm() == []

    def _keys(self):
        return sorted(host.me.key for host in self.world.hosts.values())

    @rule(key=st.sampled_from(KEYS))
    def come(self, key):
        if key not in self._keys():
            self.world.come(key)

    @precondition(lambda self: self.gone < CONFIG.successors - 1 and len(self.world._members()) > 3)
    @rule(data=st.data(), is_fair=st.booleans())
    def go(self, data, is_fair):
        key = data.draw(st.sampled_from([host.me.key for host in self.world._members()]))
        self.gone += 1
        (self.world.leave if is_fair else self.world.fail)(key)

    @precondition(lambda self: self.world.messages)
    @rule(data=st.data(), count=st.integers(1, 8))
    def deliver(self, data, count):
        for _ in range(min(count, len(self.world.messages))):
            self.world.deliver(data.draw(st.integers(0, len(self.world.messages) - 1)))

    @precondition(lambda self: self.world.messages)
    @rule(data=st.data())
    def lose(self, data):
        self.world.lose(data.draw(st.integers(0, len(self.world.messages) - 1)))

    @precondition(lambda self: self.world.timers)
    @rule(data=st.data())
    def ring(self, data):
        self.world.ring(data.draw(st.sampled_from(sorted(self.world.timers))))

    @rule()
    def calm_down(self):
        assert self.world.calm() == []
        self.gone = 0

    @invariant()
    def holds(self):
        self.world.check()

    def teardown(self):
        assert self.world.calm() == []


TestDisorderlyRing = DisorderlyRing.TestCase
TestDisorderlyRing.settings = settings(
    max_examples=15 * FACTOR, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("seed", range(3))
def test_random_schedules_with_late_messages_and_early_timers(seed):
    for number in range(SCHEDULES // 3):
        random = Random(f"{seed}/{number}")
        world = Disorder(CONFIG)
        for key in random.sample(KEYS, 5):
            world.come(key)
            assert world.calm() == []
        world.fail(random.choice([host.me.key for host in world._members()]))
        for key in random.sample([key for key in KEYS if f"h{key}" not in world.hosts], 2):
            world.come(key)
        for _ in range(random.randrange(60)):
            if world.messages and random.random() < 0.8:
                world.deliver(random.randrange(len(world.messages)))
            else:
                world.ring(random.choice(sorted(world.timers)))
            world.check()
        assert world.calm() == [], f"seed {seed}/{number}"


# Every order, for a start ---------------------------------------------------------------------------------------


def joining_side_by_side():
    world = ring_of(2, 12)
    world.come(5)
    world.come(8)
    return world


def joining_where_one_fails():
    world = ring_of(2, 7, 12)
    world.come(9)
    world.fail(12)
    return world


def joining_where_one_leaves():
    world = ring_of(2, 7, 12)
    world.come(5)
    world.leave(7)
    return world


def ring_of(*keys):
    world = Disorder(CONFIG)
    for key in keys:
        world.come(key)
        assert world.calm() == []
    return world


@pytest.mark.parametrize("begin", [joining_side_by_side, joining_where_one_fails, joining_where_one_leaves])
def test_every_order_of_the_first_messages(begin):
    """Depth-first over what may be delivered next, or wait for longer than its sender does."""
    waiting, seen = [begin()], set()
    while waiting and len(seen) < STATES_MAX:
        world = waiting.pop()
        world.check()
        state = pickle.dumps((world.hosts, sorted(map(repr, world.messages))))
        if state in seen:
            continue
        seen.add(state)
        if not world.messages or len(seen) % 50 == 0:
            assert deepcopy(world).calm() == []
        waiting.extend(successors_of(world))
    assert len(seen) > 100


def successors_of(world):
    for index in range(len(world.messages)):
        after = deepcopy(world)
        after.deliver(index)
        yield after
    for timer in sorted(timer for timer in world.timers if timer[1] == ANSWERS):
        after = deepcopy(world)
        after.ring(timer)
        yield after
