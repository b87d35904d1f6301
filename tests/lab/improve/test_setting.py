"""S1 Tables 5.1, 5.2 and A.1, and how networks, jobs and loads come about."""

from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from pleach.core.optimise.cache import HASHES, shape_for
from pleach.lab.improve.rounds import Tuning
from pleach.lab.improve.setting import TICKS_PER_SLOT, Change, Setting, eras_of, events_of, stays_of
from pleach.lab.waxman import TABLE_A1, Waxman
from support.optimise.agent import Tuning as AgentTuning

SMALL = Setting(brokers=30, jobs=40, ticks=80_000, network=Waxman(domains=5, nodes_per_domain=20))


def test_table_5_1():
    default = Setting()
    assert (default.brokers, default.jobs, default.subscribers) == (100, 50, 9)
    assert (default.publication_interval, default.reassignment_interval) == (5, 2500)
    assert (default.processing_max, default.communication_max, default.load_min) == (10, 10, 0.1)


def test_table_5_2():
    tuning, agent = Tuning("ci"), AgentTuning()
    assert TICKS_PER_SLOT == 250
    assert (tuning.radius, tuning.cache_size, shape_for(tuning.cache_size).bits, HASHES) == (3, 4608, 55_296, 7)
    assert (agent.radius, agent.cache_size, agent.update_interval) == (3, 4608, 281)


def test_table_a_1():
    assert (TABLE_A1.domains, TABLE_A1.nodes_per_domain, TABLE_A1.side, TABLE_A1.square) == (100, 100, 1000, 100)
    assert (TABLE_A1.beta, TABLE_A1.links_per_node) == (0.2, 2)


def test_jobs_have_brokers_of_their_own_and_are_always_somewhere():
    stays = stays_of(SMALL, 1, eras_of(SMALL, 1))
    for job in range(SMALL.jobs):
        mine = [stay for stay in stays if stay.job == job]
        assert [stay.start for stay in mine] == [0, *(stay.end for stay in mine[:-1])]
        assert mine[-1].end == SMALL.slots
    assert all(len(set(stay.members)) == 1 + SMALL.subscribers for stay in stays)


def test_jobs_move_about_every_2500_ticks_and_publish_every_5():
    stays = stays_of(SMALL, 2, eras_of(SMALL, 2))
    assert fmean(stay.end - stay.start for stay in stays) * TICKS_PER_SLOT == pytest.approx(2_625, rel=0.08)
    gaps = np.diff(events_of(SMALL, 2)[0])
    assert gaps.mean() == pytest.approx(5, rel=0.05)
    assert gaps.std() == pytest.approx(5, rel=0.1)
    assert len(stays_of(replace(SMALL, reassignment_interval=0.0), 2, eras_of(SMALL, 2))) == SMALL.jobs


def test_clients_go_where_the_load_is():
    eras = eras_of(SMALL, 3)
    hosted = np.bincount([b for stay in stays_of(SMALL, 3, eras) for b in stay.members], minlength=SMALL.brokers)
    assert np.corrcoef(hosted, eras[0].load)[0, 1] > 0.9


def test_with_locality_subscribers_are_nearer_to_their_publisher():
    """As its name says; (5.16) as printed has it the other way round."""

    def apart(locality):
        setting = replace(SMALL, locality=locality)
        eras = eras_of(setting, 4)
        costs = eras[0].costs.communication
        return fmean(costs[s.members[0], s.members[1:]].mean() for s in stays_of(setting, 4, eras))

    assert apart(1.0) < apart(0.5) < apart(0.0)


def test_costs_change_at_once_or_step_by_step():
    abrupt = eras_of(replace(SMALL, change=Change.ABRUPT), 5)
    assert [era.slot * TICKS_PER_SLOT for era in abrupt] == [0, 25_000, 50_000]
    slow = eras_of(replace(SMALL, change=Change.SLOW), 5)
    ticks = [era.slot * TICKS_PER_SLOT for era in slow]
    assert (ticks[:3], ticks[-1]) == ([0, 25_000, 26_000], 55_000)
    steps = np.diff([era.costs.processing[7] for era in slow])
    assert np.allclose(steps, steps[0])


def test_networks_of_experiments_5_and_6_are_the_same_for_all_seeds():
    one, other = (eras_of(replace(SMALL, change=Change.ABRUPT), seed) for seed in (1, 2))
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a.costs.communication, b.costs.communication)
        assert not np.array_equal(a.costs.processing, b.costs.processing)
    assert not np.array_equal(one[0].costs.communication, one[1].costs.communication)
