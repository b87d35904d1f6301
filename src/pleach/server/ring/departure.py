"""How a broker goes for good: its links go to one of its neighbours, its clients as well, and so it is a leaf, and out.

It plans like an operator (`pleach overlay remove`), and again where somebody else changed the tree meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from pleach.core.overlay.plans import remove_broker
from pleach.errors import InvalidInputError, SurveyError
from pleach.net.addresses import backoff
from pleach.operate.apply import Directory, apply_plan
from pleach.operate.survey import settled_survey
from pleach.server.node import BrokerNode

STEP_SECONDS_MAX: Final = 10.0  # a broker that is asked may be gone meanwhile: then the plan is made anew

log = logging.getLogger(__name__)


async def depart(node: BrokerNode, seconds_max: float) -> str:
    """Returns why this broker is still in the tree, or nothing. The last one of a tree stays in it."""
    clock = asyncio.get_running_loop().time
    deadline, pauses = clock() + seconds_max, backoff()
    reason = ""
    while node.broker.router.neighbours:
        reason = await _tried(node)
        if not reason or clock() > deadline:
            return reason
        log.info("%s is still in the tree: %s", node.name, reason)
        await asyncio.sleep(next(pauses))
    return ""


async def _tried(node: BrokerNode) -> str:
    try:
        found = await settled_survey([node.directory.places.admin])
        plan = remove_broker(found.topology(), node.name)
    except (SurveyError, InvalidInputError) as error:
        return str(error)
    # Without a disk, sessions of clients that are not connected end with the process, one way or the other.
    detach_absent = not node.is_durable
    outcome = await apply_plan(plan, Directory.of(found), detach_absent=detach_absent, seconds_max=STEP_SECONDS_MAX)
    return "" if outcome.complete else "; ".join(map(str, outcome.unfinished))
