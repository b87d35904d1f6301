"""Operators beside others who change the tree: the council, a steward, another operator."""

import asyncio

import pytest

from pleach.core.messages import RequestSwap
from pleach.core.overlay.plans import PlanPhase, remove_broker
from pleach.errors import CycleError
from pleach.operate.apply import Directory, apply_plan, pursue
from pleach.operate.survey import BrokerStatus, NeighbourStatus, Survey, settled_survey
from support.live.daemons import chain

STORY_SECONDS_MAX = 120.0


def found(links):
    names = sorted({name for link in links for name in link})
    around = {name: {y if x == name else x for x, y in links if name in (x, y)} for name in names}
    statuses = {
        name: BrokerStatus(name, True, True, [], {n: NeighbourStatus(True, 0) for n in around[name]}, {})
        for name in names
    }
    return Survey(statuses, dict.fromkeys(names, ""))


@pytest.mark.parametrize(
    ("links", "is_settled"),
    [
        ([("a", "b"), ("b", "c")], True),
        ([("a", "b"), ("b", "c"), ("a", "c")], False),  # the new link was seen, and the old one before it went
        ([("a", "b"), ("c", "d")], False),  # the old one was seen to have gone, before the new one came
    ],
)
def test_a_survey_in_the_middle_of_an_exchange_is_not_settled(links, is_settled):
    assert found(links).is_settled == is_settled


def test_a_cycle_that_stays_is_told():
    with pytest.raises(CycleError):
        found([("a", "b"), ("b", "c"), ("a", "c")]).topology()


def removed(tmp_path, *, meanwhile, tries):
    """Remove b of a–b–c; the outcome, the plans that were made for it, and the tree."""

    async def story():
        plans = []
        async with chain(tmp_path) as running:
            places = [running.ready["a"].admin]

            async def apply(plan, seen):
                plans.append(plan)
                if len(plans) == 1:
                    await meanwhile(running)
                return await apply_plan(plan, Directory.of(seen), seconds_max=20.0)

            seen = await settled_survey(places)
            outcome = await pursue(seen, lambda found: remove_broker(found.topology(), "b"), apply, tries=tries)
            if outcome.complete:
                assert await running.ended("b") == 0
            return outcome, plans, (await settled_survey(places)).topology()

    return asyncio.run(asyncio.wait_for(story(), STORY_SECONDS_MAX))


async def swapped(running):
    end = await running.node("a").operations.request(RequestSwap("council", "a", "b", "c"))
    assert not end.refusal


async def nothing(_running):
    pass


def test_a_plan_is_made_anew_where_others_have_changed_the_tree(tmp_path):
    outcome, plans, tree = removed(tmp_path, meanwhile=swapped, tries=2)
    assert outcome.complete
    assert len(plans) == 2
    assert tree.links == (("a", "c"),)


def test_it_is_made_once_where_nobody_else_is_at_work(tmp_path):
    outcome, plans, _ = removed(tmp_path, meanwhile=nothing, tries=8)
    assert (outcome.complete, len(plans)) == (True, 1)


def test_one_that_is_to_be_tried_once_is_tried_once(tmp_path):
    outcome, plans, _ = removed(tmp_path, meanwhile=swapped, tries=1)
    assert [left.phase for left in outcome.unfinished] == [PlanPhase.REFUSED, PlanPhase.WAITING]
    assert len(plans) == 1
