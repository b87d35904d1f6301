"""Three ways to move, on broker processes: a sample of what `long_run.py move-ways` does with nine of them."""

import asyncio

from pleach.lab.s4.movers import CoveringWorkload
from support.live.move_ways import Plan, compared

PLAN = Plan(clients=6, family=6, seconds=2.0, pause=0.4, links=(("a", "b"), ("c", "b")), routes=(("a", "c"),))
SECONDS_MAX = 200.0
PATH_LINKS = 2


async def cells(place):
    return [cell async for cell in compared(place, PLAN, [CoveringWorkload.COVERED])]


def test_each_way_is_measured_and_a_transaction_costs_eight_messages_per_link(tmp_path):
    found = asyncio.run(asyncio.wait_for(cells(tmp_path), SECONDS_MAX))
    by_way = {(cell.routing, cell.way): cell for cell in found}
    assert len(by_way) == 4
    assert all(cell.moves >= PLAN.clients for cell in found)
    assert by_way["simple", "transaction"].messages_per_move == 8 * PATH_LINKS
    assert by_way["covering", "covering"].messages_per_move < 8 * PATH_LINKS, "five of six move in silence"
