"""`kill -9` of brokers for good: a sample of what `long_run.py heal-live` does; and an operator who does not wait."""

import asyncio
import math

import pytest
from typer.testing import CliRunner

from pleach.cli.main import app
from pleach.errors import SurveyError
from support.live.fleet import Fleet
from support.live.heal_rounds import end_stand_ins, one_network

SMALL = (("a", "b"), ("b", "c"), ("b", "d"))


def test_the_place_of_a_killed_broker_is_taken_and_nothing_is_lost_but_with_it(tmp_path):
    """Seconds are for the long command, on a machine that does nothing else."""
    told = one_network([["b"]], 1, tmp_path, ordering="causal", rate=10.0, links=SMALL, grace=6.0)
    [death], verdict, explained = asyncio.run(told)
    assert verdict.clean, explained
    assert verdict.counts.deliveries > 100
    assert 0.0 < death.across < math.inf
    assert 0.0 < death.back < math.inf


@pytest.mark.slow
def test_two_neighbours_that_die_at_once_get_stand_ins_that_find_each_other(tmp_path):
    links = (*SMALL, ("c", "e"), ("a", "f"))
    rounds, verdict, explained = asyncio.run(
        one_network([["b", "c"]], 1, tmp_path, ordering="causal", rate=10.0, links=links, grace=8.0)
    )
    assert verdict.clean, explained
    assert all(death.across < math.inf and death.back < math.inf for death in rounds)


def test_an_operator_has_a_dead_broker_replaced_at_once_and_a_living_one_not(tmp_path):
    async def story():
        async with Fleet(tmp_path, "--heal-after=3600", "--heartbeat=0.3") as fleet:
            await fleet.grow([("a", "b"), ("b", "c")])
            via = ["--via", fleet.directory.admin["a"]]
            await fleet.until_kin_is_known()
            refused = await told("overlay", "heal", "b", *via)
            assert refused.exit_code == 1
            assert "b answers: it is alive" in refused.stdout
            fleet.processes["b"].kill()
            await fleet.ended("b")
            unknown = await told("overlay", "heal", "z", *via)
            assert isinstance(unknown.exception, SurveyError)
            done = await told("overlay", "heal", "b", "--json", *via)
            assert done.exit_code == 0, done.stdout
            assert '"stand_in_at":"a"' in done.stdout
            shown = await told("overlay", "show", *via)
            assert shown.exit_code == 0
            assert "b stand-in (serving)" in shown.stdout
            assert "stand-in" in (await told("overlay", "status", *via)).stdout

    try:
        asyncio.run(story())
    finally:
        end_stand_ins(tmp_path)


async def told(*words):
    return await asyncio.to_thread(CliRunner().invoke, app, list(words))
